"""Starts of write tools: what their answers may say, by whether they had started."""

from callboard.actors.events import Event
from callboard.actors.messages import CallTool, ToolReturned, ToolStarted
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Facts
from callboard.replay.testing.rules.ledger import Ledger


class Started(Invariant):
    """Answers of write tools.

    A call that has not started can only have been given up: it has no result, and nothing cut it off. One
    that has started may still be told as given up, if it waited for the disk and no more.
    """

    name = "started"
    rule = "A write tool has a result, or is told as interrupted, only if its start is in the log before."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._waiting: set[int] = set()

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
        assert isinstance(event.body, ToolReturned)
        if event.cause in self._waiting and event.body.status != "cancelled":
            self.broken(event.seq, f"event {event.cause} had not started and is told as {event.body.status}")
        self._waiting.discard(event.cause)
