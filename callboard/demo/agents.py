"""The cast as real agents with real tools; only the models are scripted.

The agents that summarise the modules: a surveyor, and a summariser for each module.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from textwrap import wrap
from typing import Any, Final, NamedTuple

from msgspec import Struct

from callboard.actors.protocol.limits import Limits
from callboard.demo.finders import declared, programs, racer, tester
from callboard.demo.inquiry import (
    Answer,
    Branch,
    Census,
    Depth,
    Finding,
    Inquiry,
    Module,
    Modules,
    PythonFile,
    look,
    schema_of,
    turn,
)
from callboard.demo.sources import one_line, printable
from callboard.demo.tools import ASIDE, Folder
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import ScriptedModel, call
from callboard.runtime.tools.tool import tool

PROMPT: Final = "Explain this project: how is it tested, what are its modules, where does it begin?"
_LOOKING: Final = "count_code parse_python read_config"
_BEGIN: Final = "Finds where the program begins."
_TEAM: Final = "tester surveyor packager reader runaway digger"
TASKS: Final = (
    call("task", agent="tester", prompt="Which testing framework does this project use? Give evidence."),
    call("task", agent="surveyor", prompt="Summarise the modules of this project, a sub-agent for each."),
    call("task", agents=["packager", "reader"], prompt="Where does this program begin? If nowhere: none."),
    call("task", agent="runaway", prompt="Watch this folder until nothing changes any more."),
    call("task", agent="digger", prompt="Delegate this same task to a sub-agent of your own, if you can."),
)
# A path or a quote stays whole, so that it can be copied: its line may be longer.
_wrap: Final = partial(wrap, width=80, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
MODULES_MAX: Final = 12
_PROMPT: Final = "Summarise this module.\npath: "


def surveyor(prompt: str) -> Inquiry[Modules]:
    """Find the modules, and delegate a summary of each, all at once."""
    root = yield from look(Census, "count_code", files="^[^/]*$")
    found = _modules((yield from look(list[Branch], "list_folders")))
    if root.programs or (root.files and not found):
        found.insert(0, ".")
    chosen = found[:MODULES_MAX]
    tasks = [call("task", agent="summariser", prompt=_PROMPT + json.dumps(path)) for path in chosen]
    answers = (yield f"{len(tasks)} modules: one sub-agent for each.", tasks) if tasks else ()
    return Modules(tuple(map(_summary, chosen, answers)), tuple(found[MODULES_MAX:]))


def _summary(path: str, answer: Answer) -> Module:
    return Module(path, f"No summary: {one_line(answer.content)}") if answer.is_error else answer.read(Module)


def _modules(folders: list[Branch]) -> list[str]:
    """Return the modules: those of the project before those of its authors, the larger first."""
    folders = [folder for folder in folders if folder.files]
    folders.sort(key=lambda folder: (bool(re.search(ASIDE, f"{folder.path}/")), -folder.files, folder.path))
    found: list[str] = []
    for top in [folder for folder in folders if "/" not in folder.path]:
        # `src` and `packages` hold only folders, and stand for these.
        inside = [folder.path for folder in folders if folder.path.startswith(f"{top.path}/")]
        found += [top.path] if top.own or top.path.startswith(".") else inside
    return found


def summariser(prompt: str) -> Inquiry[Module]:
    """Summarise one folder: count its code, and read the words of its files about themselves."""
    path = json.loads(prompt.partition("\npath: ")[2] or '"."')
    folder, below = ("", "[^/]*$") if path == "." else (f"{re.escape(path)}/", "")
    census = yield from look(Census, "count_code", files=f"^{folder}{below}", lines=True)
    files = yield from look(list[PythonFile], "parse_python", files=rf"^{folder}[^/]*\.py$", limit=6)
    # A package speaks in its __init__.py, a folder of scripts in its first one.
    files.sort(key=lambda file: not file.file.endswith("__init__.py"))
    says = " ".join(file.docstring for file in files[:1])
    # Languages of programs come first, if they are a tenth of the files.
    code = [name for name in census.programs if census.languages[name] * 10 >= census.files]
    names = [name for name in dict.fromkeys([*code, *census.languages]) if name != "other"]
    languages = ", ".join(names[:3]) or "No known language"
    size = f"files: {census.files:,}, lines: {census.lines:,}"
    return Module(path, one_line(f"{languages}; {size}. {says}", 400))


def host(prompt: str) -> Inquiry[str]:
    """Delegate everything at once, then sum up the reports."""
    tester, surveyor, racers, runaway, digger = yield "I delegate all of this at once.", TASKS
    modules, depth = surveyor.read(Modules), digger.read(Depth)
    lines = [*_found("Testing framework", tester), *_found("Entry point", racers)]
    lines.append(f"Modules: {len(modules.modules) or 'none'}{_failure(surveyor)}")
    lines += [f"  {module.path}: {module.summary}" for module in modules.modules]
    lines += [f"  and {len(modules.left_out)} more that were not summarised"] * bool(modules.left_out)
    dug = f"{depth.levels} levels of diggers, then refused: {depth.refused}"
    lines += [f"Runaway: {_words(runaway)}", f"Depth: {dug if depth.levels else _words(digger)}"]
    return "\n".join(chain.from_iterable(map(_wrap, map(printable, lines))))


def _found(title: str, answer: Answer) -> Iterator[str]:
    found = answer.read(Finding)
    basis = f" ({found.basis})" if found.basis != "none" else ""
    yield f"{title}: {found.answer}{basis}{_failure(answer)}"
    for place in found.evidence[:3]:
        yield f"  {place.file}{f':{place.line}' if place.line else ''}: {place.text}"
    yield from (f"  note: {note}" for note in found.notes[:3])


def _failure(answer: Answer) -> str:
    return f". {_words(answer)}" if answer.is_error else ""


def _words(answer: Answer) -> str:
    return one_line(answer.content.split("\n")[0], 200)


def runaway(prompt: str) -> Inquiry[str]:
    """Look at the folder again and again: only a limit stops this agent."""
    while True:
        yield "I look once more.", [call("list_folders", depth=1)]


def digger(prompt: str) -> Inquiry[Depth]:
    """Delegate the same task to a digger, and report how deep that went."""
    (answer,) = yield "Deeper.", [call("task", prompt=prompt)]
    below = answer.read(Depth)
    return Depth(below.levels + 1, below.refused or _words(answer))


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
            tools=list(map(tools.__getitem__, role.tools.split())),
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
