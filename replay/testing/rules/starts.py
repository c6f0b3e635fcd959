"""Starts of write tools: what their answers may say, by whether they had started."""

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import CallTool, ToolReturned, ToolStarted
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Facts
from callboard.replay.testing.rules.ledger import Ledger


class Started(Invariant):
    """Answers of write tools.

    A call that has not started can only have been given up: it has no result, and nothing cut it off. One
    that has started may still be told as given up, if it waited for the disk and no more; but not one that is
    made again after it was interrupted, for its first attempt may have acted.
    """

    name = "started"
    rule = "A write tool has a result, or was interrupted, only after its start; cancelled is none that was."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._waiting: set[int] = set()
        self._interrupted: set[tuple[str, int, int]] = set()

    def on_CallTool(self, event: Event) -> None:
        """A call."""
        assert isinstance(event.body, CallTool)
        if event.body.effect == "write":
            self._waiting.add(event.seq)

    def on_ToolStarted(self, event: Event) -> None:
        """Its start."""
        assert isinstance(event.body, ToolStarted)
        self._waiting.discard(event.cause)

    def on_ToolReturned(self, event: Event) -> None:
        """Its answer."""
        body = event.body
        assert isinstance(body, ToolReturned)
        call = (event.recipient, body.turn, body.call)
        if body.status == "cancelled" and call in self._interrupted:
            self.broken(event.seq, f"call {body.turn}.{body.call} was interrupted and is told as not started")
        elif body.status not in ("cancelled", "interrupted") and event.cause in self._waiting:
            self.broken(event.seq, f"event {event.cause} had not started and is told as {body.status}")
        elif body.status == "interrupted":
            if event.cause in self._waiting and call not in self._interrupted:
                self.broken(event.seq, f"event {event.cause} had not started and is told as interrupted")
            self._interrupted.add(call)
        self._waiting.discard(event.cause)
