"""Outcomes: an agent that had ended gives none, and a session that is asked to close gets one."""

from callboard.actors.protocol.addresses import CLIENT, HOST
from callboard.actors.protocol.messages import (
    Ask,
    AskEnded,
    Cancel,
    Close,
    DelegationEnded,
    Finished,
    SessionClosed,
)
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Facts, Handled
from callboard.replay.testing.rules.ledger import Ledger


class AnswerInTime(Invariant):
    """Delegations and asks that end in text."""

    name = "answer-in-time"
    rule = "A delegation ends as `answered` only with the text of an agent that had not ended before."

    def handled(self, handled: Handled) -> None:
        """Check the end that an agent's `Finished` makes of its delegation."""
        event, outputs = handled
        life = self.facts.lives.get(event.sender)
        if not isinstance(event.body, Finished) or life is None or life.ended_by == event.seq:
            return
        for output in outputs:
            body = output.body
            if isinstance(body, DelegationEnded):
                is_its = (output.recipient, body.turn, body.call) == life.call
            else:
                is_its = isinstance(body, AskEnded) and event.sender == HOST
            if is_its and getattr(body, "kind", "") == "answered":
                self.broken(output.seq, f"{event.sender} had ended by event {life.ended_by} already")


class Closed(Invariant):
    """Closing."""

    name = "closed"
    rule = "A session that is asked to close closes with the outcome of the running ask, or else at once."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._is_closing = False
        self._is_closed = False
        self._running = ""

    def handled(self, handled: Handled) -> None:
        """Update the running ask by one decision, and check that a closing session is closed in time."""
        event, outputs = handled
        ended = [one.body.request_id for one in outputs if isinstance(one.body, AskEnded)]
        if isinstance(event.body, Ask) and event.body.request_id not in ended:
            self._running = event.body.request_id
        elif isinstance(event.body, Close) and self.facts.opened is not None:
            self._is_closing = True
        if self._running in ended:
            self._running = ""
        self._is_closed = self._is_closed or any(isinstance(one.body, SessionClosed) for one in outputs)
        if self._is_closing and not self._is_closed and not self._running and outputs:
            self.broken(event.seq, "it was told to close, nothing runs, and it is not closed")


class Cancelled(Invariant):
    """Cancelling."""

    name = "cancelled"
    rule = "An ask ends as `cancelled` if and only if it was cancelled before its host had ended."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._running: tuple[str, int] | None = None
        self._cancelled: set[str] = set()

    def handled(self, handled: Handled) -> None:
        """Record a cancel, and compare each outcome with it."""
        event, outputs = handled
        ended = {one.body.request_id: one for one in outputs if isinstance(one.body, AskEnded)}
        if isinstance(event.body, Ask) and event.body.request_id not in ended:
            self._running = event.body.request_id, event.seq
        elif isinstance(event.body, Cancel | Close) and self._running and self._is_open(event.seq):
            self._cancelled.add(self._running[0])
        for name, end in ended.items():
            if self._running and name == self._running[0]:
                self._running = None
            assert isinstance(end.body, AskEnded)
            kind, is_cancelled = end.body.kind, name in self._cancelled
            if is_cancelled and kind != "cancelled":
                self.broken(end.seq, f"ask {name!r} was cancelled, and ends as {kind}")
            elif kind == "cancelled" and not is_cancelled:
                self.broken(end.seq, f"ask {name!r} ends as cancelled, and was not cancelled in time")

    def _is_open(self, seq: int) -> bool:
        """Return whether the host works on the running ask or has yet to begin it."""
        life, running = self.facts.lives.get(HOST), self._running
        if life is None or running is None or life.call != (CLIENT, running[1], 0):
            return True
        return not life.ended_by or life.ended_by == seq
