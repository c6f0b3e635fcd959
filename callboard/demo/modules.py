"""The agents that summarise the modules: a surveyor, and a summariser for each module."""

import json
import re
from typing import Final

from callboard.demo.facts import Census, Entry, Hit, PythonFile
from callboard.demo.inquiry import Inquiry, ask
from callboard.demo.paths import ASIDE, language_of, programs
from callboard.demo.reports import Module, Modules
from callboard.demo.text import many, one_line
from callboard.runtime.models.scripted import call

MODULES_MAX: Final = 12
_PROMPT: Final = "Summarise this module: languages, size, what it defines.\npath: "


def surveyor(prompt: str) -> Inquiry[Modules]:
    """Find the modules, and delegate a summary of each, all at once.

    A module is a folder at the top. One that holds only folders (`src`, `packages`) stands for those, and
    programs in the root are the module `.`.
    """
    (root,) = yield from ask("Which folders are at the top?", list[Entry], [call("list_files")])
    looks = [call("list_files", path=path) for path in _folders(root)]
    insides = yield from ask("Which of them only hold folders?", list[Entry], looks)
    found: list[str] = []
    for path, inside in zip(_folders(root), insides, strict=True):
        has_files = path.startswith(".") or any(entry.kind == "file" for entry in inside)
        found += [path] if has_files else _folders(inside)
    files = {language_of(entry.path): 1 for entry in root if entry.kind == "file"}
    found = [".", *found] if programs(files) or (files and not found) else found
    tasks = [
        call("task", agent="summariser", prompt=_PROMPT + json.dumps(path)) for path in found[:MODULES_MAX]
    ]
    answers = (yield f"{len(tasks)} modules: one sub-agent for each.", tasks) if tasks else ()
    failed = [
        Module(path, f"No summary: {one_line(each.content)}")
        for path, each in zip(found, answers, strict=False)
    ]
    modules = [bad if each.is_error else each.read(Module) for bad, each in zip(failed, answers, strict=True)]
    return Modules(tuple(modules), tuple(found[MODULES_MAX:]))


def _folders(entries: list[Entry]) -> list[str]:
    """Return the folders with files: those of the project before those of its authors, the larger first."""
    folders = [entry for entry in entries if entry.kind == "folder" and entry.files]
    folders.sort(key=lambda entry: (bool(re.search(ASIDE, f"{entry.path}/")), -entry.files, entry.path))
    return [entry.path for entry in folders]


def summariser(prompt: str) -> Inquiry[Module]:
    """Summarise one folder: count its code, and read the words of its files about themselves."""
    named = re.search(r'^path: (".*")$', prompt, re.MULTILINE)
    path = json.loads(named[1]) if named else "."
    folder = "^" if path == "." else f"^{re.escape(path)}/"
    counts = [call("count_code", files="^[^/]*$" if path == "." else folder, lines=True)]
    (census,) = yield from ask("How much of what is here?", Census, counts)
    parses = [call("parse_python", files=folder + r"[^/]*\.py$", limit=6)]
    (files,) = yield from ask("What do its files say and define?", list[PythonFile], parses)
    looks = [call("search", pattern=r"^[A-Z][^<\[]{30}", files=f"{folder}(?i:readme)[^/]*$")]
    (readme,) = yield from ask("Is there a readme?", list[Hit], looks)
    own = [file for file in files if file.path.endswith("__init__.py")] or files[:1]
    says = [file.docstring for file in own if file.docstring] + [line.text for line in readme] + [""]
    code = [
        language for language in programs(census.languages) if census.languages[language] * 10 >= census.files
    ]
    named = [language for language in dict.fromkeys([*code, *census.languages]) if language != "other"][:3]
    size = f"{many(census.files, 'file')}, {many(census.lines, 'line')}"
    summary = f"{', '.join(named) or 'No known language'}; {size}. {says[0]}"
    return Module(
        path, one_line(summary, 400), tuple(name for file in files for name in file.definitions)[:12]
    )
