"""The agent that finds the testing framework in use."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from callboard.demo.facts import Census, Finding, Line, PythonFile, Setting
from callboard.demo.inquiry import Inquiry, look
from callboard.demo.paths import MANIFESTS, SAMPLES, foreign, is_foreign

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


class Sighting(NamedTuple):
    """A place that speaks for a framework."""

    framework: str
    basis: str
    place: Line


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
    if names := foreign(census.languages):
        gaps.append(f"Not judged: tests in {', '.join(names)}.")
    if not seen:
        sources = {"files": r"\.py$", "without": SAMPLES, "containing": _DOCTESTS}
        found = yield from look(list[PythonFile], "parse_python", **sources)
        seen = [_imported(file, "doctest") for file in found if "doctest" in file.imports]
        others = yield from look(Census, "count_code", files=_NOT_JUDGED, without=SAMPLES)
        if others.files:
            gaps.append(f"Not judged: {others.files} files of commands, features or robots.")
    return _verdict(_attributed(seen), census, gaps)


def _in_test(file: PythonFile) -> Iterator[Sighting]:
    """Yield the framework that a test file imports, else the style of its tests."""
    # The tests of a file that imports a framework may be written in the style of another.
    runners = [_imported(file, module) for module in file.imports if re.match(_RUNNERS, module)]
    yield from (runners or _styles(file))[:1]
    if file.file.endswith("conftest.py"):
        yield Sighting(PYTEST, "configured", Line(file.file, 0, "pytest reads this file"))


def _imported(file: PythonFile, module: str) -> Sighting:
    name = re.sub(f"{_RUNNERS}.*", r"\1", module)
    place = Line(file.file, file.imports[module], f"imports `{module}`")
    return Sighting(name.replace("twisted.trial", "Twisted Trial"), "used", place)


def _styles(file: PythonFile) -> list[Sighting]:
    plain = file.tests if re.search(_COLLECTED, file.file) else {}
    style, names = (UNITTEST, file.test_cases) if file.test_cases else (PLAIN, plain)
    places = [Line(file.file, line, f"defines the test `{name}`") for name, line in names.items()]
    return [Sighting(style, "used", place) for place in places]


def _in_setting(setting: Setting) -> list[Sighting]:
    text = f"{setting.key}={setting.value}"
    found = [row for pattern, row in _SETTINGS.items() if re.search(pattern, text)]
    return [Sighting(framework, basis, setting.place) for basis, framework in found]


def _attributed(seen: list[Sighting]) -> list[Sighting]:
    """Replace each style of tests by the framework that runs them here, if anything says so."""
    runner = next((each.framework for each in seen if each.framework not in (UNITTEST, PLAIN)), PYTEST)
    counts = Counter(each[:2] for each in seen)
    bases = {basis for name, basis in counts if name == runner}
    # A command for unittest counts for more than a configuration of pytest.
    signs = {"run"} if (UNITTEST, "run") in counts else {"run", "configured"}
    owners = {PLAIN: runner}
    if bases & signs or bases >= {"used", "declared"}:
        owners[UNITTEST] = runner
    elif counts[PLAIN, "used"] < counts[UNITTEST, "used"]:
        owners[PLAIN] = ""  # a few functions among many classes are helpers and mixins
    return [each._replace(framework=owners.get(each.framework, each.framework)) for each in seen]


def _verdict(seen: list[Sighting], census: Census, gaps: list[str]) -> Finding:
    """Rank the frameworks by their strongest evidence, then by the number of places."""
    groups: dict[str, list[Sighting]] = {}
    for each in sorted(seen, key=_strength):
        groups.setdefault(each.framework, []).append(each)
    groups.pop("", None)
    ranked = sorted(groups, key=lambda name: (_strength(groups[name][0]), -len(groups[name])))
    best = groups[ranked[0]] if ranked else []
    notes = tuple(gaps if best and best[0].basis == "used" else ["No test code was found.", *gaps])
    if not best or is_foreign(census.languages):
        is_certain = census.is_counted and not gaps
        return Finding("none" if is_certain else "unknown", also=tuple(ranked), notes=notes)
    places = tuple(each.place for each in best[:5])
    return Finding(ranked[0], best[0].basis, places, tuple(ranked[1:]), notes)


def _strength(sighting: Sighting) -> int:
    return BASES.index(sighting.basis)
