"""Starts of write tools: the statuses that an answer may have, by whether its call had started."""

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import CallTool, ToolReturned, ToolStarted
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Facts
from callboard.replay.testing.rules.ledger import Ledger


class Started(Invariant):
    """Statuses of calls of write tools."""

    name = "started"
    rule = "A write tool has no result before its start, and no interrupted call is `cancelled` later."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._waiting: set[int] = set()
        self._interrupted: set[tuple[str, int, int]] = set()

    def on_CallTool(self, event: Event) -> None:
        """Record a call."""
        assert isinstance(event.body, CallTool)
        if event.body.effect == "write":
            self._waiting.add(event.seq)

    def on_ToolStarted(self, event: Event) -> None:
        """Record the start of a write tool."""
        assert isinstance(event.body, ToolStarted)
        self._waiting.discard(event.cause)

    def on_ToolReturned(self, event: Event) -> None:
        """Compare the status of an answer with what may have happened."""
        body = event.body
        assert isinstance(body, ToolReturned)
        call = (event.recipient, body.turn, body.call)
        if why := self._why_false(event.cause, body.status, call in self._interrupted):
            self.broken(event.seq, f"call {body.turn}.{body.call} of {event.recipient} {why}")
        if body.status == "interrupted":
            self._interrupted.add(call)
        self._waiting.discard(event.cause)

    def _why_false(self, request: int, status: str, was_interrupted: bool) -> str:
        """Return why this status is false; empty if it may be true."""
        if was_interrupted:  # its first attempt may have acted, so that a second one is never `cancelled`
            has_result = status != "interrupted" and request in self._waiting
            is_false = status == "cancelled" or has_result
            return f"was interrupted before and is told as {status}" if is_false else ""
        if status == "cancelled":  # also of one that has started: it may have waited for the disk only
            return ""
        return f"had not started and is told as {status}" if request in self._waiting else ""
