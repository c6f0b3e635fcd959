"""Reports: each gets the verdict of its own check, and the first valid one in the order of the log wins."""

from collections.abc import Sequence

import msgspec

from callboard.actors.protocol.addresses import CLIENT
from callboard.actors.protocol.client_messages import Ask, AskEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import AnyMessage, Begin, DelegationEnded, ReportBack, ReportJudged
from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.lives import Call, Life


class Checked(Invariant):
    """Every verdict stands on an answer of the schema port that says so."""

    name = "checked"
    rule = (
        "A schema binds only if it was accepted, and a report gets the verdict that its own check gave, "
        "against the schema and type that were asked for."
    )
    _questions: dict[int, CheckSchema] = {}
    _answers: dict[int, tuple[CheckSchema, SchemaChecked]] = {}
    _accepted: set[bytes] = set()
    _reports: dict[Call, ReportBack] = {}
    _types: dict[str, str] = {}

    def on_CheckSchema(self, event: Event, body: CheckSchema) -> None:
        """Record a question to the schema port."""
        self._questions[event.seq] = body

    def on_SchemaChecked(self, event: Event, body: SchemaChecked) -> None:
        """Record its answer, and the schema if it was accepted."""
        question = self._questions.pop(event.cause, None)
        if question is None:
            return
        self._answers[event.seq] = question, body
        if question.task == "accept" and body.status == "ok":
            self._accepted.add(bytes(question.schema))

    def on_Begin(self, event: Event, body: Begin) -> None:
        """Check that the schema of a report was accepted."""
        if body.schema != NULL and bytes(body.schema) not in self._accepted:
            self.broken(event.seq, f"{event.recipient} begins with a schema that was never accepted")
        self._types[event.recipient] = self._type_of(event.recipient)

    def _type_of(self, address: str) -> str:
        """Return the name of the type that was asked for, empty for none."""
        life = self.facts.lives.get(address)
        given, profile = self.facts.asked_of(life) if life else (None, None)
        if given is not None and given.schema != NULL:
            return given.output_type if isinstance(given, Ask) else ""
        return profile.output_type if profile else ""

    def on_ReportBack(self, event: Event, body: ReportBack) -> None:
        """Record a report."""
        self._reports[event.sender, body.turn, body.call] = body

    def on_ReportJudged(self, event: Event, judged: ReportJudged) -> None:
        """Compare a verdict with the answer of the check."""
        who = event.recipient
        report = self._reports.pop((who, judged.turn, judged.call), None)
        life = self.facts.lives.get(who)
        if judged.verdict == "late" or report is None or life is None or life.begin.schema == NULL:
            return
        question, answer = self._answers.get(event.cause, (None, None))
        if question is None or answer is None or question.task != "report":
            self.broken(event.seq, f"the report of {who} was not checked")
        elif bytes(question.value) != bytes(report.value) or question.schema != life.begin.schema:
            self.broken(
                event.seq, f"another report than that of {who} was checked, or against another schema"
            )
        elif question.output_type != self._types[who]:
            self.broken(event.seq, f"the report of {who} was checked as another type than was asked for")
        elif (answer.status == "ok") != (judged.verdict == "accepted"):
            self.broken(
                event.seq, f"the check of {who} says {answer.status}, the verdict is {judged.verdict}"
            )


class _Report(msgspec.Struct, eq=False):
    """A report. life: of its sender, when it reported. verdict, judged: its judgement, and the seq of it."""

    seq: int
    value: Json
    life: Life
    verdict: str = ""
    judged: int = 0

    @property
    def is_eligible(self) -> bool:
        """Return whether it came before the event that ended its sender."""
        return not self.life.ended_by or self.seq < self.life.ended_by


class FirstValidWins(Invariant):
    """The verdicts on reports, made in their order. One that came before the event whose handling ended its
    sender is late only behind one that was accepted, or when its delegation was cancelled.
    """

    name = "first-valid-wins"
    rule = "The first valid report of a delegation in the order of the log wins, and no other."
    _waiting: dict[Call, _Report] = {}
    _accepted: dict[Call, _Report] = {}
    _last: dict[Call, int] = {}
    _asks: dict[str, Call] = {}

    def on_Ask(self, event: Event, body: Ask) -> None:
        """Record an ask as a delegation by the client."""
        self._asks[body.request_id] = (CLIENT, event.seq, 0)

    def on_ReportBack(self, event: Event, body: ReportBack) -> None:
        """Record a report that waits for its judgement."""
        if (life := self.facts.lives.get(event.sender)) is None:
            self.broken(event.seq, f"{event.sender} reports, and has never begun")
        else:
            self._waiting[event.sender, body.turn, body.call] = _Report(event.seq, body.value, life)

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Compare the judgements of one decision with the way the delegation has ended by then."""
        judged: list[_Report] = []
        ends: dict[Call, str] = {}
        for output in outputs:
            posted = output.body
            if isinstance(posted, ReportJudged):
                report = self._waiting.pop((output.recipient, posted.turn, posted.call), None)
                if report is not None:
                    report.verdict, report.judged = posted.verdict, output.seq
                    judged.append(report)
            elif isinstance(posted, DelegationEnded):
                call = (output.recipient, posted.turn, posted.call)
                ends[call] = posted.kind
                self._check_end(output.seq, call, posted, judged)
            elif isinstance(posted, AskEnded) and posted.request_id in self._asks:
                self._check_end(output.seq, self._asks.pop(posted.request_id), posted, judged)
        for report in judged:
            self._check(report, ends.get(report.life.call, ""))

    def _check(self, report: _Report, end: str) -> None:
        """Check a verdict. end: the kind of end that its delegation has by now; empty if it is open."""
        call = report.life.call
        accepted = self._accepted.get(call)
        if report.verdict == "late":
            has_lost = (accepted and accepted.seq < report.seq) or end == "cancelled"
            if report.is_eligible and not has_lost and call[0] != CLIENT:
                self.broken(report.judged, f"report {report.seq} is late, and nothing had won before it")
            return
        if report.seq < self._last.get(call, 0):
            self.broken(report.judged, f"report {report.seq} is judged after a later one")
        self._last[call] = report.seq
        if not report.is_eligible:
            self.broken(report.judged, f"report {report.seq} came after its sender's end and is not late")
        if report.verdict == "accepted":
            if accepted:
                self.broken(report.judged, f"report {report.seq} wins, and {accepted.seq} has won already")
            self._accepted[call] = report

    def _check_end(
        self, seq: int, call: Call, end: DelegationEnded | AskEnded, judged: list[_Report]
    ) -> None:
        now = (one for one in judged if one.verdict == "accepted" and one.life.call == call)
        accepted = self._accepted.get(call) or next(now, None)
        if accepted is None:
            if end.kind == "reported":
                self.broken(seq, "it ends as reported, and no report was accepted")
        elif end.kind != "reported":
            self.broken(seq, f"it ends as {end.kind}, and report {accepted.seq} was accepted")
        elif bytes(accepted.value) != bytes(end.value):
            self.broken(seq, f"its value is not that of report {accepted.seq}, which won")
