"""Everything ends, once: requests, delegations, asks, reports, lives, sessions."""

from typing import TypeAlias

from callboard.actors.protocol.addresses import HOST, SUPERVISOR
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    Ask,
    AskEnded,
    CheckSchema,
    Delegate,
    DelegationEnded,
    ReportBack,
    ReportJudged,
)
from callboard.actors.session.port_table import owner_of
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Facts
from callboard.replay.testing.rules.ledger import Ledger

Call: TypeAlias = tuple[str, int, int]


class Order(Invariant):
    """Numbers, causes and times."""

    name = "order"
    rule = "Events are numbered without gaps, and each is caused by an earlier one that its sender received."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._recipients: dict[int, str] = {}
        self._seq = 0
        self._at = 0

    def on_any(self, event: Event) -> None:
        """Hold the event against the one before it."""
        if event.seq != self._seq + 1:
            self.broken(event.seq, f"event {self._seq + 1} is missing")
        if not 0 <= event.cause < event.seq:
            self.broken(event.seq, f"it is caused by event {event.cause}")
        elif event.cause and self._recipients.get(event.cause) != event.sender:
            self.broken(event.seq, f"{event.sender} never received event {event.cause}")
        if event.at < self._at:
            self.broken(event.seq, "it is earlier than the one before it")
        self._at = max(self._at, event.at)
        self._seq = event.seq
        self._recipients[event.seq] = event.recipient


class OneAnswer(Invariant):
    """Port requests.

    An agent whose decider fails even while it drains leaves at once, and its answers come when they come.
    """

    name = "one-answer"
    rule = "Every port request has exactly one answer."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._open: dict[int, Event] = {}
        self._failed: dict[str, int] = {}
        self._left: set[int] = set()

    def on_DeciderFailed(self, event: Event) -> None:
        """Record a failure, which may be the second one."""
        self._failed[event.sender] = event.cause

    def on_Stopped(self, event: Event) -> None:
        """Record which requests an agent leaves open if the same decision failed."""
        if self._failed.get(event.sender) == event.cause:
            self._left |= {one.seq for one in self._open.values() if owner_of(one) == event.sender}

    def on_CallModel(self, event: Event) -> None:
        """Record a request."""
        self._open[event.seq] = event

    on_CallTool = on_RequestApproval = on_CheckSchema = on_CallModel

    def on_ModelReplied(self, event: Event) -> None:
        """Check that an answer belongs to an open request."""
        request = self._open.pop(event.cause, None)
        if request is None:
            self.broken(event.seq, f"it answers event {event.cause}, which is no open request")

    on_ToolReturned = on_ApprovalGiven = on_SchemaChecked = on_ModelReplied

    def quiet(self, seq: int) -> None:
        """Report requests without an answer; a check may outlive its agents."""
        for request in self._open.values():
            if not isinstance(request.body, CheckSchema) and request.seq not in self._left:
                self.broken(seq, f"the {request.kind} of event {request.seq} has no answer")


class OneEnd(Invariant):
    """Delegations and asks."""

    name = "one-end"
    rule = "Every delegation and every ask ends exactly once."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._open: dict[Call, int] = {}
        self._asks: dict[str, int] = {}

    def on_Delegate(self, event: Event) -> None:
        """Record a delegation."""
        body = event.body
        assert isinstance(body, Delegate)
        self._open[event.sender, body.turn, body.call] = event.seq

    def on_DelegationEnded(self, event: Event) -> None:
        """Check that an end belongs to an open delegation."""
        body = event.body
        assert isinstance(body, DelegationEnded)
        if self._open.pop((event.recipient, body.turn, body.call), None) is None:
            self.broken(event.seq, f"{event.recipient} has no open delegation {body.turn}.{body.call}")

    def on_Ask(self, event: Event) -> None:
        """Record an ask."""
        assert isinstance(event.body, Ask)
        self._asks[event.body.request_id] = event.seq

    def on_AskEnded(self, event: Event) -> None:
        """Check that an outcome belongs to an open ask."""
        assert isinstance(event.body, AskEnded)
        if self._asks.pop(event.body.request_id, None) is None:
            self.broken(event.seq, f"ask {event.body.request_id!r} is not open")

    def quiet(self, seq: int) -> None:
        """Report delegations that have not ended: no agent is left to end them."""
        for (who, turn, call), begun in self._open.items():
            self.broken(seq, f"delegation {turn}.{call} of {who} (event {begun}) has not ended")


class OneJudgement(Invariant):
    """Reports."""

    name = "one-judgement"
    rule = "Every report is judged exactly once."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._open: dict[Call, int] = {}

    def on_ReportBack(self, event: Event) -> None:
        """Record a report."""
        body = event.body
        assert isinstance(body, ReportBack)
        self._open[event.sender, body.turn, body.call] = event.seq

    def on_ReportJudged(self, event: Event) -> None:
        """Check that a judgement belongs to an open report."""
        body = event.body
        assert isinstance(body, ReportJudged)
        if self._open.pop((event.recipient, body.turn, body.call), None) is None:
            self.broken(event.seq, f"{event.recipient} has no open report {body.turn}.{body.call}")

    def quiet(self, seq: int) -> None:
        """Report reports without a judgement: no agent is left to receive one."""
        for (who, turn, call), posted in self._open.items():
            self.broken(seq, f"report {turn}.{call} of {who} (event {posted}) is not judged")


class OneLife(Invariant):
    """Begin, Finished, Stopped."""

    name = "one-life"
    rule = "An agent begins once for each task it is given, and ends once."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._alive: set[str] = set()
        self._ever: set[str] = set()

    def on_Begin(self, event: Event) -> None:
        """Check that an agent may begin."""
        who = event.recipient
        if who in self._alive:
            self.broken(event.seq, f"{who} begins while it lives")
        elif who in self._ever and who != HOST:
            self.broken(event.seq, f"{who} begins a second time")
        self._alive.add(who)
        self._ever.add(who)

    def on_Finished(self, event: Event) -> None:
        """Check that an agent that ends was alive."""
        if event.sender not in self._alive:
            self.broken(event.seq, f"{event.sender} ends, and does not live")
        self._alive.discard(event.sender)

    on_Stopped = on_Finished

    def quiet(self, seq: int) -> None:
        """Report agents that never ended."""
        for who in sorted(self._alive):
            self.broken(seq, f"{who} has never ended")


class NothingAfterEnd(Invariant):
    """The end of the session."""

    name = "nothing-after-the-end"
    rule = "After the end of a session the supervisor posts nothing but refusals of asks."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._end = 0

    def on_any(self, event: Event) -> None:
        """Check an event that the supervisor posts after the end."""
        if not self._end or event.sender != SUPERVISOR:
            return
        if not (isinstance(event.body, AskEnded) and event.body.kind == "denied"):
            self.broken(event.seq, f"a {event.kind} after the session ended with event {self._end}")

    def on_SessionClosed(self, event: Event) -> None:
        """Record the end."""
        self._end = self._end or event.seq
