"""The agent that finds the testing framework in use."""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from callboard.demo.facts import Census, Line, PythonFile, Setting
from callboard.demo.inquiry import Inquiry, ask
from callboard.demo.paths import MANIFESTS, SAMPLES, programs
from callboard.demo.reports import Finding
from callboard.demo.text import many
from callboard.runtime.models.scripted import call

# The strongest kind of evidence first. A lock file shows no use: it names the needs of dependencies.
BASES: Final = ("used", "configured", "run", "declared", "locked")
TRIAL, PYTEST, NOSE, UNITTEST, PLAIN = "Twisted Trial", "pytest", "nose", "unittest", "plain tests"

_TESTS: Final = r"(^|/)((test_[^/]*|[^/]*_tests?|tests?|conftest)\.py|tests?/(.*/)?[^/]+\.py)$"
_COLLECTED: Final = r"(^|/)(test_[^/]*|[^/]*_test)\.py$"
_MODULES: Final = {"pytest": PYTEST, "nose": NOSE, "nose2": "nose2", "ward": "ward", "twisted.trial": TRIAL}
_DOCTESTS: Final = r"^[^#\n]*\bdoctest\.(testmod|testfile|DocTestSuite|DocFileSuite)\("
_PACKAGE: Final = r"[\"']?(?P<name>pytest|nose2|nose|ward)(-[\w-]+)?[ \t]*([\[<>=!~;#@\\\"'.]|$)"
_COMMANDS: Final = {
    PYTEST: r"(^|[ \t/])(pytest|py\.test)([ \t]|$)",
    NOSE: r"(^|[ \t/])nosetests([ \t]|$)",
    TRIAL: r"-m[ \t]+twisted\.trial|^trial[ \t]",
    UNITTEST: r"-m[ \t]+unittest|manage\.py[ \t]+test",
}
_KEYS: Final = {
    "configured": r"^(tool\.|tool:)?pytest\b",
    "run": r"^(testenv[^.]*\.commands|aliases\.test|tool\.\w+\.(.*\.)?(tasks|scripts))\b",
    "declared": r"^(project\.(optional-)?dependencies|dependency-groups|tool\..*dependencies|(dev-)?packages"
    r"|(options\.)?(tests|install|setup|extras)_require|testenv[^.]*\.deps)\b",
}
_LINES: Final = {
    "configured": (r"(^|/)(\.?pytest\.ini|pytest\.toml|conftest\.py)$", ""),
    "declared": (r"(^|/)([^/]*requirements[^/]*\.(txt|in)|environment[^/]*\.ya?ml)$", rf"^[ \t-]*{_PACKAGE}"),
    "locked": (r"(^|/)(poetry|uv|pdm|pylock|Pipfile)\.(lock|toml)$", rf"^[ \t]*(name = )?{_PACKAGE}"),
}


class Sighting(NamedTuple):
    """A place that speaks for a framework."""

    framework: str
    basis: str
    place: Line


def tester(prompt: str) -> Inquiry[Finding]:
    """Find the testing framework by test code, configuration, commands and dependencies."""
    (census,) = yield from ask("Which languages are here?", Census, [call("count_code")])
    looks = [call("parse_python", files=_TESTS, without=SAMPLES)]
    looks.append(call("parse_python", files=r"\.py$", without=SAMPLES, containing=_DOCTESTS))
    tests, doctests = yield from ask("What do the tests import and define?", list[PythonFile], looks)
    reads = [call("read_config", files=MANIFESTS, without=SAMPLES)]
    (settings,) = yield from ask("How are they configured, run and declared?", list[Setting], reads)
    searches = [call("search", pattern=line, files=files, without=SAMPLES) for files, line in _LINES.values()]
    lines = yield from ask("What do the other files say?", list[Line], searches)
    seen = [*_in_tests(tests, doctests), *_in_settings(settings), *_in_lines(lines)]
    notes = [f"Not read: {file.problem}" for file in tests if file.problem][:2]
    notes += ["Not read: there is more here than was looked at."] if census.is_cut else []
    named = many(len(tests), "Python file") + " named like tests" if census.files else "no files"
    notes += [] if seen else [f"The folder has {named}, and nothing names a framework."]
    return _verdict(seen, census, notes)


def _in_tests(tests: Iterable[PythonFile], doctests: Iterable[PythonFile]) -> Iterator[Sighting]:
    for file in tests:
        for module, line in file.imports.items():
            if name := _MODULES.get(module) or _MODULES.get(module.partition(".")[0]):
                yield Sighting(name, "used", Line(file.file, line, f"imports `{module}`"))
        collected = file.tests if re.search(_COLLECTED, file.file) else {}
        for style, names in ((UNITTEST, file.test_cases), (PLAIN, collected)):
            for name, line in [*names.items()][:1]:
                yield Sighting(style, "used", Line(file.file, line, f"defines the test `{name}`"))
    for file in (file for file in doctests if "doctest" in file.imports):
        yield Sighting("doctest", "used", Line(file.file, file.imports["doctest"], "imports `doctest`"))


def _in_settings(settings: Iterable[Setting]) -> Iterator[Sighting]:
    for each in settings:
        words = [match for part in (each.value, *each.key.split(".")) if (match := re.match(_PACKAGE, part))]
        names = {
            "configured": [PYTEST],
            "run": [name for name, words in _COMMANDS.items() if re.search(words, each.value)],
            "declared": [match["name"] for match in words],
        }
        place = Line(each.file, each.line, f"{each.key} `{each.value}`" if each.line else each.key)
        for basis in (basis for basis, keys in _KEYS.items() if re.search(keys, each.key)):
            yield from (Sighting(name, basis, place) for name in names[basis])


def _in_lines(answers: Iterable[list[Line]]) -> Iterator[Sighting]:
    for (basis, (_, pattern)), lines in zip(_LINES.items(), answers, strict=False):
        for line in lines:
            if basis == "configured":
                yield Sighting(PYTEST, basis, Line(line.file, 0, "pytest reads this file"))
            elif match := re.search(pattern, line.text):
                place = Line(line.file, line.line, f"{basis}: `{line.text}`")
                yield Sighting(match["name"], basis, place)


def _runner(seen: list[Sighting], style: str, runners: tuple[str, ...], needs: set[str]) -> str:
    """Return the framework that runs the tests of a style here, if anything says so."""
    bases = {name: {each.basis for each in seen if each.framework == name} for name in (style, *runners)}
    trusted = [name for name in runners if bases[name] & needs or bases[name] >= {"used", "declared"}]
    best = min(trusted, key=lambda name: min(map(BASES.index, bases[name])), default="")
    is_contested = best and "run" in bases[style] and not bases[best] & {"used", "run"}
    return "" if is_contested or "used" not in bases[style] else best


def _verdict(seen: list[Sighting], census: Census, notes: list[str]) -> Finding:
    """Rank the frameworks by their strongest evidence, then by the number of places."""
    if runner := _runner(seen, UNITTEST, (TRIAL, PYTEST, NOSE), {"configured", "run"}):
        notes = [f"There are unittest.TestCase classes, which {runner} runs.", *notes]
        seen = [each._replace(framework=runner) if each.framework == UNITTEST else each for each in seen]
    plain = [each for each in seen if each.framework == PLAIN]
    kin = [each for each in seen if each.framework in (UNITTEST, TRIAL) and each.basis == "used"]
    default = PYTEST if len(plain) >= len(kin) else ""
    runner = _runner(seen, PLAIN, (PYTEST, NOSE), {"configured", "run", "declared"}) or default
    places: dict[str, list[Sighting]] = {}
    for each in sorted(seen, key=lambda each: BASES.index(each.basis)):
        places.setdefault(runner if each.framework == PLAIN else each.framework, []).append(each)
    places.pop("", None)
    basis = {name: each[0].basis for name, each in places.items()}
    ranked = sorted(places, key=lambda n: (BASES.index(basis[n]), n == "doctest", -len(places[n]), n))
    for name in (name for name in ranked if basis[name] != "used"):
        said = "in a lock file" if basis[name] == "locked" else basis[name]
        notes.append(f"{name} is only {said} ({places[name][0].place.file}): no test shows its use.")
    found = [name for name in ranked if basis[name] != "locked"]
    others = [name for name in programs(census.languages) if name != "Python"]
    notes += [f"Not judged: tests in {', '.join(others)}."] if others else []
    if not found or programs(census.languages)[:1] == others[:1] != []:
        is_certain = census.is_counted and not others and "Not read" not in " ".join(notes)
        return Finding("none" if is_certain else "unknown", also=tuple(found), notes=tuple(notes))
    notes = ["No test code was found.", *notes] if basis[found[0]] != "used" else notes
    evidence = tuple({each.place.file: each.place for each in reversed(places[found[0]])}.values())[::-1]
    return Finding(found[0], basis[found[0]], evidence[:5], tuple(found[1:]), tuple(notes))
