"""The host, and the two agents that show what stops an agent: a runaway and a digger."""

from collections.abc import Iterator
from typing import Final

import msgspec

from callboard.actors.protocol.request import ModelRequest
from callboard.demo.inquiry import Answer, Question, Report, Seen, ask
from callboard.demo.modules_policy import ModuleReport
from callboard.demo.names import clipped, printable
from callboard.demo.schemas import DEPTH_SCHEMA, ENTRY_SCHEMA, MODULES_SCHEMA, TESTING_SCHEMA
from callboard.runtime.models.scripted import Reply, call, say

MODULES_SHOWN: Final = 12

TESTING_TASK: Final = ask(
    "task",
    agent="tester",
    prompt="Which testing framework does this project use? Give evidence: files, lines, and why.",
    output_schema=TESTING_SCHEMA,
)
MODULES_TASK: Final = ask(
    "task",
    agent="surveyor",
    prompt="Summarise the modules of this project, with a sub-agent for each.",
    output_schema=MODULES_SCHEMA,
)
ENTRY_TASK: Final = ask(
    "task",
    agents=["packager", "reader"],
    prompt="Where does this program begin? Give evidence. For a library, say none.",
    output_schema=ENTRY_SCHEMA,
)
RUNAWAY_TASK: Final = ask("task", agent="runaway", prompt="Watch this folder until nothing changes any more.")
DIGGER_TASK: Final = ask(
    "task",
    agent="digger",
    prompt="Delegate this same task to a sub-agent of your own, as deep as it goes.",
    output_schema=DEPTH_SCHEMA,
)
TASKS: Final = (TESTING_TASK, MODULES_TASK, ENTRY_TASK, RUNAWAY_TASK, DIGGER_TASK)


class _Finding(msgspec.Struct, frozen=True):
    file: str
    why: str
    line: int = 0


class _Testing(msgspec.Struct, frozen=True):
    framework: str
    basis: str = ""
    evidence: tuple[_Finding, ...] = ()
    notes: tuple[str, ...] = ()


class _Entry(msgspec.Struct, frozen=True):
    entry_point: str
    kind: str
    strategy: str = ""
    evidence: tuple[_Finding, ...] = ()
    notes: tuple[str, ...] = ()


class _Modules(msgspec.Struct, frozen=True):
    modules: tuple[ModuleReport, ...] = ()
    left_out: tuple[str, ...] = ()
    left_out_more: int = 0


class DepthReport(msgspec.Struct, frozen=True):
    """What a digger reports."""

    levels: int
    refused: str


def host_policy(request: ModelRequest) -> Reply:
    """Delegate everything at once, in parallel; then sum up what came back."""
    seen = Seen(request.conversation)
    missing = [task for task in TASKS if seen.answer(task) is None]
    if missing:
        calls = tuple(call(task.tool, **task.arguments) for task in missing)
        return Reply(text="I delegate all of this at once.", calls=calls)
    lines = [*_testing(seen), *_entry(seen), *_modules(seen), *_stopped(seen)]
    return say("\n".join(printable(line) for line in lines))


def runaway_policy(request: ModelRequest) -> Reply:
    """Look at the folder again, for ever: only a limit stops this agent."""
    return Reply(text=f"Look {request.turn}: one more.", calls=(call("list_files", path="."),))


def digger_policy(request: ModelRequest) -> Reply:
    """Delegate to one's only sub-agent, which does the same; report how deep that went, and what ended it."""
    seen = Seen(request.conversation)
    dig = ask("task", prompt=seen.prompt, output_schema=DEPTH_SCHEMA)
    answer = seen.answer(dig)
    if answer is None:
        return Reply(text="Deeper.", calls=(call(dig.tool, **dig.arguments),))
    if any(question.tool == "report_back" for question, _ in seen.calls):
        return say("My report was not taken.")
    below = seen.read(dig, DepthReport)
    report: Report = {"levels": 1, "refused": clipped(answer.text.strip() or "refused", 300)}
    if below is not None:
        report = {"levels": below.levels + 1, "refused": below.refused}
    return Reply(calls=(call("report_back", **report),))


# --- what the host says -----------------------------------------------------------


def _testing(seen: Seen) -> Iterator[str]:
    found = seen.read(TESTING_TASK, _Testing)
    if found is None:
        yield f"Testing framework: not found out. {_failure(seen, TESTING_TASK)}"
        return
    basis = f" ({found.basis})" if found.framework != "none" else ""
    yield f"Testing framework: {found.framework}{basis}"
    yield from _places(found.evidence[:3])
    yield from (f"  note: {note}" for note in found.notes[:3])


def _entry(seen: Seen) -> Iterator[str]:
    found = seen.read(ENTRY_TASK, _Entry)
    if found is None:
        yield f"Entry point: not found out. {_failure(seen, ENTRY_TASK)}"
        return
    kind = f" ({found.kind})" if found.kind != "none" else ""
    yield f"Entry point: {found.entry_point}{kind}, by {found.strategy}"
    yield from _places(found.evidence[:2])
    yield from (f"  note: {note}" for note in found.notes[:2])


def _modules(seen: Seen) -> Iterator[str]:
    found = seen.read(MODULES_TASK, _Modules)
    if found is None:
        yield f"Modules: not found out. {_failure(seen, MODULES_TASK)}"
        return
    yield f"Modules: {len(found.modules)}" if found.modules else "Modules: none"
    for module in found.modules[:MODULES_SHOWN]:
        defines = f" Defines {', '.join(module.definitions[:4])}." if module.definitions else ""
        yield f"  {module.path}: {module.summary}{defines}"
    left = len(found.left_out) + found.left_out_more
    if left:
        yield f"  and {left} more that were not summarised"


def _stopped(seen: Seen) -> Iterator[str]:
    yield f"Runaway: {_failure(seen, RUNAWAY_TASK)}"
    depth = seen.read(DIGGER_TASK, DepthReport)
    if depth is None:
        yield f"Depth: {_failure(seen, DIGGER_TASK)}"
    else:
        yield f"Depth: {depth.levels} levels of diggers, then refused: {depth.refused}"


def _places(places: tuple[_Finding, ...]) -> Iterator[str]:
    for place in places:
        where = f"{place.file}:{place.line}" if place.line else place.file
        yield f"  {where}: {place.why}"


def _failure(seen: Seen, question: Question) -> str:
    answer: Answer | None = seen.answer(question)
    return clipped(printable(answer.text.split("\n")[0]), 200) if answer else "No answer."
