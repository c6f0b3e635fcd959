"""The agents that summarise the modules: a surveyor who fans out, and a summariser for each module.

A module is a folder at the top; a folder that holds nothing but folders (`src`, `packages`) stands for those.
Program files in the root itself are the module `.`, and so is any file where there is no other module.
"""

import json
import re
from collections.abc import Generator, Iterable
from typing import Final

import msgspec

from callboard.demo.aside import is_aside
from callboard.demo.definitions import DEFINITIONS, defined_name
from callboard.demo.facts import Census, LanguageCount, Listed, Listing, Matches, PythonFacts, TextPart
from callboard.demo.inquiry import Question, Report, Seen, Step, ask, policy_of
from callboard.demo.languages import CODE, globs_of, is_code
from callboard.demo.names import clipped, many
from callboard.demo.schemas import MODULE_SCHEMA
from callboard.demo.texts import first_sentence

MODULES_MAX: Final = 12
CONTAINERS_MAX: Final = 40
DEFINITIONS_MAX: Final = 12
PARSED_MAX: Final = 4
SUMMARISER: Final = "summariser"
_ROOT: Final = ask("list_files", path=".")
_PATH_LINE: Final = re.compile(r"^path: (\".*\")$", re.MULTILINE)


class LanguageShare(msgspec.Struct, frozen=True):
    """How much of a module is in one language, every field said."""

    language: str
    files: int
    bytes: int
    lines: int


class ModuleReport(msgspec.Struct, frozen=True):
    """What a summariser reports."""

    path: str
    summary: str
    files: int = 0
    lines: int = 0
    languages: tuple[LanguageShare, ...] = ()
    definitions: tuple[str, ...] = ()


# --- the surveyor -----------------------------------------------------------------


def surveyor_inquiry(seen: Seen) -> Generator[Step, None, Report]:
    """Find the modules, delegate a summary of each, all at once, and put the summaries together."""
    yield Step("What is at the top?", [_ROOT])
    root = seen.read(_ROOT, Listing) or Listing(".")
    folders = _folders(root)[:CONTAINERS_MAX]
    yield Step("Which folders only hold folders?", [_list(folder.path) for folder in folders])
    modules = _modules(seen, root, folders)
    chosen, left = modules[:MODULES_MAX], modules[MODULES_MAX:]
    yield Step(
        f"{len(chosen)} modules: one sub-agent for each.", [summary_task(each.path) for each in chosen]
    )
    return {
        "modules": [_summary_of(seen, each.path) for each in chosen],
        "left_out": [each.path for each in left[:50]],
        "left_out_more": max(0, len(left) - 50),
    }


def summary_task(path: str) -> Question:
    """The delegation of one module's summary."""
    prompt = f"Summarise this module: languages, size, what it defines.\npath: {json.dumps(path)}"
    return ask("task", agent=SUMMARISER, prompt=prompt, output_schema=MODULE_SCHEMA)


def _folders(listing: Listing) -> list[Listed]:
    """The folders with files in them, the most telling first."""
    return sorted((e for e in listing.entries if e.kind == "folder" and e.files), key=_telling_order)


def _telling_order(entry: Listed) -> tuple[bool, bool, int, str]:
    """The root, then what the project is made of, then what serves its authors; the larger first."""
    return entry.path != ".", is_aside(f"{entry.path}/"), -entry.files, entry.path


def _is_hidden(path: str) -> bool:
    return path.rpartition("/")[2].startswith(".")


def _modules(seen: Seen, root: Listing, folders: Iterable[Listed]) -> list[Listed]:
    found = []
    if any(entry.kind == "file" and is_code(entry.path) for entry in root.entries):
        found.append(Listed(".", "folder"))
    for folder in folders:
        found += _only_folders_of(seen, folder) or [folder]
    if not found and any(entry.kind == "file" for entry in root.entries):
        found.append(Listed(".", "folder"))
    return sorted(found, key=_telling_order)


def _only_folders_of(seen: Seen, folder: Listed) -> list[Listed]:
    """The folders in a folder that holds nothing else; for any other, and a hidden one, nothing."""
    inner = seen.read(_list(folder.path), Listing) or Listing(folder.path)
    has_files = any(entry.kind == "file" for entry in inner.entries)
    return [] if has_files or _is_hidden(folder.path) else _folders(inner)


def _summary_of(seen: Seen, path: str) -> dict[str, object]:
    """A summariser's report, or that there is none."""
    task = summary_task(path)
    report = seen.read(task, ModuleReport)
    if report is not None:
        builtins: dict[str, object] = msgspec.to_builtins(report)
        return builtins
    answer = seen.answer(task)
    why = clipped(" ".join(answer.text.split()), 200) if answer else "it was not delegated"
    return {
        "path": path,
        "summary": f"No summary: {why}",
        "files": 0,
        "lines": 0,
        "languages": [],
        "definitions": [],
    }


# --- the summariser ---------------------------------------------------------------


def summariser_inquiry(seen: Seen) -> Generator[Step, None, Report]:
    """Summarise one folder: count its code, read what its files say of themselves and define."""
    path = path_in(seen.prompt)
    census_of = ask("count_code", path=path, recursive=path != ".", lines=True)
    yield Step("How much of what is here?", [census_of, _list(path)])
    census = seen.read(census_of, Census) or Census(path)
    listing = seen.read(_list(path), Listing) or Listing(path)
    own = [entry for entry in listing.entries if entry.kind == "file"]
    python = [_parse(entry.path) for entry in _telling(own)]
    readme = [ask("read_text", path=e.path, max_bytes=1_000) for e in own if _is_readme(e.path)][:1]
    searches = {count.language: _search(path, count.language) for count in census.languages[:3]}
    defining = {language: question for language, question in searches.items() if language in DEFINITIONS}
    yield Step("What do the files say of themselves?", [*python, *readme, *defining.values()])
    facts = [found for question in python if (found := seen.read(question, PythonFacts))]
    definitions = [*_python_definitions(facts), *_other_definitions(seen, path, defining)]
    described = _described(seen, facts, readme)
    code = _main_languages(census)
    return {
        "path": path,
        "summary": _said(census, code, described),
        "files": census.files,
        "lines": sum(count.lines for count in census.languages),
        "languages": [_share(count) for count in code[:5]],
        "definitions": list(dict.fromkeys(definitions))[:DEFINITIONS_MAX],
    }


surveyor_policy = policy_of(surveyor_inquiry)
summariser_policy = policy_of(summariser_inquiry)


def _main_languages(census: Census) -> list[LanguageCount]:
    """The languages that say what a folder is: of programs first, if there are more than a few of those."""
    code = [c for c in census.languages if c.language in CODE and c.files * 10 >= census.files]
    return [*code, *(count for count in census.languages if count not in code)]


def _share(count: LanguageCount) -> object:
    share = LanguageShare(count.language, count.files, count.bytes, count.lines)
    return msgspec.to_builtins(share)


def path_in(prompt: str) -> str:
    """The path that a prompt names, as a JSON string on a line of its own; else the root."""
    match = _PATH_LINE.search(prompt)
    try:
        return msgspec.json.decode(match[1], type=str) if match else "."
    except msgspec.DecodeError:
        return "."


def _list(path: str) -> Question:
    return ask("list_files", path=path)


def _parse(path: str) -> Question:
    return ask("parse_python", path=path)


def _search(path: str, language: str) -> Question:
    patterns = [DEFINITIONS.get(language, "^$")]
    return ask("search", patterns=patterns, files=globs_of([language]), path=path, limit=24, per_file=4)


def _is_readme(path: str) -> bool:
    return path.rpartition("/")[2].lower().startswith("readme")


def _telling(files: list[Listed]) -> list[Listed]:
    """The Python files that say most: the package's own first, then the largest."""
    python = [entry for entry in files if entry.path.endswith(".py")]
    return sorted(python, key=lambda e: (not _is_init(e.path), -e.bytes, e.path))[:PARSED_MAX]


def _python_definitions(facts: list[PythonFacts]) -> Generator[str]:
    for each in facts:
        yield from (f"class {c.name}" for c in each.classes if not c.name.startswith("_"))
    for each in facts:
        yield from (f"def {f.name}" for f in each.functions if not f.name.startswith("_"))


def _other_definitions(seen: Seen, path: str, searches: dict[str, Question]) -> Generator[str]:
    """Names that lines of other languages define; of the root, only its own files'."""
    for language, question in searches.items():
        matches = seen.read(question, Matches)
        for hit in matches.patterns[0].hits if matches else ():
            name = defined_name(language, hit.text)
            if name and (path != "." or "/" not in hit.path):
                yield name


def _described(seen: Seen, facts: list[PythonFacts], readme: list[Question]) -> str:
    """What the module says of itself: its docstring, else its readme."""
    own = facts if len(facts) == 1 else [each for each in facts if _is_init(each.path)]
    docstring = next((each.docstring for each in own if each.docstring), "")
    parts = [part for question in readme if (part := seen.read(question, TextPart))]
    return first_sentence(docstring) or "".join(_first_prose(part.text) for part in parts)


def _first_prose(text: str) -> str:
    """The first sentence that stands in a paragraph of its own, headings and badges aside."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text)]
    prose = [each for each in paragraphs if each[:1].isalnum() and len(each.split()) > 4 and "==" not in each]
    return clipped(first_sentence(prose[0]), 200) if prose else ""


def _is_init(path: str) -> bool:
    return path.rpartition("/")[2] == "__init__.py"


def _said(census: Census, code: list[LanguageCount], described: str) -> str:
    if not census.files:
        return "No files."
    names = ", ".join(count.language for count in code[:3]) or "No known language"
    lines = sum(count.lines for count in census.languages)
    size = many(census.files, "file") + (f", {many(lines, 'line')}" if lines else "")
    binary = f", {census.binary:,} of them binary" if census.binary else ""
    end = "" if described.endswith((".", "!", "?", ":", "…")) or not described else "."
    return clipped(f"{names}; {size}{binary}. {described}{end}".rstrip(), 400)
