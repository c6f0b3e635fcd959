"""The agents that race for the entry point: each goes the other's way where its own leads to nothing."""

import re
from typing import Final, NamedTuple

from callboard.demo.facts import Census, Line, PythonFile, Setting
from callboard.demo.inquiry import Inquiry, ask
from callboard.demo.paths import ASIDE, MANIFESTS, programs
from callboard.demo.reports import Finding
from callboard.runtime.models.scripted import call

DOUBTFUL: Final = 5
"""From this rank on, a candidate counts only if there is no other, and no package that names none."""

_KEYS: Final = {
    r"^(project|tool\.poetry|tool\.flit)\.(gui-)?scripts\.(?P<name>[^.]+)": ("console script", 0),
    r"^(options\.)?entry_points\.(console|gui)_scripts\b": ("console script", 0),
    r"^(options\.)?scripts(\.\d+)?$": ("script", 1),
}
_NAME: Final = r"^((project|tool\.poetry|metadata)\.)?name$"
_FILES: Final = {
    r"(^|/)__main__\.py$": ("package run with python -m", 0),
    r"(^|/)manage\.py$": ("Django's command", 1),
    r"^index\.html$": ("page", 6),
}
_MAIN: Final = r"^if[ \t(]+(__name__[ \t]*==|[\"']__main__[\"'][ \t]*==)"
_AUTHORS: Final = (
    r"(^|/)(test_.*|.*_test|tests?|run_?tests|setup|noxfile|conftest|tasks|fabfile|versioneer)\.py$"
)
_USUAL: Final = ("main", "app", "cli", "run", "server", "start", "wsgi", "asgi", "index", "")
"""Names of files that are meant to be run, the most telling first."""


class Candidate(NamedTuple):
    """A possible entry point; the least is the best. order: among equals of the same rank and depth."""

    rank: int
    depth: int
    order: int
    answer: str
    kind: str
    place: tuple[str, int, str]


def packager(prompt: str) -> Inquiry[Finding]:
    """Find the entry point by packaging metadata; failing that, by sources."""
    settings = yield from _settings()
    found = _declared(settings)
    others = [] if _is_settled(found) else (yield from _programs())
    return (yield from _finding(found + others, settings))


def reader(prompt: str) -> Inquiry[Finding]:
    """Find the entry point by sources; failing that, by packaging metadata."""
    found = yield from _programs()
    settings = [] if _is_settled(found) else (yield from _settings())
    return (yield from _finding(found + _declared(settings), settings))


def _is_settled(found: list[Candidate]) -> bool:
    return any(each.rank < DOUBTFUL for each in found)


def _settings() -> Inquiry[list[Setting]]:
    reads = [call("read_config", files=MANIFESTS, without=ASIDE)]
    return (yield from ask("What do the packaging files declare?", list[Setting], reads))[0]


def _declared(settings: list[Setting]) -> list[Candidate]:
    names = [each.value for each in settings if re.search(_NAME, each.key)]
    found = []
    for each in settings:
        for match, (kind, rank) in ((re.search(key, each.key), row) for key, row in _KEYS.items()):
            if match and each.value:
                own, _, target = each.value.rpartition("=")
                name = match.groupdict().get("name") or own.strip()
                answer = f"{name} = {target.strip()}" if name else each.value
                place = (each.file, each.line, f"{each.key} `{each.value}`" if each.line else each.key)
                found.append(Candidate(rank, each.file.count("/"), name not in names, answer, kind, place))
    return found


def _programs() -> Inquiry[list[Candidate]]:
    """Return the files that can be run. A script deep in a package may be a module that tests itself."""
    looks = [call("search", pattern="", files=files, without=ASIDE) for files in _FILES]
    named = yield from ask("Which files are run for their names?", list[Line], looks)
    found = []
    for (kind, rank), lines in zip(_FILES.values(), named, strict=False):
        places = [(line.file, 0, "a file of this name is there to be run") for line in lines]
        found += [Candidate(rank, place[0].count("/"), 0, place[0], kind, place) for place in places]
    looks = [call("parse_python", files=r"\.py$", without=f"{ASIDE}|{_AUTHORS}", containing=_MAIN)]
    (files,) = yield from ask("Which have a main part, not in a string?", list[PythonFile], looks)
    for file in (file for file in files if file.main_line or file.problem):
        stem, depth = file.file.rpartition("/")[2].removesuffix(".py"), file.file.count("/")
        order = next(place for place, name in enumerate(_USUAL) if name in (stem, ""))
        rank = 2 if not depth or "bin/" in file.file else 4 if _USUAL[order] else DOUBTFUL + 1
        place = (file.file, file.main_line, file.problem or "its `__main__` part")
        if file.problem:
            found.append(Candidate(DOUBTFUL + 2, depth, order, "unknown", "none", place))
        else:
            found.append(Candidate(rank, depth, order, file.file, "script", place))
    return found


def _finding(found: list[Candidate], settings: list[Setting]) -> Inquiry[Finding]:
    """Return the best candidate, unless a package names none, or several files are as good."""
    (census,) = yield from ask("Is there more than Python?", Census, [call("count_code")])
    is_package = any(not each.file.endswith("tox.ini") for each in settings)
    languages = programs(census.languages)
    # Shell scripts beside a package serve its authors.
    others = [name for name in languages if name not in ("Python", *["Shell"][:is_package])]
    also = tuple(each.answer for each in sorted(found)[:6])
    reason = "Nothing declares an entry point, and no file has a main part: a library, or no program."
    for best in sorted(found)[:1]:
        is_foreign = languages[:1] != ["Python"] and bool(languages) and best[:2] > (0, 0)
        is_alone = not is_package and (not best.depth or len(found) == 1)
        if best.answer != "unknown" and not is_foreign and (_is_settled(found) or is_alone):
            return Finding(best.answer, best.kind, (Line(*best.place),), also[1:])
        doubt = f"{best.answer} can be run, and nothing says what for."
        reason = best.place[2] if best.answer == "unknown" else doubt
    notes = (reason, *(f"Not judged: programs in {name}." for name in others[:2]))
    is_certain = census.is_counted and not others and "unknown" not in also
    return Finding("none" if is_certain else "unknown", also=also, notes=notes)
