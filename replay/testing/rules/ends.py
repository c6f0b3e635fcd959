"""Everything ends, once and in time: requests, delegations, asks, reports, lives, sessions."""

from collections.abc import Sequence
from typing import ClassVar

from callboard.actors.protocol.addresses import CLIENT, HOST, SUPERVISOR
from callboard.actors.protocol.client_messages import (
    Ask,
    AskEnded,
    Cancel,
    Close,
    SessionClosed,
    TellEnded,
    resumed_in,
)
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    AnyMessage,
    Begin,
    Delegate,
    DelegationEnded,
    Finished,
    ReportBack,
    ReportJudged,
    Stop,
    Stopped,
)
from callboard.actors.protocol.port_messages import CheckSchema, MakeContext, SettleBudget
from callboard.actors.session.port_table import owner_of
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import of_kind
from callboard.replay.testing.rules.lives import Call


class Order(Invariant):
    """Numbers, causes and times."""

    name = "order"
    rule = "Events are numbered without gaps, and each is caused by an earlier one that its sender received."
    _recipients: dict[int, str] = {}
    _seq: int = 0
    _at: int = 0

    def on_any(self, event: Event, body: AnyMessage) -> None:
        """Compare the event with the one before it."""
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
    """Port requests."""

    name = "one-answer"
    rule = "Every port request has exactly one answer."
    _open: dict[int, Event] = {}
    _left: set[int] = set()
    _forgetful: set[str] = set()

    def on_Begin(self, event: Event, body: Begin) -> None:
        """Record that an agent has a new life."""
        self._forgetful.discard(event.recipient)

    def on_Stopped(self, event: Event, body: Stopped) -> None:
        """Record the requests that an agent leaves open whose decider fails even while it drains."""
        if self.facts.failed.get(event.sender) == event.cause:
            self._left |= {one.seq for one in self._open.values() if owner_of(one) == event.sender}
            self._forgetful.add(event.sender)

    def on_CallModel(self, event: Event, body: AnyMessage) -> None:
        """Record a request. A turn may still be granted to an agent that has left its requests open."""
        self._open[event.seq] = event
        if self._forgetful and owner_of(event) in self._forgetful:
            self._left.add(event.seq)

    on_RunStep = on_CallTool = on_RequestApproval = on_CallModel
    on_RequestCapacity = on_RequestBudget = on_CallModel
    on_CheckSchema = on_MakeContext = on_CallModel

    def on_ModelReplied(self, event: Event, body: AnyMessage) -> None:
        """Check that an answer belongs to an open request."""
        if self._open.pop(event.cause, None) is None:
            self.broken(event.seq, f"it answers event {event.cause}, which is not an open request")

    on_ToolReturned = on_ApprovalGiven = on_CapacityGiven = on_BudgetGiven = on_ModelReplied
    on_SchemaChecked = on_ContextMade = on_ModelReplied

    def quiet(self, seq: int) -> None:
        """Report requests without an answer; a check may outlive its agents."""
        for request in self._open.values():
            if not isinstance(request.body, CheckSchema | MakeContext) and request.seq not in self._left:
                self.broken(seq, f"the {request.kind} of event {request.seq} has no answer")


class _OneEnd(Invariant):
    """One kind of call, each of which ends once. words: for a call, and for one that stays open."""

    words: ClassVar[tuple[str, str]]
    _open: dict[Call, int] = {}

    def opens(self, event: Event, body: Delegate | ReportBack) -> None:
        self._open[event.sender, body.turn, body.call] = event.seq

    def ends(self, event: Event, body: DelegationEnded | ReportJudged) -> None:
        if self._open.pop((event.recipient, body.turn, body.call), None) is None:
            self.broken(event.seq, f"{event.recipient} has no open {self.words[0]} {body.turn}.{body.call}")

    def quiet(self, seq: int) -> None:
        """Report every open call: no agent is left to end it."""
        what, why = self.words
        for (who, turn, call), posted in self._open.items():
            self.broken(seq, f"{what} {turn}.{call} of {who} (event {posted}) {why}")


class OneEnd(_OneEnd):
    """Delegations and asks."""

    name = "one-end"
    rule = "Every delegation and every ask ends exactly once."
    words = ("delegation", "has not ended")
    _asks: set[str] = set()

    on_Delegate = _OneEnd.opens
    on_DelegationEnded = _OneEnd.ends

    def on_Ask(self, event: Event, body: Ask) -> None:
        """Record an ask."""
        self._asks.add(body.request_id)

    def on_AskEnded(self, event: Event, body: AskEnded) -> None:
        """Check that an outcome belongs to an open ask."""
        if body.request_id not in self._asks:
            self.broken(event.seq, f"ask {body.request_id!r} is not open")
        self._asks.discard(body.request_id)


class OneJudgement(_OneEnd):
    """Reports."""

    name = "one-judgement"
    rule = "Every report is judged exactly once."
    words = ("report", "is not judged")

    on_ReportBack = _OneEnd.opens
    on_ReportJudged = _OneEnd.ends


class OneLife(Invariant):
    """Begin, Finished, Stopped."""

    name = "one-life"
    rule = "An agent begins once for each task that it is given, and ends once."
    _is_alive: dict[str, bool] = {}

    def on_Begin(self, event: Event, body: Begin) -> None:
        """Check that an agent may begin."""
        who = event.recipient
        if self._is_alive.get(who):
            self.broken(event.seq, f"{who} begins while it lives")
        elif who in self._is_alive and who != HOST:  # the host lives once for each ask
            self.broken(event.seq, f"{who} begins a second time")
        self._is_alive[who] = True

    def on_Finished(self, event: Event, body: Finished | Stopped) -> None:
        """Check that an agent that ends was alive."""
        if not self._is_alive.get(event.sender):
            self.broken(event.seq, f"{event.sender} ends, and does not live")
        else:
            self._is_alive[event.sender] = False

    on_Stopped = on_Finished

    def quiet(self, seq: int) -> None:
        """Report agents that never ended."""
        for who in sorted(who for who, is_alive in self._is_alive.items() if is_alive):
            self.broken(seq, f"{who} has never ended")


class NothingAfterEnd(Invariant):
    """The end of the session."""

    name = "nothing-after-the-end"
    rule = "After the end of a session the supervisor posts only refusals, and settles late budgets."

    def on_any(self, event: Event, body: AnyMessage) -> None:
        """Check an event that the supervisor posts after the end."""
        end = self.facts.closed_by
        is_late = event.sender == SUPERVISOR and 0 < end < event.seq
        is_refusal = (isinstance(body, AskEnded) and body.kind == "denied") or (
            isinstance(body, TellEnded) and body.status == "refused"
        )
        # A budget that is given after the grace of its agent is over would else stay reserved.
        if is_late and not is_refusal and not isinstance(body, SettleBudget):
            self.broken(event.seq, f"a {event.kind} after the session ended with event {end}")


class AnswerInTime(Invariant):
    """Delegations and asks that end in text."""

    name = "answer-in-time"
    rule = "A delegation ends as `answered` only with the text of an agent that had not ended before."

    def handled_Finished(self, event: Event, body: Finished, outputs: Sequence[Event]) -> None:
        """Check the end that an agent's `Finished` makes of its delegation."""
        life = self.facts.lives.get(event.sender)
        if life is None or life.ended_by == event.seq:
            return
        for output in outputs:
            match output.body:
                case DelegationEnded(turn=turn, call=call, kind="answered"):
                    is_its = (output.recipient, turn, call) == life.call
                case AskEnded(kind="answered"):
                    is_its = event.sender == HOST
                case _:
                    continue
            if is_its:
                self.broken(output.seq, f"{event.sender} had ended by event {life.ended_by} already")


class Closed(Invariant):
    """Closing."""

    name = "closed"
    rule = "A session that is asked to close closes with the outcome of the running ask, or else at once."
    _is_closing: bool = False
    _is_closed: bool = False  # as the supervisor knew at this message: the log may be further
    _running: str = ""

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Update the running ask by one decision, and check that a closing session is closed in time."""
        ended = [end.request_id for _, end in of_kind(outputs, AskEnded)]
        if isinstance(body, Ask) and body.request_id not in ended:
            self._running = body.request_id
        elif isinstance(body, Close) and self.facts.opened is not None:
            self._is_closing = not self._is_closed
        elif (resumed := resumed_in(body)) is not None and resumed.reopens:
            self._is_closed = False
        if self._running in ended:
            self._running = ""
        if of_kind(outputs, SessionClosed):
            self._is_closing, self._is_closed = False, True
        if self._is_closing and not self._running and outputs:
            self.broken(event.seq, "it was told to close, nothing runs, and it is not closed")

    def quiet(self, seq: int) -> None:
        """Report a session that has not obeyed its close, although nothing is left to be done."""
        if self._is_closing and not self._running:
            self.broken(seq, "it was told to close, all is done, and it is not closed")


class Cancelled(Invariant):
    """Cancelling."""

    name = "cancelled"
    rule = "An ask ends as `cancelled` if and only if it was cancelled before its host had ended."
    _running: tuple[str, int] | None = None
    _cancelled: set[str] = set()

    def handled_any(self, event: Event, body: AnyMessage, outputs: Sequence[Event]) -> None:
        """Record a cancel, and compare each outcome with it."""
        ends = {end.request_id: (output.seq, end.kind) for output, end in of_kind(outputs, AskEnded)}
        if isinstance(body, Ask) and body.request_id not in ends:
            self._running = body.request_id, event.seq
        elif _cancels_ask(body) and self._running and self._is_open(event.seq):
            self._cancelled.add(self._running[0])
        for name, (seq, kind) in ends.items():
            if self._running and name == self._running[0]:
                self._running = None
            is_cancelled = name in self._cancelled
            if is_cancelled and kind != "cancelled":
                self.broken(seq, f"ask {name!r} was cancelled, and ends as {kind}")
            elif kind == "cancelled" and not is_cancelled:
                self.broken(seq, f"ask {name!r} ends as cancelled, and was not cancelled in time")

    def _is_open(self, seq: int) -> bool:
        """Return whether the host works on the running ask or has yet to begin it."""
        life, running = self.facts.lives.get(HOST), self._running
        if life is None or running is None or life.call != (CLIENT, running[1], 0):
            return True
        return not life.ended_by or life.ended_by == seq


def _cancels_ask(body: AnyMessage) -> bool:
    return isinstance(body, Close) or (isinstance(body, Cancel) and body.address in ("", HOST))


class CancelledAgents(Invariant):
    """Cancels of one agent."""

    name = "cancelled-agents"
    rule = "A cancel of a running agent stops it and all agents below it at once, and no other agent."

    def handled_Cancel(self, event: Event, body: Cancel, outputs: Sequence[Event]) -> None:
        """Compare the agents that were stopped with those that ran."""
        who = body.address
        if _cancels_ask(body):
            return
        stopped = {stop.recipient for stop, _ in of_kind(outputs, Stop)}
        if others := [one for one in stopped if not _is_below(one, who)]:
            self.broken(event.seq, f"{', '.join(sorted(others))} is stopped by a cancel of {who}")
        for one, life in self.facts.lives.items():
            is_running = not life.is_over and (not life.ended_by or life.ended_by >= event.seq)
            if _is_below(one, who) and self._runs(who, event.seq) and is_running and one not in stopped:
                self.broken(event.seq, f"{one} goes on after a cancel of {who}")

    def _runs(self, who: str, seq: int) -> bool:
        life = self.facts.lives.get(who)
        return life is not None and not life.is_over and (not life.ended_by or life.ended_by >= seq)


def _is_below(address: str, who: str) -> bool:
    return address == who or address.startswith(f"{who}.")
