"""What speaks for a testing framework in the answers of the tools: sightings, each with its evidence.

A line that looks like an import may stand in a string, so what Python's lines suggest is believed only if
the syntax tree of one of the files agrees.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from callboard.demo.aside import is_sample
from callboard.demo.facts import Found, Hit, Matches, PatternHits, PythonFacts, Setting, Settings
from callboard.demo.inquiry import Question, Seen, ask
from callboard.demo.names import clipped
from callboard.demo.testing_config import (
    COMMAND_FILES,
    COMMANDS,
    CONFIG_FILES,
    CONFIG_KEYS,
    DECLARED_LINES,
    DECLARING_FILES,
    DEPENDENCY_KEYS,
    LOCK_FILES,
    MANIFEST_LANGUAGES,
    MANIFESTS,
    NO_COMMAND,
    PACKAGES,
    SCRIPT_KEYS,
    lock_line,
)
from callboard.demo.testing_signs import PLAIN_TESTS, TEST_CASES, Family

Basis: TypeAlias = Literal["used", "configured", "run", "declared", "locked"]
BASES: Final[tuple[Basis, ...]] = ("used", "configured", "run", "declared", "locked")
"""The strongest first."""

SAMPLES: Final = (
    "**/{fixtures,__fixtures__,testdata,test_data,test-data,__snapshots__}/**",
    "**/{test,tests}/{data,samples,examples,resources}/**",
)
"""Files that tests read, and that are no tests even if they look like some."""

HITS: Final = 4
MANIFESTS_PER_KIND: Final = 4

_PYTHON_IMPORTS: Final = {
    "pytest": "pytest",
    "nose": "nose",
    "nose2": "nose2",
    "ward": "ward",
    "Twisted Trial": "twisted.trial",
    "hypothesis": "hypothesis",
    "django.test": "django.test",
    "behave": "behave",
}
_PACKAGE_NAME: Final = re.compile(r"\s*([A-Za-z0-9@][\w./-]*)")


class Evidence(msgspec.Struct, frozen=True):
    """A place that shows something. line: 0 where the file as a whole does."""

    file: str
    line: int
    why: str


class Sighting(msgspec.Struct, frozen=True):
    """Something that speaks for a framework, a style or a helper. files: in how many files."""

    name: str
    basis: Basis
    files: int
    evidence: tuple[Evidence, ...]


# --- questions --------------------------------------------------------------------


def family_question(family: Family) -> Question:
    """The search for a family's signs."""
    patterns = [sign.pattern for sign in family.signs]
    return ask("search", patterns=patterns, files=list(family.files), without=list(SAMPLES), limit=HITS)


def locks() -> dict[str, str]:
    """The patterns of entries in lock files, and the frameworks they name."""
    return {lock_line(package): name for packages in PACKAGES.values() for package, name in packages.items()}


COMMANDS_QUESTION: Final = ask(
    "search", patterns=list(COMMANDS.values()), files=list(COMMAND_FILES), limit=3, per_file=3
)
DECLARED_QUESTION: Final = ask(
    "search", patterns=list(DECLARED_LINES.values()), files=list(DECLARING_FILES), limit=3
)
LOCKED_QUESTION: Final = ask("search", patterns=list(locks()), files=list(LOCK_FILES), limit=2)


def manifest_questions(found: Found) -> list[Question]:
    """Which manifests to read: the shallowest of each kind, none of samples and fixtures."""
    questions = []
    for glob in found.patterns:
        if glob.pattern in MANIFESTS:
            own = [path for path in glob.paths if not is_sample(path)]
            for path in own[:MANIFESTS_PER_KIND]:
                questions.append(ask("read_config", path=path, keys=list(MANIFESTS[glob.pattern])))
    return questions


# --- what test code says ----------------------------------------------------------


def hits_of(seen: Seen, question: Question) -> list[PatternHits]:
    """What each pattern of a search matches, in the order of the patterns; empty if it has no answer."""
    matches = seen.read(question, Matches)
    return list(matches.patterns) if matches else []


def files_to_parse(seen: Seen, families: Iterable[Family]) -> list[str]:
    """Python files whose lines suggest something that their syntax tree must confirm."""
    paths: dict[str, None] = {}
    for family in families:
        if family.language == "Python":
            for pattern in hits_of(seen, family_question(family)):
                paths |= dict.fromkeys(hit.path for hit in pattern.hits)
    return list(paths)


def used(seen: Seen, family: Family) -> Iterator[Sighting]:
    """What the test code of a family shows."""
    for sign, pattern in zip(family.signs, hits_of(seen, family_question(family)), strict=False):
        hits = pattern.hits
        if family.language == "Python":
            hits = tuple(hit for hit in hits if _is_confirmed(seen, sign.name, hit))
        if hits and pattern.files:
            places = tuple(Evidence(hit.path, hit.line, f"{sign.why}: {hit.text}") for hit in hits)
            yield Sighting(sign.name, "used", pattern.files, places)


def _is_confirmed(seen: Seen, name: str, hit: Hit) -> bool:
    """Whether the file's syntax tree says so too; one that cannot be parsed has the benefit of doubt."""
    facts = seen.read(ask("parse_python", path=hit.path), PythonFacts)
    if facts is None or (facts.problem and facts.is_cut):
        return True
    if name == TEST_CASES:
        return _has_test_cases(facts)
    if name == PLAIN_TESTS:
        return _has_plain_tests(facts)
    module = _PYTHON_IMPORTS.get(name)
    if module is None:
        return True
    return any(f"{each.module}.".startswith(f"{module}.") for each in facts.imports)


def _has_test_cases(facts: PythonFacts) -> bool:
    """Whether there are unittest's classes: by their base, or with tests and some base, beside the import."""
    is_imported = any(each.module == "unittest" for each in facts.imports)
    return any(
        any(base.endswith("TestCase") for base in each.bases) or (is_imported and each.tests and each.bases)
        for each in facts.classes
    )


def _has_plain_tests(facts: PythonFacts) -> bool:
    """Whether there are test functions or classes that a framework must find.

    Functions that the file itself calls are none, and neither is a class that others of the file derive from.
    """
    by_hand = {name for name in facts.main_calls if name.startswith("test")}
    functions = [f.name for f in facts.functions if f.name.startswith("test") and f.name != "test_main"]
    if functions and not by_hand:
        return True
    bases = {base for each in facts.classes for base in each.bases}
    plain = [c for c in facts.classes if set(c.bases) <= {"object"} and c.name not in bases]
    return any(each.name.startswith("Test") and each.tests for each in plain)


# --- what everything else says ----------------------------------------------------


def configured(seen: Seen, found: Found) -> Iterator[Sighting]:
    """Files and sections that only one framework reads."""
    for glob in found.patterns:
        name = CONFIG_FILES.get(glob.pattern, "")
        own = [path for path in glob.paths if not is_sample(path) or path.endswith("conftest.py")]
        if name and own:
            places = tuple(Evidence(path, 0, f"a file that {name} reads") for path in own[:2])
            yield Sighting(name, "configured", len(own), places)
    for settings in _manifests(seen, found):
        yield from _sections(settings)


def _sections(settings: Settings) -> Iterator[Sighting]:
    """The sections of one manifest that are a framework's own."""
    for (file, section), name in CONFIG_KEYS.items():
        own = [setting for setting in settings.settings if f"{setting.key}.".startswith(f"{section}.")]
        if own and settings.path.rpartition("/")[2] == file:
            place = Evidence(settings.path, own[0].line, f"the settings of {name} ({own[0].key})")
            yield Sighting(name, "configured", 1, (place,))


def run(seen: Seen, found: Found) -> Iterator[Sighting]:
    """Commands that run tests, in manifests, task runners and CI."""
    for settings in _manifests(seen, found):
        for setting in settings.settings:
            if re.search(SCRIPT_KEYS, setting.key):
                yield from _scripted(settings.path, setting)
    for name, pattern in zip(COMMANDS, hits_of(seen, COMMANDS_QUESTION), strict=False):
        hits = [hit for hit in pattern.hits if _is_command(hit.text) and not is_sample(hit.path)]
        if hits:
            places = tuple(Evidence(hit.path, hit.line, f"a command: {hit.text}") for hit in hits[:2])
            yield Sighting(name, "run", len(hits), places)


def _scripted(path: str, setting: Setting) -> Iterator[Sighting]:
    """The frameworks that the lines of one setting run."""
    lines = [line for line in setting.value.split("\n") if _is_command(line)]
    for name, pattern in COMMANDS.items():
        line = next((line for line in lines if re.search(pattern, line)), "")
        if line:
            why = f"{setting.key} runs {name}: {clipped(line.strip(), 80)}"
            yield Sighting(name, "run", 1, (Evidence(path, setting.line, why),))


def _is_command(line: str) -> bool:
    return not re.search(NO_COMMAND, line)


def declared(seen: Seen, found: Found) -> Iterator[Sighting]:
    """Dependencies in manifests."""
    for settings in _manifests(seen, found):
        file = settings.path.rpartition("/")[2]
        packages = PACKAGES[MANIFEST_LANGUAGES.get(file, "Python")]
        for setting in settings.settings:
            named = _packages_in(setting.key, setting.value) & set(packages)
            if named and re.search(DEPENDENCY_KEYS, setting.key):
                place = Evidence(settings.path, setting.line, f"a dependency ({setting.key})")
                yield from (Sighting(packages[word], "declared", 1, (place,)) for word in sorted(named))
    for name, pattern in zip(DECLARED_LINES, hits_of(seen, DECLARED_QUESTION), strict=False):
        if pattern.hits:
            places = tuple(
                Evidence(hit.path, hit.line, f"a dependency: {hit.text}") for hit in pattern.hits[:2]
            )
            yield Sighting(name, "declared", pattern.files, places)


def _packages_in(key: str, value: str) -> set[str]:
    """Names of packages in a setting: the parts of its key, and what the lines of its value begin with.

    A plugin of pytest brings pytest along.
    """
    found = (_PACKAGE_NAME.match(line) for line in value.split("\n"))
    names = {match[1].lower() for match in found if match} | set(key.split("."))
    return names | {"pytest" for name in names if name.startswith("pytest-")}


def locked(seen: Seen) -> Iterator[Sighting]:
    """Entries of lock files, which are no use of anything."""
    for name, pattern in zip(locks().values(), hits_of(seen, LOCKED_QUESTION), strict=False):
        if pattern.hits:
            places = tuple(Evidence(hit.path, hit.line, f"locked: {hit.text}") for hit in pattern.hits)
            yield Sighting(name, "locked", pattern.files, places)


def _manifests(seen: Seen, found: Found) -> Iterator[Settings]:
    for question in manifest_questions(found):
        if settings := seen.read(question, Settings):
            yield settings
