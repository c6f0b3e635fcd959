"""The agents that race for the entry point: each goes the other's way where its own leads to nothing."""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from callboard.demo.inquiry import Census, Finding, Inquiry, Line, PythonFile, Setting, ask, look
from callboard.demo.tools import ASIDE, PACKAGES
from callboard.runtime.models.scripted import call

DOUBTFUL, UNREAD, PAGE = 5, 6, 7
"""Ranks: from here on, a candidate counts only if there is no other, and a file that was not read never."""

_CONSOLE: Final = "console script"
# Names of INI files may have dots; in TOML the table of a script may go on after its name.
_DECLARED: Final = (
    (r"^(project|tool\.(poetry|flit))\.(gui-)?scripts\.(?P<name>[^.=]+)[^=]*=(?P<target>.+)", _CONSOLE),
    (r"^(options\.)?entry_points\.(console|gui)_scripts[^=]*=(?P<name>[^=]+)=(?P<target>.+)", _CONSOLE),
    (r"^(options\.)?scripts(\.\d+)?=(?P<name>(?P<target>.+))", "script"),
)
_NAME: Final = r"^((project|tool\.poetry|metadata)\.)?name$"
_RUN: Final = (
    r"^if[ \t(]+(__name__[ \t]*==|[\"']__main__[\"'][ \t]*==)"
    r"|^\w+[ \t]*(:[^=\n]+)?=[ \t]*(\w+\.)?(FastAPI|Flask|Starlette|Sanic|Quart|Litestar)\("
)
_SERVERS: Final = r"(fastapi|flask|starlette|sanic|quart|litestar)\b"
_AUTHORS: Final = (
    r"(^|/)(test_.*|.*_test|(run_?)?tests?|setup|noxfile|conftest|tasks|fabfile|versioneer)\.py$"
)
_USUAL: Final = r"(^|/)(main|app|cli|run|server|start|[aw]sgi|index)\.py$"
_PAGE: Final = "index.html"
_NOT_JUDGED: Final = r"(^|/)(Dockerfile|Containerfile|Procfile|bin/[^./]+)$"


class Candidate(NamedTuple):
    """A possible entry point; the least rank is the best. is_odd: it has not the name of a main program."""

    rank: int
    answer: str
    kind: str
    place: Line
    is_odd: bool = False


Way: TypeAlias = Callable[[], Inquiry[list[Candidate]]]


def racer(way: Way, other: Way, prompt: str) -> Inquiry[Finding]:
    """Find the entry point one way; failing that, the other way."""
    found = yield from way()
    if not any(each.rank < DOUBTFUL for each in found):
        found += yield from other()
    return (yield from _finding(found))


def declared() -> Inquiry[list[Candidate]]:
    """Return the entry points that the packaging metadata declares."""
    settings = yield from look(list[Setting], "read_config", files=PACKAGES, without=ASIDE)
    packages = [each.value for each in settings if re.search(_NAME, each.key)]
    return [found for each in settings for found in _in_setting(each, packages)]


def _in_setting(setting: Setting, packages: list[str]) -> Iterator[Candidate]:
    if setting.problem:
        yield Candidate(UNREAD, "unknown", "none", setting.place)
    for pattern, kind in _DECLARED:
        if match := re.search(pattern, f"{setting.key}={setting.value}"):
            name, target = match["name"].strip(), match["target"].strip()
            answer = target if name == target else f"{name} = {target}"
            # The command that is named like its package is the main one.
            yield Candidate(int(kind == "script"), answer, kind, setting.place, name not in packages)


def programs() -> Inquiry[list[Candidate]]:
    """Return the Python files that can be run, or served."""
    looks = [call("parse_python", files=r"(^|/)__main__\.py$", without=ASIDE)]
    looks += [call("parse_python", files=r"\.py$", without=f"{ASIDE}|{_AUTHORS}", containing=_RUN)]
    packages, files = yield from ask("Which files can be run?", list[PythonFile], looks)
    places = [Line(each.file, 0, "its name") for each in packages]
    found = [Candidate(0, place.file, "package run with python -m", place) for place in places]
    return found + [each for file in files for each in _in_source(file)]


def _in_source(file: PythonFile) -> Iterator[Candidate]:
    path, is_odd = file.file, not re.search(_USUAL, file.file)
    # A call of `Flask` may stand in a string, an import of it may not.
    servers = [name for name in file.imports if re.match(_SERVERS, name)]
    if file.problem:
        yield Candidate(UNREAD, "unknown", "none", Line(path, 0, file.problem))
    elif file.main_line:
        # A script deep in a package may be a module that tests itself.
        rank = 2 if "/" not in path or "bin/" in path else DOUBTFUL if is_odd else 4
        yield Candidate(rank, path, "script", Line(path, file.main_line, "its `__main__` part"), is_odd)
    elif servers:
        place = Line(path, file.imports[servers[0]], f"imports `{servers[0]}`")
        yield Candidate(4, path, "web application", place, is_odd)


def _finding(found: list[Candidate]) -> Inquiry[Finding]:
    """Return the best candidate, unless a package names none, or several files are as good."""
    kinds = [{}, {"files": PACKAGES, "without": ASIDE}, {"files": f"^{_PAGE}$"}, {"files": _NOT_JUDGED}]
    looks = [call("count_code", **kind) for kind in kinds]
    census, packages, pages, others = yield from ask("What else is here?", Census, looks)
    found += [Candidate(PAGE, _PAGE, "page", Line(_PAGE, 0, "its name"))] * pages.files
    ranked = sorted(found, key=lambda it: (it.rank, it.place.file.count("/"), it.is_odd, it.answer))
    also = tuple(each.answer for each in ranked[:6])
    if ranked and _is_convincing(ranked, bool(packages.files), census.is_foreign):
        return Finding(also[0], ranked[0].kind, (ranked[0].place,), also[1:])
    # Shell scripts beside a package serve its authors.
    judged = {"Python", "Shell"} if packages.files else {"Python"}
    gaps = [name for name in census.programs if name not in judged][:2]
    gaps += ["a container, a process or `bin`"] * bool(others.files)
    notes = [f"Not clear: {each.place.file}, {each.place.text}" for each in ranked[:1]]
    notes = notes or ["Nothing declares an entry point, and no file has a main part."]
    notes += [f"Not judged: programs in {name}." for name in gaps]
    is_certain = census.is_counted and not gaps and "unknown" not in also
    return Finding("none" if is_certain else "unknown", also=also, notes=tuple(notes))


def _is_convincing(ranked: list[Candidate], is_package: bool, is_foreign: bool) -> bool:
    best, is_shallow = ranked[0], "/" not in ranked[0].place.file
    if is_foreign:
        return best.rank == 0 and is_shallow
    is_alone = len(ranked) == 1 or is_shallow
    return best.rank < DOUBTFUL or (best.rank != UNREAD and is_alone and not is_package)
