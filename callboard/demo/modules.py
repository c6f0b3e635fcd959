"""The agents that summarise the modules: a surveyor, and a summariser for each module."""

import json
import re
from typing import Final

from callboard.demo.facts import Census, Entry, Line, PythonFile
from callboard.demo.inquiry import Inquiry, ask
from callboard.demo.paths import ASIDE, language_of, programs
from callboard.demo.reports import Module, Modules
from callboard.demo.text import many, one_line
from callboard.runtime.models.scripted import call

MODULES_MAX: Final = 12
_PROMPT: Final = "Summarise this module: languages, size, what it defines.\npath: "


def surveyor(prompt: str) -> Inquiry[Modules]:
    """Find the modules, and delegate a summary of each, all at once."""
    (root,) = yield from ask("Which folders are at the top?", list[Entry], [call("list_files")])
    looks = [call("list_files", path=path) for path in _folders(root)]
    insides = yield from ask("Which of them only hold folders?", list[Entry], looks)
    found: list[str] = []
    for path, inside in zip(_folders(root), insides, strict=True):
        # `src` and `packages` hold only folders, and stand for these.
        is_module = path.startswith(".") or any(entry.kind == "file" for entry in inside)
        found += [path] if is_module else _folders(inside)
    files = {language_of(entry.path): 1 for entry in root if entry.kind == "file"}
    found = [".", *found] if programs(files) or (files and not found) else found
    chosen = found[:MODULES_MAX]
    tasks = [call("task", agent="summariser", prompt=_PROMPT + json.dumps(path)) for path in chosen]
    answers = (yield f"{len(tasks)} modules: one sub-agent for each.", tasks) if tasks else ()
    modules = tuple(
        Module(path, f"No summary: {one_line(each.content)}") if each.is_error else each.read(Module)
        for path, each in zip(chosen, answers, strict=True)
    )
    return Modules(modules, tuple(found[MODULES_MAX:]))


def _folders(entries: list[Entry]) -> list[str]:
    """Return the folders with files: those of the project before those of its authors, the larger first."""
    folders = [entry for entry in entries if entry.kind == "folder" and entry.files]
    folders.sort(key=lambda entry: (bool(re.search(ASIDE, f"{entry.path}/")), -entry.files, entry.path))
    return [entry.path for entry in folders]


def summariser(prompt: str) -> Inquiry[Module]:
    """Summarise one folder: count its code, and read the words of its files about themselves."""
    path = json.loads(prompt.partition("\npath: ")[2] or '"."')
    folder = "^" if path == "." else f"^{re.escape(path)}/"
    counts = [call("count_code", files="^[^/]*$" if path == "." else folder, lines=True)]
    (census,) = yield from ask("How much of what is here?", Census, counts)
    parses = [call("parse_python", files=folder + r"[^/]*\.py$", limit=6)]
    (files,) = yield from ask("What do its files say and define?", list[PythonFile], parses)
    looks = [call("search", pattern=r"^[A-Z][^<\[]{30}", files=f"{folder}(?i:readme)[^/]*$")]
    (readme,) = yield from ask("Is there a readme?", list[Line], looks)
    own = [file for file in files if file.file.endswith("__init__.py")] or files[:1]
    says = [*(file.docstring for file in own if file.docstring), *(line.text for line in readme), ""]
    code = [name for name in programs(census.languages) if census.languages[name] * 10 >= census.files]
    languages = [name for name in dict.fromkeys([*code, *census.languages]) if name != "other"][:3]
    size = f"{many(census.files, 'file')}, {many(census.lines, 'line')}"
    summary = one_line(f"{', '.join(languages) or 'No known language'}; {size}. {says[0]}", 400)
    return Module(path, summary, tuple(name for file in files for name in file.definitions)[:12])
