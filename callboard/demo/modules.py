"""The agents that summarise the modules: a surveyor, and a summariser for each module."""

import json
import re
from typing import Final

from callboard.demo.facts import Census, Entry, Module, Modules, PythonFile
from callboard.demo.inquiry import Answer, Inquiry, ask, look
from callboard.demo.paths import ASIDE, language_of, programs
from callboard.demo.text import many, one_line
from callboard.runtime.models.scripted import call

MODULES_MAX: Final = 12
_PROMPT: Final = "Summarise this module.\npath: "


def surveyor(prompt: str) -> Inquiry[Modules]:
    """Find the modules, and delegate a summary of each, all at once."""
    root = yield from look(list[Entry], "list_files")
    looks = [call("list_files", path=path) for path in _folders(root)]
    insides = yield from ask("Which of the folders only hold folders?", list[Entry], looks)
    found = _modules(root, insides)
    chosen = found[:MODULES_MAX]
    tasks = [call("task", agent="summariser", prompt=_PROMPT + json.dumps(path)) for path in chosen]
    answers = (yield f"{len(tasks)} modules: one sub-agent for each.", tasks) if tasks else ()
    return Modules(tuple(map(_summary, chosen, answers)), tuple(found[MODULES_MAX:]))


def _modules(root: list[Entry], insides: list[list[Entry]]) -> list[str]:
    """Return the paths of the modules. `src` and `packages` hold only folders, and stand for these."""
    found: list[str] = []
    for path, inside in zip(_folders(root), insides, strict=True):
        is_module = path.startswith(".") or any(entry.kind == "file" for entry in inside)
        found += [path] if is_module else _folders(inside)
    files = {language_of(entry.path): 1 for entry in root if entry.kind == "file"}
    return [".", *found] if programs(files) or (files and not found) else found


def _folders(entries: list[Entry]) -> list[str]:
    """Return the folders with files: those of the project before those of its authors, the larger first."""
    folders = [entry for entry in entries if entry.kind == "folder" and entry.files]
    folders.sort(key=lambda entry: (bool(re.search(ASIDE, f"{entry.path}/")), -entry.files, entry.path))
    return [entry.path for entry in folders]


def _summary(path: str, answer: Answer) -> Module:
    failure = Module(path, f"No summary: {one_line(answer.content)}")
    return failure if answer.is_error else answer.read(Module)


def summariser(prompt: str) -> Inquiry[Module]:
    """Summarise one folder: count its code, and read the words of its files about themselves."""
    path = json.loads(prompt.partition("\npath: ")[2] or '"."')
    folder, below = ("", "[^/]*$") if path == "." else (f"{re.escape(path)}/", "")
    census = yield from look(Census, "count_code", files=f"^{folder}{below}", lines=True)
    files = yield from look(list[PythonFile], "parse_python", files=rf"^{folder}[^/]*\.py$", limit=6)
    # A package speaks in its __init__.py, a folder of scripts in its first one.
    files.sort(key=lambda file: not file.file.endswith("__init__.py"))
    says = " ".join(file.docstring for file in files[:1])
    size = f"{many(census.files, 'file')}, {many(census.lines, 'line')}"
    return Module(path, one_line(f"{_languages(census)}; {size}. {says}", 400))


def _languages(census: Census) -> str:
    """Name the main languages: those of programs first, if they are a tenth of the files."""
    code = [name for name in programs(census.languages) if census.languages[name] * 10 >= census.files]
    names = [name for name in dict.fromkeys([*code, *census.languages]) if name != "other"]
    return ", ".join(names[:3]) or "No known language"
