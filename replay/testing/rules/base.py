"""Invariants: each is a rule in one sentence, and a way to find the places in a log that break it.

An invariant reads events, in the order of the log, and states the result of the deciders in other words. It
calls none of them (but `same-books` does), scans nothing twice, and has those of these methods that it needs:

    on_<Kind>(event, message), on_any          for the messages that it looks at
    handled_<Kind>(event, message, outputs)    for events that the supervisor handled, and its posts for them
    quiet(seq)                                 for the moments at which nothing may be left open

A log that ends in the middle is not a breach: only its events can be wrong. At rest a missing one is wrong.
"""

from typing import ClassVar

import msgspec

from callboard.actors.protocol.near_names import NamedFields
from callboard.replay.testing.rules.facts import Facts
from callboard.replay.testing.rules.ledger import Ledger


class Breach(msgspec.Struct, frozen=True, metaclass=NamedFields):
    """A rule that a log breaks. name, rule: of the invariant. seq: where it shows. detail: how."""

    name: str
    rule: str
    seq: int
    detail: str

    def __str__(self) -> str:
        return f"event {self.seq}: {self.detail} ({self.name}: {self.rule})"


class Invariant(msgspec.Struct, eq=False):
    """One rule, for one log. name: for look-up. rule: a sentence that is true of a good log.

    The facts that a rule keeps are its fields: msgspec gives every instance its own copy of an empty default.
    """

    name: ClassVar[str] = ""
    rule: ClassVar[str] = ""
    facts: Facts
    ledger: Ledger
    breaches: list[Breach] = []
    in_doubt: tuple[int, str] | None = None

    def broken(self, seq: int, detail: str) -> None:
        """Report a breach at this event."""
        self.breaches.append(Breach(self.name, self.rule, seq, detail))

    def confirm(self) -> None:
        """Report the breach in doubt: by now the event was handled for which an output is missing."""
        if self.in_doubt is not None:
            self.broken(*self.in_doubt)
            self.in_doubt = None

    def quiet(self, seq: int) -> None:
        """Report entries that are still open when all agents have drained."""
        self.confirm()
