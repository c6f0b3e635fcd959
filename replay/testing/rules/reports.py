"""Reports: the first valid one in the order of the log wins, and nothing else does."""

from typing import NamedTuple

from callboard.actors.protocol.addresses import CLIENT
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import Ask, AskEnded, DelegationEnded, ReportBack, ReportJudged
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Call, Facts, Handled, Life
from callboard.replay.testing.rules.ledger import Ledger


class _Report(NamedTuple):
    """A report that waits. life: of its sender, when it reported."""

    seq: int
    value: Json
    life: Life


class _Judged(NamedTuple):
    """A report, and how it was judged by the event of this seq."""

    report: _Report
    verdict: str
    seq: int

    @property
    def is_eligible(self) -> bool:
        """Return whether the report came before the event that ended its sender."""
        return not self.report.life.ended_by or self.report.seq < self.report.life.ended_by


class FirstValidWins(Invariant):
    """The verdicts on reports: accepted or late.

    A report is eligible if it precedes the event whose handling ended its sender. Judgements are made in the
    order of the reports. An eligible report is late only behind one that was accepted, or when its delegation
    was cancelled.
    """

    name = "first-valid-wins"
    rule = "The first valid report of a delegation in the order of the log wins, and no other."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._waiting: dict[Call, _Report] = {}
        self._accepted: dict[Call, _Report] = {}
        self._last: dict[Call, int] = {}
        self._asks: dict[str, Call] = {}

    def on_Ask(self, event: Event) -> None:
        """Record an ask as a delegation by the client."""
        assert isinstance(event.body, Ask)
        self._asks[event.body.request_id] = (CLIENT, event.seq, 0)

    def on_ReportBack(self, event: Event) -> None:
        """Record a report that waits for its judgement."""
        body, life = event.body, self.facts.lives.get(event.sender)
        assert isinstance(body, ReportBack)
        if life is None:
            self.broken(event.seq, f"{event.sender} reports, and has never begun")
        else:
            self._waiting[event.sender, body.turn, body.call] = _Report(event.seq, body.value, life)

    def handled(self, handled: Handled) -> None:
        """Compare the judgements of one decision with the way the delegation has ended by then."""
        judged: list[_Judged] = []
        ends: dict[Call, str] = {}
        for output in handled.outputs:
            body = output.body
            if isinstance(body, ReportJudged):
                report = self._waiting.pop((output.recipient, body.turn, body.call), None)
                if report is not None:
                    judged.append(_Judged(report, body.verdict, output.seq))
            elif isinstance(body, DelegationEnded):
                call = (output.recipient, body.turn, body.call)
                ends[call] = body.kind
                self._check_end(output, call, body.kind, body.value, judged)
            elif isinstance(body, AskEnded) and body.request_id in self._asks:
                call = self._asks.pop(body.request_id)
                self._check_end(output, call, body.kind, body.value, judged)
        for one in judged:
            self._check(one, ends)

    def _check(self, judged: _Judged, ends: dict[Call, str]) -> None:
        report, call = judged.report, judged.report.life.call
        accepted = self._accepted.get(call)
        if judged.verdict == "late":
            has_lost = (accepted and accepted.seq < report.seq) or ends.get(call) == "cancelled"
            if judged.is_eligible and not has_lost and call[0] != CLIENT:
                self.broken(judged.seq, f"report {report.seq} is late, and nothing had won before it")
            return
        if report.seq < self._last.get(call, 0):
            self.broken(judged.seq, f"report {report.seq} is judged after a later one")
        self._last[call] = report.seq
        if not judged.is_eligible:
            self.broken(judged.seq, f"report {report.seq} came after its sender's end and is not late")
        if judged.verdict == "accepted":
            if accepted:
                self.broken(judged.seq, f"report {report.seq} wins, and {accepted.seq} has won already")
            self._accepted[call] = report

    def _check_end(self, end: Event, call: Call, kind: str, value: Json, judged: list[_Judged]) -> None:
        now = [one.report for one in judged if one.verdict == "accepted" and one.report.life.call == call]
        accepted = self._accepted.get(call) or (now[0] if now else None)
        if kind == "reported" and accepted is None:
            self.broken(end.seq, "it ends as reported, and no report was accepted")
        elif kind == "reported" and accepted is not None and bytes(accepted.value) != bytes(value):
            self.broken(end.seq, f"its value is not that of report {accepted.seq}, which won")
        elif kind != "reported" and accepted is not None:
            self.broken(end.seq, f"it ends as {kind}, and report {accepted.seq} was accepted")
