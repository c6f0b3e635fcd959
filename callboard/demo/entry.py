"""The agents that race for the entry point: each goes the other's way where its own leads to nothing."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from callboard.demo.facts import Census, Finding, Line, PythonFile, Setting
from callboard.demo.inquiry import Inquiry, ask, look
from callboard.demo.paths import ASIDE, MANIFESTS, foreign, is_foreign
from callboard.runtime.models.scripted import call

_CONSOLE: Final = "console script"
DOUBTFUL, UNREAD = 5, 6
"""Ranks: of a candidate that counts only if there is no other, and of a file that does not parse."""

# Names of INI files may have dots; in TOML the table of a script may go on after its name.
_DECLARED: Final = (
    (r"^(project|tool\.(poetry|flit))\.(gui-)?scripts\.(?P<name>[^.=]+)[^=]*=(?P<target>.+)", _CONSOLE),
    (r"^(options\.)?entry_points\.(console|gui)_scripts[^=]*=(?P<name>[^=]+)=(?P<target>.+)", _CONSOLE),
    (r"^(options\.)?scripts(\.\d+)?=(?P<name>(?P<target>.+))", "script"),
)
_NAME: Final = r"^((project|tool\.poetry|metadata)\.)?name$"
_MAIN: Final = r"^if[ \t(]+(__name__[ \t]*==|[\"']__main__[\"'][ \t]*==)"
_AUTHORS: Final = (
    r"(^|/)(test_.*|.*_test|tests?|run_?tests|setup|noxfile|conftest|tasks|fabfile|versioneer)\.py$"
)
_USUAL: Final = r"(^|/)(main|app|cli|run|server|start|[aw]sgi|index)\.py$"


class Candidate(NamedTuple):
    """A possible entry point; the least is the best. is_odd: it has not the name of a main program."""

    rank: int
    depth: int
    is_odd: bool
    answer: str
    kind: str
    place: Line


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
    return (yield from look(list[Setting], "read_config", files=MANIFESTS, without=ASIDE))


def _declared(settings: list[Setting]) -> list[Candidate]:
    packages = [each.value for each in settings if re.search(_NAME, each.key)]
    return [found for each in settings for found in _declared_by(each, packages)]


def _declared_by(setting: Setting, packages: list[str]) -> Iterator[Candidate]:
    for pattern, kind in _DECLARED:
        if match := re.search(pattern, setting.text):
            name, target = match["name"].strip(), match["target"].strip()
            answer = target if name == target else f"{name} = {target}"
            rank, depth = int(kind == "script"), setting.file.count("/")
            # The command that is named like its package is the main one.
            yield Candidate(rank, depth, name not in packages, answer, kind, setting.place)


def _programs() -> Inquiry[list[Candidate]]:
    """Return the Python files that can be run."""
    looks = [call("parse_python", files=r"(^|/)__main__\.py$", without=ASIDE)]
    looks.append(call("parse_python", files=r"\.py$", without=f"{ASIDE}|{_AUTHORS}", containing=_MAIN))
    packages, files = yield from ask("Which files can be run?", list[PythonFile], looks)
    scripts = [file for file in files if file.main_line or file.problem]
    return [_module(file.file) for file in packages] + [_script(file) for file in scripts]


def _module(path: str) -> Candidate:
    return Candidate(0, path.count("/"), False, path, "package run with python -m", Line(path, 0, "its name"))


def _script(file: PythonFile) -> Candidate:
    depth, is_usual = file.file.count("/"), bool(re.search(_USUAL, file.file))
    if file.problem:
        return Candidate(UNREAD, depth, False, "unknown", "none", Line(file.file, 0, file.problem))
    # A script deep in a package may be a module that tests itself.
    rank = 4 if is_usual else DOUBTFUL
    is_shallow = not depth or "bin/" in file.file
    place = Line(file.file, file.main_line, "its `__main__` part")
    return Candidate(2 if is_shallow else rank, depth, not is_usual, file.file, "script", place)


def _finding(found: list[Candidate], settings: list[Setting]) -> Inquiry[Finding]:
    """Return the best candidate, unless a package names none, or several files are as good."""
    census = yield from look(Census, "count_code")
    is_package = any(not each.file.endswith(".ini") for each in settings)
    ranked = sorted(found)
    also = tuple(each.answer for each in ranked[:6])
    if ranked and _is_convincing(ranked[0], len(ranked) == 1, is_package, is_foreign(census.languages)):
        return Finding(also[0], ranked[0].kind, (ranked[0].place,), also[1:])
    # Shell scripts beside a package serve its authors.
    others = [name for name in foreign(census.languages) if not (is_package and name == "Shell")]
    notes = [f"Not clear: {each.place.file}, {each.place.text}" for each in ranked[:1]]
    notes = notes or ["Nothing declares an entry point, and no file has a main part."]
    notes += [f"Not judged: programs in {name}." for name in others[:2]]
    is_certain = census.is_counted and not others and "unknown" not in also
    return Finding("none" if is_certain else "unknown", also=also, notes=tuple(notes))


def _is_convincing(best: Candidate, is_only: bool, is_package: bool, is_foreign: bool) -> bool:
    if is_foreign:
        return best[:2] == (0, 0)
    is_alone = is_only or not best.depth
    return best.rank < DOUBTFUL or (best.rank < UNREAD and is_alone and not is_package)
