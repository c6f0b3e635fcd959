"""Stops: one for each life that does not end by itself."""

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Stop
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import Facts
from callboard.replay.testing.rules.ledger import Ledger


class OneStop(Invariant):
    """Stop."""

    name = "one-stop"
    rule = "An agent gets at most one Stop in a life."

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        super().__init__(facts, ledger)
        self._stopped: dict[str, int] = {}

    def on_Begin(self, event: Event) -> None:
        """Forget the Stop of an earlier life."""
        self._stopped.pop(event.recipient, None)

    def on_Stop(self, event: Event) -> None:
        """Check that this is the first Stop of the life."""
        assert isinstance(event.body, Stop)
        before = self._stopped.setdefault(event.recipient, event.seq)
        if before != event.seq:
            self.broken(event.seq, f"{event.recipient} was told to stop by event {before} already")
