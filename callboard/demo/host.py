"""The host, its agents that summarise the modules, and two that run into limits: a runaway and a digger."""

import json
import re
from collections.abc import Iterator
from textwrap import wrap
from typing import Final

from callboard.demo.facts import (
    Branch,
    Census,
    Depth,
    Finding,
    Module,
    Modules,
    PythonFile,
    one_line,
    printable,
)
from callboard.demo.inquiry import Answer, Inquiry, look
from callboard.demo.paths import ASIDE, programs
from callboard.runtime.models.scripted import call

MODULES_MAX: Final = 12
TASKS: Final = (
    call("task", agent="tester", prompt="Which testing framework does this project use? Give evidence."),
    call("task", agent="surveyor", prompt="Summarise the modules of this project, a sub-agent for each."),
    call("task", agents=["packager", "reader"], prompt="Where does this program begin? If nowhere: none."),
    call("task", agent="runaway", prompt="Watch this folder until nothing changes any more."),
    call("task", agent="digger", prompt="Delegate this same task to a sub-agent of your own, if you can."),
)
_PROMPT: Final = "Summarise this module.\npath: "


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
    return "\n".join(part for line in lines for part in _wrapped(printable(line)))


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


def _wrapped(line: str) -> list[str]:
    # A path or a quote stays whole, so that it can be copied: its line may be longer.
    return wrap(line, 80, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def surveyor(prompt: str) -> Inquiry[Modules]:
    """Find the modules, and delegate a summary of each, all at once."""
    root = yield from look(Census, "count_code", files="^[^/]*$")
    found = _modules((yield from look(list[Branch], "list_folders")))
    if programs(root.languages) or (root.files and not found):
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
    code = [name for name in programs(census.languages) if census.languages[name] * 10 >= census.files]
    names = [name for name in dict.fromkeys([*code, *census.languages]) if name != "other"]
    languages = ", ".join(names[:3]) or "No known language"
    size = f"files: {census.files:,}, lines: {census.lines:,}"
    return Module(path, one_line(f"{languages}; {size}. {says}", 400))


def runaway(prompt: str) -> Inquiry[str]:
    """Look at the folder again and again: only a limit stops this agent."""
    while True:
        yield "I look once more.", [call("list_folders", depth=1)]


def digger(prompt: str) -> Inquiry[Depth]:
    """Delegate the same task to a digger, and report how deep that went."""
    (answer,) = yield "Deeper.", [call("task", prompt=prompt)]
    below = answer.read(Depth)
    return Depth(below.levels + 1, below.refused or _words(answer))
