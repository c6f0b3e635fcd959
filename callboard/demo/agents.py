"""The cast as real agents with real tools; only the models are scripted."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from callboard.actors.protocol.limits import Limits
from callboard.demo.entry import packager, reader
from callboard.demo.facts import Depth, Finding, Module, Modules, schema_of
from callboard.demo.host import digger, host, runaway
from callboard.demo.inquiry import Policy, policy_of
from callboard.demo.modules import summariser, surveyor
from callboard.demo.tester import tester
from callboard.demo.tools import FolderTools
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import ScriptedModel
from callboard.runtime.tools.tool import Tool, tool

PROMPT: Final = "Explain this project: how is it tested, what are its modules, where does it begin?"
RUNAWAY_ITERATIONS: Final = 5
_LOOKING: Final = "count_code parse_python read_config"
_TEAM: Final = "tester surveyor packager reader runaway digger"


class Role(NamedTuple):
    """An agent of the demonstration: the policy of its model, its job, its tools, sub-agents and report."""

    policy: Policy
    job: str
    tools: str = ""
    agents: str = ""
    report: type[Struct] | None = None


CAST: Final = {
    "host": Role(policy_of(host), "Delegates every question, then sums up the reports.", agents=_TEAM),
    "tester": Role(policy_of(tester), "Finds the testing framework in use.", _LOOKING, report=Finding),
    "surveyor": Role(policy_of(surveyor), "Has modules summarised.", "list_files", "summariser", Modules),
    "summariser": Role(policy_of(summariser), "Summarises one module.", _LOOKING, report=Module),
    "packager": Role(policy_of(packager), "Finds the entry point in metadata.", _LOOKING, report=Finding),
    "reader": Role(policy_of(reader), "Finds the entry point in sources.", _LOOKING, report=Finding),
    "runaway": Role(policy_of(runaway), "Watches a folder and never stops.", "list_files"),
    "digger": Role(policy_of(digger), "Delegates its task to a digger.", agents="digger", report=Depth),
}


def demo_host(root: str | Path) -> Agent:
    """Return the host with its sub-agents, all on one folder. Raises OSError if it cannot be read."""
    tools = {name: tool(effect="read")(function) for name, function in FolderTools(root).all().items()}
    agents = {name: _agent(name, role, tools) for name, role in CAST.items()}
    for name, role in CAST.items():
        agents[name].may_delegate_to(*map(agents.__getitem__, role.agents.split()))
    return agents["host"]


def _agent(name: str, role: Role, tools: Mapping[str, Tool]) -> Agent:
    return Agent(
        name,
        description=role.job,
        tools=[tools[one] for one in role.tools.split()],
        output_schema=schema_of(role.report) if role.report else None,
        limits=Limits(max_iterations=RUNAWAY_ITERATIONS if name == "runaway" else None),
    )


def demo_model() -> ScriptedModel:
    """Return one model that plays every part: a pure function of the answers of the tools."""
    return ScriptedModel(lambda request: CAST[request.profile].policy(request), name="demo", max_tokens=4_096)
