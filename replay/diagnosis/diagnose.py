"""Diagnose a session: run every check over its events, in one pass.

Facts: asks that failed, failures below an ask that ended well, loops, refusals by limits, calls in doubt,
repeated errors, late reports, lost cache prefixes, answers above their need. Guesses, which a finding marks:
reports that were not used, reports that differ from their siblings'.
"""

from collections.abc import Callable, Iterable
from typing import Final, get_args

from callboard.actors.protocol.events import Event
from callboard.replay.diagnosis.calls import InDoubt, Loops, RepeatedErrors
from callboard.replay.diagnosis.ends import FailedAsks, FailedBelowOk, LateReports, LostCache, Refused
from callboard.replay.diagnosis.finding import Check, Finding, FindingKind
from callboard.replay.diagnosis.needs import AboveNeed
from callboard.replay.diagnosis.outliers import Outliers
from callboard.replay.diagnosis.unused_reports import UnusedReports
from callboard.replay.row_kinds import kind_of
from callboard.runtime.log.protocol import Stored

CHECKS: Final[tuple[Callable[[], Check], ...]] = (
    FailedAsks,
    FailedBelowOk,
    Loops,
    Refused,
    InDoubt,
    RepeatedErrors,
    LateReports,
    LostCache,
    AboveNeed,
    UnusedReports,
    Outliers,
)
_ORDER: Final = {kind: place for place, kind in enumerate(get_args(FindingKind))}


def diagnose(rows: Iterable[Stored], event: Callable[[Stored], Event]) -> list[Finding]:
    """Return the findings of a session, the most telling kind first. event: decodes a row."""
    checks = [make() for make in CHECKS]
    for row in rows:
        kind = kind_of(row.body)
        if takers := [check for check in checks if kind in check.kinds]:
            _give(event(row), takers)
    found = [finding for check in checks for finding in check.findings()]
    return sorted(found, key=lambda one: (_ORDER[one.kind], one.seq))


def _give(event: Event, takers: Iterable[Check]) -> None:
    for check in takers:
        check.take(event)
