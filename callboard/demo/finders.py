"""The agent that finds the testing framework in use.

The agents that race for the entry point: each goes the other's way where its own leads to nothing.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from callboard.demo.inquiry import Census, Finding, Inquiry, Line, PythonFile, Setting, ask, look
from callboard.demo.tools import ASIDE, MANIFESTS, PACKAGES, SAMPLES
from callboard.runtime.models.scripted import call

PYTEST, UNITTEST, PLAIN = "pytest", "unittest", "plain tests"
BASES: Final = ("used", "configured", "run", "declared")
"""The kinds of evidence, the strongest first."""
_TESTS: Final = r"(^|/)((test_[^/]*|[^/]*_tests?|tests?|conftest)\.py|tests?/(.*/)?[^/]+\.py)$"
_COLLECTED: Final = r"(^|/)(test_[^/]*|[^/]*_test)\.py$"
_RUNNERS: Final = r"(pytest|nose2?|ward|twisted\.trial)\b"
_DOCTESTS: Final = r"^[^#\n]*\bdoctest\.(testmod|testfile|DocTestSuite|DocFileSuite)\("
_TASKS: Final = r"^(testenv[^.]*\.commands|aliases\.test|tool\.\w+\.(.*\.)?(tasks|scripts))\b.*="
_NEEDS: Final = (
    r"^(project\.(optional-)?dependencies|dependency-groups|tool\..*dependencies|(dev-)?packages|requirements"
    r"|(options\.)?(tests|install|setup|extras)_require|testenv[^.]*\.deps)\b.*[.=]"
)
_SETTINGS: Final = {
    r"^(tool[.:])?pytest\b": ("configured", PYTEST),
    _TASKS + r"(.*[ \t/])?(pytest|py\.test)([ \t]|$)": ("run", PYTEST),
    _TASKS + r".*(-m[ \t]+unittest|manage\.py[ \t]+test)": ("run", UNITTEST),
    # A plug-in such as pytest-cov is of no use without pytest.
    _NEEDS + r"[\"']?pytest(-[\w-]+)?[ \t]*([\[<>=!~;#@\\\"'.]|$)": ("declared", PYTEST),
}
_NOT_JUDGED: Final = (
    r"(^|/)([Mm]akefile|GNUmakefile|[Jj]ustfile|noxfile\.py|[^/]+\.(feature|robot))$"
    r"|(^|/)\.(github|circleci)/|(^|/)\.?(gitlab-ci|travis|azure-pipelines|Taskfile)\.ya?ml$"
)
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
_ENTRY_NOT_JUDGED: Final = r"(^|/)(Dockerfile|Containerfile|Procfile|bin/[^./]+)$"


def tester(prompt: str) -> Inquiry[Finding]:
    """Find the testing framework by test code, configuration, commands and dependencies."""
    census = yield from look(Census, "count_code")
    tests = yield from look(list[PythonFile], "parse_python", files=_TESTS, without=SAMPLES)
    settings = yield from look(list[Setting], "read_config", files=MANIFESTS, without=SAMPLES)
    seen = [*chain(*map(_in_test, tests)), *chain(*map(_in_setting, settings))]
    problems = [*(each.problem for each in tests), *(each.problem for each in settings)]
    gaps = [f"Not read: {problem}" for problem in problems if problem][:2]
    if census.is_cut:
        gaps.append("Not read: there is more here than was looked at.")
    if names := [name for name in census.programs if name != "Python"]:
        gaps.append(f"Not judged: tests in {', '.join(names)}.")
    if not seen:
        sources = {"files": r"\.py$", "without": SAMPLES, "containing": _DOCTESTS}
        found = yield from look(list[PythonFile], "parse_python", **sources)
        seen = [_imported(file, "doctest") for file in found if "doctest" in file.imports]
        others = yield from look(Census, "count_code", files=_NOT_JUDGED, without=SAMPLES)
        if others.files:
            gaps.append(f"Not judged: {others.files} files of commands, features or robots.")
    return _verdict(_attributed(seen), census, gaps)


def _in_test(file: PythonFile) -> Iterator[Finding]:
    """Yield the framework that a test file imports, else the style of its tests."""
    runners = [_imported(file, module) for module in file.imports if re.match(_RUNNERS, module)]
    # A framework looks for plain tests in files of certain names only.
    is_found = file.style == UNITTEST or re.search(_COLLECTED, file.file)
    places = [Line(file.file, line, f"defines the test `{name}`") for name, line in file.tests.items()]
    styles = [Finding(file.style, "used", (place,)) for place in places if is_found]
    # The tests of a file that imports a framework may be written in the style of another.
    yield from (runners or styles)[:1]
    if file.file.endswith("conftest.py"):
        yield Finding(PYTEST, "configured", (Line(file.file, 0, "pytest reads this file"),))


def _imported(file: PythonFile, module: str) -> Finding:
    name = re.sub(f"{_RUNNERS}.*", r"\1", module).replace("twisted.trial", "Twisted Trial")
    return Finding(name, "used", (Line(file.file, file.imports[module], f"imports `{module}`"),))


def _in_setting(setting: Setting) -> Iterator[Finding]:
    for pattern, (basis, framework) in _SETTINGS.items():
        if re.search(pattern, f"{setting.key}={setting.value}"):
            yield Finding(framework, basis, (setting.place,))


def _attributed(seen: list[Finding]) -> list[Finding]:
    """Replace each style of tests by the framework that runs them here, if anything says so."""
    runner = next((each.answer for each in seen if each.answer not in (UNITTEST, PLAIN)), PYTEST)
    counts = Counter((each.answer, each.basis) for each in seen)
    bases = {basis for name, basis in counts if name == runner}
    # A command for unittest counts for more than a configuration of pytest.
    signs = {"run"} if (UNITTEST, "run") in counts else {"run", "configured"}
    owners = {PLAIN: runner}
    if bases & signs or bases >= {"used", "declared"}:
        owners[UNITTEST] = runner
    elif counts[PLAIN, "used"] < counts[UNITTEST, "used"]:
        owners[PLAIN] = ""  # a few functions among many classes are helpers and mixins
    return [replace(each, answer=owners.get(each.answer, each.answer)) for each in seen]


def _verdict(seen: list[Finding], census: Census, gaps: list[str]) -> Finding:
    """Rank the frameworks by their strongest evidence, then by the number of places."""
    groups: dict[str, list[Finding]] = {}
    for each in sorted(seen, key=lambda each: BASES.index(each.basis)):
        groups.setdefault(each.answer, []).append(each)
    groups.pop("", None)
    ranked = sorted(groups, key=lambda name: (BASES.index(groups[name][0].basis), -len(groups[name])))
    best = groups[ranked[0]] if ranked else []
    notes = tuple(gaps if best and best[0].basis == "used" else ["No test code was found.", *gaps])
    if not best or census.is_foreign:
        is_certain = census.is_counted and not gaps
        return Finding("none" if is_certain else "unknown", also=tuple(ranked), notes=notes)
    places = tuple(place for each in best[:5] for place in each.evidence)
    return Finding(ranked[0], best[0].basis, places, tuple(ranked[1:]), notes)


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
    return [found for each in settings for found in _entry_in_setting(each, packages)]


def _entry_in_setting(setting: Setting, packages: list[str]) -> Iterator[Candidate]:
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
    kinds = [{}, {"files": PACKAGES, "without": ASIDE}, {"files": f"^{_PAGE}$"}, {"files": _ENTRY_NOT_JUDGED}]
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
