"""The two agents that race for the entry point, one by packaging metadata, one by reading sources.

Each turns to the other's way where its own leads to nothing: so "none" is said only after both, and whoever
wins the race, the answer is true.
"""

from collections.abc import Generator, Iterable
from typing import Final, TypeAlias

import msgspec

from callboard.demo.aside import depth
from callboard.demo.entry_found import (
    FILE_KINDS,
    Candidate,
    Place,
    by_metadata_lines,
    by_settings,
    by_sources,
    globs_of,
    line_questions,
    setting_questions,
)
from callboard.demo.entry_signs import (
    DOUBTFUL,
    METADATA_FILES,
    METADATA_LINES,
    NOTHING,
    SCRIPT,
    SOURCE_FILES,
    SOURCE_LINES,
)
from callboard.demo.facts import Found, PythonFacts
from callboard.demo.inquiry import Question, Report, Seen, Step, ask, policy_of

OTHERS_MAX: Final = 5
PARSED_MAX: Final = 5
BY_METADATA: Final = "packaging metadata"
BY_SOURCES: Final = "reading sources"

Search: TypeAlias = Generator[Step, None, list[Candidate]]

_METADATA: Final = ask("find_files", patterns=[*METADATA_FILES, *globs_of(METADATA_LINES)], limit=10)
_SOURCES: Final = ask("find_files", patterns=[*SOURCE_FILES, *globs_of(SOURCE_LINES)], limit=10)


def packager_inquiry(seen: Seen) -> Generator[Step, None, Report]:
    """Find the entry point by what the packaging metadata declares; failing that, by the sources."""
    found = yield from _by_metadata(seen)
    if _is_settled(found):
        return _report(seen, found, BY_METADATA)
    found += yield from _by_sources(seen)
    return _report(seen, found, f"{BY_METADATA}, then {BY_SOURCES}")


def reader_inquiry(seen: Seen) -> Generator[Step, None, Report]:
    """Find the entry point by reading sources; failing that, by what the packaging metadata declares."""
    found = yield from _by_sources(seen)
    if _is_settled(found):
        return _report(seen, found, BY_SOURCES)
    found += yield from _by_metadata(seen)
    return _report(seen, found, f"{BY_SOURCES}, then {BY_METADATA}")


packager_policy = policy_of(packager_inquiry)
reader_policy = policy_of(reader_inquiry)


def _by_metadata(seen: Seen) -> Search:
    yield Step("Which packaging files are here?", [_METADATA])
    found = seen.read(_METADATA, Found) or Found()
    yield Step("What do they declare?", [*setting_questions(found), *line_questions(METADATA_LINES, found)])
    candidates = _sorted([*by_settings(seen, found), *by_metadata_lines(seen, METADATA_LINES)])
    return (yield from _verified(seen, candidates))


def _by_sources(seen: Seen) -> Search:
    yield Step("Which files of this name or kind could begin a program?", [_SOURCES])
    found = seen.read(_SOURCES, Found) or Found()
    yield Step("Which of them do?", line_questions(SOURCE_LINES, found))
    candidates = _sorted(by_sources(seen, found, SOURCE_LINES))
    python = [c for c in candidates if c.kind == SCRIPT and c.entry_point.endswith(".py")][:PARSED_MAX]
    yield Step("Is that code, or text in a string?", [_parse(c.entry_point) for c in python])
    return [c for c in candidates if c not in python or _runs(seen, c.entry_point)]


def _verified(seen: Seen, candidates: list[Candidate]) -> Search:
    """Look for what the best candidate names, and say where it is."""
    best = candidates[0] if candidates else None
    if best is None or not best.target:
        return candidates
    name, _, function = best.target.partition(":")
    is_file = best.kind in FILE_KINDS
    where = ask("find_files", patterns=_file_globs(name) if is_file else _module_globs(name), limit=1)
    yield Step("Is what it names really there?", [where])
    files = [path for glob in (seen.read(where, Found) or Found()).patterns for path in glob.paths]
    said = f"{name} is not among the files here"
    if files and is_file:
        said = f"{files[0]} is there"
    elif files:
        yield Step("And the function?", [_parse(files[0])])
        said = _defined(seen, files[0], function)
    place = Place(best.place.file, best.place.line, f"{best.place.why}; {said}")
    return [msgspec.structs.replace(best, place=place), *candidates[1:]]


def _module_globs(module: str) -> list[str]:
    path = module.replace(".", "/")
    return [f"**/{path}.py", f"**/{path}/__init__.py"]


def _file_globs(path: str) -> list[str]:
    """The file, or what Node takes it for: its name without the ending, or its folder."""
    return [f"{{{path},{path}.js,{path}/index.js}}"]


def _defined(seen: Seen, path: str, function: str) -> str:
    facts = seen.read(_parse(path), PythonFacts)
    lines = [f.line for f in facts.functions if f.name == function] if facts else []
    return f"{path}:{lines[0]} defines {function}" if lines else f"{path} is its module"


def _parse(path: str) -> Question:
    return ask("parse_python", path=path)


def _runs(seen: Seen, path: str) -> bool:
    """Whether a Python file has a main part as code; one that cannot be parsed has the benefit of doubt."""
    facts = seen.read(_parse(path), PythonFacts)
    return facts is None or bool(facts.main_line or facts.problem)


def _sorted(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The best first, each once."""
    best: dict[str, Candidate] = {}
    for candidate in sorted(candidates, key=lambda each: each.order):
        best.setdefault(candidate.entry_point, candidate)
    return list(best.values())


def _is_settled(candidates: list[Candidate]) -> bool:
    return any(candidate.rank < DOUBTFUL for candidate in candidates)


def _why_not(seen: Seen, ranked: list[Candidate]) -> str:
    """Why the best candidate is no entry point, or nothing."""
    if not ranked:
        return "Nothing declares an entry point, and no file has a main part: a library, or no program."
    best = ranked[0]
    if best.rank < DOUBTFUL:
        return ""
    packaging = seen.read(_METADATA, Found) or Found()
    if any(glob.count for glob in packaging.patterns if glob.pattern in METADATA_FILES):
        return f"{best.entry_point} can be run by itself, but belongs to a package that names no program."
    if not depth(best.place.file):
        return ""
    if len(ranked) > 1:
        return f"{len(ranked)} files can be run by themselves, and none of them stands out."
    return (
        ""
        if best.entry_point.endswith(".py")
        else f"{best.entry_point} can be run, but nothing says what for."
    )


def _report(seen: Seen, found: list[Candidate], strategy: str) -> Report:
    """The best of the candidates, or none. A doubtful one stands only if there is no other."""
    ranked = _sorted(found)
    why_not = _why_not(seen, ranked)
    first = None if why_not else ranked[0]
    rest = [candidate for candidate in ranked if candidate is not first][:OTHERS_MAX]
    return {
        "entry_point": first.entry_point if first else NOTHING,
        "kind": first.kind if first else NOTHING,
        "strategy": strategy,
        "evidence": [msgspec.to_builtins(first.place)] if first else [],
        "others": [{"entry_point": c.entry_point, "kind": c.kind, "file": c.place.file} for c in rest],
        "notes": [why_not] if why_not else [],
    }
