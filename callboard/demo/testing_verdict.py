"""From sightings to a verdict: which framework, on what basis, and what else is worth saying.

Rules
  - Tests that use a framework weigh more than configuration, a command, a dependency, in this order. A lock
    file weighs nothing.
  - A style of tests (`STYLES`) goes to whoever runs it, by the word of configuration or commands; so
    `unittest.TestCase` classes are pytest's where pytest is configured, and unittest's where not.
  - With equally good evidence: the one with more test files; outermost tests and mere runners come last.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from callboard.demo.inquiry import Report
from callboard.demo.testing_evidence import BASES, Basis, Evidence, Sighting
from callboard.demo.testing_findings import Finding, resolve_styles
from callboard.demo.testing_signs import HELPERS, RUNNERS, SECOND

FRAMEWORKS_MAX: Final = 8


def verdict(
    sightings: Iterable[Sighting], languages: Mapping[str, str], looked: list[str], unread: list[str]
) -> Report:
    """The report.

    languages: of each framework. looked: what to say where nothing was found. unread: what was not read.
    """
    findings: dict[str, Finding] = {}
    for sighting in sightings:
        findings.setdefault(sighting.name, Finding(sighting.name)).add(sighting)
    notes = resolve_styles(findings)
    helpers = sorted(name for name in findings if name in HELPERS)
    only_locked = [f for f in findings.values() if f.basis == "locked"]
    ranked = sorted(
        (f for f in findings.values() if f.name not in HELPERS and f.basis != "locked"),
        key=lambda finding: _rank(finding, findings, languages),
    )
    if ranked:
        notes += _unused(ranked)
    else:
        notes += looked
    notes += [_locked_note(finding) for finding in only_locked] + unread
    return _report(ranked[:FRAMEWORKS_MAX], languages, helpers, notes)


def _rank(
    finding: Finding, findings: Mapping[str, Finding], languages: Mapping[str, str]
) -> tuple[int, int, int, str]:
    tier = 1 if finding.name in SECOND else 0
    if finding.name in RUNNERS:
        language = languages.get(finding.name)
        others = [f for f in findings.values() if f is not finding and f.basis == "used"]
        tier = 2 if any(languages.get(f.name) == language for f in others) else 0
    return BASES.index(finding.basis), tier, -finding.files, finding.name


def _unused(ranked: list[Finding]) -> list[str]:
    """What is named but not used, beside the first."""
    notes = []
    if ranked[0].basis != "used":
        notes.append(f"No test code was found; {ranked[0].name} is only {_said(ranked[0].basis)}.")
    for finding in ranked[1:]:
        if finding.basis != "used" and ranked[0].basis == "used":
            place = finding.evidence()[0]
            notes.append(
                f"{finding.name} is {_said(finding.basis)} ({place.file}), but no test shows its use."
            )
    return notes


def _said(basis: Basis) -> str:
    return "named in a command" if basis == "run" else basis


def _locked_note(finding: Finding) -> str:
    place = finding.places["locked"][0]
    return f"{finding.name} is only in a lock file ({place.file}, line {place.line}): that is no use."


def _report(
    ranked: list[Finding], languages: Mapping[str, str], helpers: list[str], notes: list[str]
) -> Report:
    first = ranked[0] if ranked else None
    return {
        "framework": first.name if first else "none",
        "language": languages.get(first.name, "") if first else "",
        "basis": first.basis if first else "none",
        "evidence": [_place(place) for place in first.evidence()] if first else [],
        "frameworks": [
            {
                "framework": finding.name,
                "language": languages.get(finding.name, ""),
                "basis": finding.basis,
                "test_files": finding.files,
                "evidence": [_place(place) for place in finding.evidence()[:2]],
            }
            for finding in ranked
        ],
        "helpers": helpers,
        "notes": notes,
    }


def _place(place: Evidence) -> dict[str, object]:
    return {"file": place.file, "line": place.line, "why": place.why}
