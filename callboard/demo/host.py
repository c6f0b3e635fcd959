"""The host, and the two agents that show the limits that stop an agent: a runaway and a digger."""

from collections.abc import Iterator
from typing import Final

from callboard.demo.inquiry import Answer, Inquiry
from callboard.demo.reports import Depth, Finding, Modules
from callboard.demo.text import one_line, printable
from callboard.runtime.models.scripted import call

TASKS: Final = (
    call("task", agent="tester", prompt="Which testing framework does this project use? Give evidence."),
    call("task", agent="surveyor", prompt="Summarise the modules of this project, a sub-agent for each."),
    call(
        "task", agents=["packager", "reader"], prompt="Where does this program begin? If nowhere, say none."
    ),
    call("task", agent="runaway", prompt="Watch this folder until nothing changes any more."),
    call("task", agent="digger", prompt="Delegate this same task to a sub-agent of your own, if you can."),
)


def host(prompt: str) -> Inquiry[str]:
    """Delegate everything at once, then sum up the reports."""
    tester, surveyor, racers, runaway, digger = yield "I delegate all of this at once.", TASKS
    depth = digger.read(Depth)
    deep = f"{depth.levels} levels of diggers, then refused: {depth.refused}"
    deep = deep if depth.levels else _words(digger)
    lines = [*_found("Testing framework", tester), *_found("Entry point", racers), *_modules(surveyor)]
    return "\n".join(map(printable, [*lines, f"Runaway: {_words(runaway)}", f"Depth: {deep}"]))


def runaway(prompt: str) -> Inquiry[str]:
    """Look at the folder again and again: only a limit stops this agent."""
    while True:
        yield "I look once more.", [call("list_files", path=".")]


def digger(prompt: str) -> Inquiry[Depth]:
    """Delegate the same task to a digger, and report how deep that went."""
    (answer,) = yield "Deeper.", [call("task", prompt=prompt)]
    below = answer.read(Depth)
    return Depth(below.levels + 1, below.refused or _words(answer))


def _found(title: str, answer: Answer) -> Iterator[str]:
    found, failure = answer.read(Finding), f". {_words(answer)}" * answer.is_error
    basis = f" ({found.basis})" if found.basis != "none" else ""
    yield f"{title}: {found.answer}{basis}{failure}"
    for place in found.evidence[:3]:
        yield f"  {place.file}{f':{place.line}' if place.line else ''}: {place.text}"
    yield from (f"  note: {note}" for note in found.notes[:3])


def _modules(answer: Answer) -> Iterator[str]:
    found, failure = answer.read(Modules), f". {_words(answer)}" * answer.is_error
    yield f"Modules: {len(found.modules) or 'none'}{failure}"
    for module in found.modules:
        defines = f" Defines {', '.join(module.definitions[:4])}." if module.definitions else ""
        yield f"  {module.path}: {module.summary}{defines}"
    if found.left_out:
        yield f"  and {len(found.left_out)} more that were not summarised"


def _words(answer: Answer) -> str:
    return one_line(answer.content.split("\n")[0], 200)
