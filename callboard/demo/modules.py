"""The agents that summarise the modules: a surveyor, and a summariser for each module."""

import json
import re
from typing import Final

from callboard.demo.inquiry import Answer, Branch, Census, Inquiry, Module, Modules, PythonFile, look
from callboard.demo.sources import one_line
from callboard.demo.tools import ASIDE
from callboard.runtime.models.scripted import call

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
