"""Invariants: each is a rule in one sentence, and a way to find the places in a log that break it.

Rules
  - An invariant reads events, in the order of the log, and calls no decider: it states the result in other
    words than the deciders. It keeps the facts that it needs later, and scans nothing twice.
  - It has a method `on_<Kind>` for each kind of message that it looks at, `handled` if it wants each event
    that the supervisor has handled together with its outputs, `quiet` for the moments at which nothing may
    be left over: an outcome whose agents have all drained, and rest.
  - A log that ends in the middle is no breach: only its events can be wrong. At rest a missing one is wrong.
"""

from typing import ClassVar

import msgspec

from callboard.replay.testing.rules.facts import Facts, Handled
from callboard.replay.testing.rules.ledger import Ledger


class Breach(msgspec.Struct, frozen=True):
    """A rule that a log breaks. name, rule: of the invariant. seq: where it shows. detail: how."""

    name: str
    rule: str
    seq: int
    detail: str

    def __str__(self) -> str:
        return f"event {self.seq}: {self.detail} ({self.name}: {self.rule})"


class Invariant:
    """One rule, for one log. name: for look-up. rule: a sentence that is true of a good log."""

    name: ClassVar[str] = ""
    rule: ClassVar[str] = ""

    def __init__(self, facts: Facts, ledger: Ledger) -> None:
        self.facts = facts
        self.ledger = ledger
        self.breaches: list[Breach] = []

    def broken(self, seq: int, detail: str) -> None:
        """Report a breach at this event."""
        self.breaches.append(Breach(self.name, self.rule, seq, detail))

    def handled(self, handled: Handled) -> None:
        """Check a decision of the supervisor."""

    def quiet(self, seq: int) -> None:
        """Report entries that are still open when all agents have drained."""
