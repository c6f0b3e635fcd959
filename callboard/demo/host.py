"""The host, and the two agents that show the limits that stop an agent: a runaway and a digger."""

from collections.abc import Iterator
from textwrap import wrap
from typing import Final

from callboard.demo.facts import Depth, Finding, Modules
from callboard.demo.inquiry import Answer, Inquiry
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
    lines = [*_found("Testing framework", tester), *_found("Entry point", racers), *_modules(surveyor)]
    lines += [f"Runaway: {_words(runaway)}", f"Depth: {_depth(digger)}"]
    return "\n".join(wrapped for line in lines for wrapped in _wrapped(printable(line)))


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
    found = answer.read(Finding)
    basis = f" ({found.basis})" if found.basis != "none" else ""
    yield f"{title}: {found.answer}{basis}{_failure(answer)}"
    for place in found.evidence[:3]:
        yield f"  {place.file}{f':{place.line}' if place.line else ''}: {place.text}"
    yield from (f"  note: {note}" for note in found.notes[:3])


def _modules(answer: Answer) -> Iterator[str]:
    found = answer.read(Modules)
    yield f"Modules: {len(found.modules) or 'none'}{_failure(answer)}"
    yield from (f"  {module.path}: {module.summary}" for module in found.modules)
    if found.left_out:
        yield f"  and {len(found.left_out)} more that were not summarised"


def _depth(answer: Answer) -> str:
    depth = answer.read(Depth)
    return (
        f"{depth.levels} levels of diggers, then refused: {depth.refused}" if depth.levels else _words(answer)
    )


def _failure(answer: Answer) -> str:
    return f". {_words(answer)}" if answer.is_error else ""


def _words(answer: Answer) -> str:
    return one_line(answer.content.split("\n")[0], 200)


def _wrapped(line: str) -> list[str]:
    # A path or a quote stays whole, so that it can be copied: its line may be longer.
    return wrap(line, 80, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
