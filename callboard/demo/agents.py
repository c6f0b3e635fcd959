"""The cast as real agents with real tools; only the models are scripted."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct

from callboard.actors.protocol.limits import Limits
from callboard.demo.entry import declared, programs, racer
from callboard.demo.facts import Depth, Finding, Module, Modules, schema_of
from callboard.demo.host import digger, host, runaway, summariser, surveyor
from callboard.demo.inquiry import Inquiry, turn
from callboard.demo.tester import tester
from callboard.demo.tools import Folder
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import ScriptedModel
from callboard.runtime.tools.tool import tool

PROMPT: Final = "Explain this project: how is it tested, what are its modules, where does it begin?"
_LOOKING: Final = "count_code parse_python read_config"
_BEGIN: Final = "Finds where the program begins."
_TEAM: Final = "tester surveyor packager reader runaway digger"


class Role(NamedTuple):
    """An agent of the demonstration: its model, job, tools, sub-agents, report, and cap of turns."""

    inquiry: Callable[[str], Inquiry[Any]]
    job: str
    tools: str = ""
    agents: str = ""
    report: type[Struct] | None = None
    turns: int | None = None


CAST: Final = {
    "host": Role(host, "Delegates every question, then sums up the reports.", agents=_TEAM),
    "tester": Role(tester, "Finds the testing framework in use.", _LOOKING, report=Finding),
    "surveyor": Role(surveyor, "Has modules summarised.", "count_code list_folders", "summariser", Modules),
    "summariser": Role(summariser, "Summarises one module.", _LOOKING, report=Module),
    "packager": Role(partial(racer, declared, programs), _BEGIN, _LOOKING, report=Finding),
    "reader": Role(partial(racer, programs, declared), _BEGIN, _LOOKING, report=Finding),
    "runaway": Role(runaway, "Watches a folder and never stops.", "list_folders", turns=5),
    "digger": Role(digger, "Delegates its task to a digger.", agents="digger", report=Depth),
}


def demo_host(root: str | Path) -> Agent:
    """Return the host with its sub-agents, all on one folder. Raises OSError if it cannot be read."""
    tools = {name: tool(effect="read")(function) for name, function in Folder(root).tools().items()}
    agents = {
        name: Agent(
            name,
            description=role.job,
            tools=[tools[one] for one in role.tools.split()],
            output_schema=schema_of(role.report) if role.report else None,
            limits=Limits(max_iterations=role.turns),
        )
        for name, role in CAST.items()
    }
    for name, role in CAST.items():
        agents[name].may_delegate_to(*map(agents.__getitem__, role.agents.split()))
    return agents["host"]


def demo_model() -> ScriptedModel:
    """Return one model that plays every part: a pure function of the answers of the tools."""
    return ScriptedModel(
        lambda request: turn(CAST[request.profile].inquiry, request), name="demo", max_tokens=4_096
    )
