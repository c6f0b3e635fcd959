"""The agent that finds the testing framework in use."""

from collections.abc import Generator
from typing import Final

from callboard.demo.facts import Census, Found, FoundFiles, Matches
from callboard.demo.inquiry import Report, Seen, Step, ask, policy_of
from callboard.demo.names import many
from callboard.demo.testing_config import CONFIG_FILES, MANIFESTS
from callboard.demo.testing_evidence import (
    COMMANDS_QUESTION,
    DECLARED_QUESTION,
    LOCKED_QUESTION,
    configured,
    declared,
    family_question,
    files_to_parse,
    locked,
    manifest_questions,
    run,
    used,
)
from callboard.demo.testing_signs import FAMILIES, STYLES, Family
from callboard.demo.testing_signs_more import MORE_FAMILIES
from callboard.demo.testing_verdict import verdict

TEST_FOLDERS: Final = "**/{test,tests,spec,__tests__}/**"
_CENSUS: Final = ask("count_code", path=".")
_MARKERS: Final = ask("find_files", patterns=[*CONFIG_FILES, *MANIFESTS, TEST_FOLDERS], limit=10)


def testing_inquiry(seen: Seen) -> Generator[Step, None, Report]:
    """Find the testing framework: by test code, configuration, commands and dependencies, in this order."""
    yield Step(
        "First: which languages are here, and which files that only one framework reads?", [_CENSUS, _MARKERS]
    )
    census = seen.read(_CENSUS, Census) or Census(".")
    found = seen.read(_MARKERS, Found) or Found()
    families = _families(census)
    yield Step(
        "Now the tests themselves, the commands that run them, and what is declared.",
        [
            *map(family_question, families),
            *manifest_questions(found),
            COMMANDS_QUESTION,
            DECLARED_QUESTION,
            LOCKED_QUESTION,
        ],
    )
    yield Step(
        "A line may stand in a string, so I parse some of the files that it was found in.",
        [ask("parse_python", path=path) for path in files_to_parse(seen, families)],
    )
    sightings = [sighting for family in families for sighting in used(seen, family)]
    sightings += [*configured(seen, found), *run(seen, found), *declared(seen, found), *locked(seen)]
    return verdict(sightings, _languages(census), _looked(census, found), _unread(seen, families, census))


testing_policy = policy_of(testing_inquiry)


def _families(census: Census) -> list[Family]:
    present = {count.language for count in census.languages}
    return [family for family in (*FAMILIES, *MORE_FAMILIES) if present & set(family.languages)]


def _languages(census: Census) -> dict[str, str]:
    """For each framework the language that it tests here: of its family, the one with the most files."""
    order = [count.language for count in census.languages]
    languages: dict[str, str] = {}
    for family in (*FAMILIES, *MORE_FAMILIES):
        present = [language for language in order if language in family.languages]
        language = present[0] if present else family.language
        languages |= {sign.name: language for sign in family.signs}
        for name in STYLES:
            if name in languages and STYLES[name].language == family.language:
                languages |= dict.fromkeys(STYLES[name].runners, language)
    return languages


def _unread(seen: Seen, families: list[Family], census: Census) -> list[str]:
    """What was not read, and so may tell another story."""
    notes = ["There is more here than is looked at; this is about a part of it."] if census.is_cut else []
    for family in families:
        matches = seen.read(family_question(family), Matches)
        large = [skip.path for skip in matches.skipped if skip.why.startswith("huge")] if matches else []
        if large:
            notes.append(f"Not searched, too large: {', '.join(large[:3])}.")
    return list(dict.fromkeys(notes))


def _looked(census: Census, found: Found) -> list[str]:
    """Why nothing was found, as far as that can be told."""
    if not census.files:
        return ["The folder has no files."]
    if not any(count.language for count in census.languages):
        return ["No file is of a known language."]
    tests = next((glob for glob in found.patterns if glob.pattern == TEST_FOLDERS), FoundFiles(""))
    if tests.count:
        named = many(tests.count, "file") + " in folders named like tests"
        return [f"{named} ({', '.join(tests.paths[:2])}): no framework was seen in use there."]
    return ["Nothing here uses, configures, runs or depends on a testing framework that is known to me."]
