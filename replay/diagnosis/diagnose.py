"""Diagnose a session: run every check over its events, in one pass.

Facts: asks that failed, failures below an ask that ended well, loops, refusals by limits, calls in doubt,
repeated errors, late reports, lost cache prefixes, answers above their need. Guesses, which a finding marks:
reports that were not used, reports that differ from their siblings'.
"""

from collections.abc import Callable, Iterable
from typing import Final, get_args

from callboard.actors.protocol.events import Event
from callboard.replay.diagnosis.calls import InDoubt, Loops, RepeatedErrors
from callboard.replay.diagnosis.ends import (
    FailedAsks,
    FailedBelowOk,
    LateReports,
    LostCache,
    Refused,
    RefusedReplies,
)
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
    RefusedReplies,
    LostCache,
    AboveNeed,
    UnusedReports,
    Outliers,
)
_ORDER: Final = {kind: place for place, kind in enumerate(get_args(FindingKind))}


class Diagnosis:
    """The checks of one session. Feed it every row in order; ask for the findings at any time."""

    def __init__(self) -> None:
        self._checks = [make() for make in CHECKS]

    def takers(self, kind: str) -> list[Check]:
        """Return the checks that look at messages of a kind."""
        return [check for check in self._checks if kind in check.kinds]

    def take(self, event: Event) -> None:
        """Take the next event in."""
        for check in self.takers(event.kind):
            check.take(event)

    def findings(self) -> list[Finding]:
        """Return the findings up to here, the most telling kind first."""
        found = [finding for check in self._checks for finding in check.findings()]
        return sorted(found, key=lambda one: (_ORDER[one.kind], one.seq))


def diagnose(rows: Iterable[Stored], event: Callable[[Stored], Event]) -> list[Finding]:
    """Return the findings of a session. event: decodes a row."""
    found = Diagnosis()
    takers: dict[str, list[Check]] = {}
    for row in rows:
        kind = kind_of(row.body)
        if (chosen := takers.get(kind)) is None:
            chosen = takers[kind] = found.takers(kind)
        if chosen:
            decoded = event(row)
            for check in chosen:
                check.take(decoded)
    return found.findings()
