"""The agent that finds the testing framework in use."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Final

from msgspec.structs import replace

from callboard.demo.inquiry import Census, Finding, Inquiry, Line, PythonFile, Setting, look
from callboard.demo.tools import MANIFESTS, SAMPLES

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
