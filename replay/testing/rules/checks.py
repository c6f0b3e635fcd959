"""Schemas: an agent begins only under an accepted one, and a report is judged only by its own check."""

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import Begin, CheckSchema, ReportBack, ReportJudged, SchemaChecked
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Call, Facts
from callboard.replay.testing.rules.ledger import Ledger


class Checked(Invariant):
    """Every verdict stands on an answer of the schema port that says so."""

    name = "checked"
    rule = "A schema binds only if it was accepted, and a report gets the verdict that its own check gave."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._questions: dict[int, CheckSchema] = {}
        self._answers: dict[int, tuple[CheckSchema, SchemaChecked]] = {}
        self._accepted: set[bytes] = set()
        self._reports: dict[Call, ReportBack] = {}

    def on_CheckSchema(self, event: Event) -> None:
        """Record a question to the schema port."""
        assert isinstance(event.body, CheckSchema)
        self._questions[event.seq] = event.body

    def on_SchemaChecked(self, event: Event) -> None:
        """Record its answer, and the schema if it was accepted."""
        question = self._questions.pop(event.cause, None)
        assert isinstance(event.body, SchemaChecked)
        if question is None:
            return
        self._answers[event.seq] = question, event.body
        if question.task == "accept" and event.body.status == "ok":
            self._accepted.add(bytes(question.schema))

    def on_Begin(self, event: Event) -> None:
        """Check that the schema of a report was accepted."""
        assert isinstance(event.body, Begin)
        schema = event.body.schema
        if schema != NULL and bytes(schema) not in self._accepted:
            self.broken(event.seq, f"{event.recipient} begins with a schema that was never accepted")

    def on_ReportBack(self, event: Event) -> None:
        """Record a report."""
        assert isinstance(event.body, ReportBack)
        self._reports[event.sender, event.body.turn, event.body.call] = event.body

    def on_ReportJudged(self, event: Event) -> None:
        """Compare a verdict with the answer of the check."""
        judged, who = event.body, event.recipient
        assert isinstance(judged, ReportJudged)
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
        elif (answer.status == "ok") != (judged.verdict == "accepted"):
            self.broken(
                event.seq, f"the check of {who} says {answer.status}, the verdict is {judged.verdict}"
            )
