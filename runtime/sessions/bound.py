"""The books of one session about budgets above it, and about its usage, as its process has them."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from callboard.actors.protocol.events import Event
from callboard.actors.session.budget_keys import BudgetKeys
from callboard.actors.session.usage_books import UsageBooks


class Bound(NamedTuple):
    """The scopes that bind a session, and the reservations that its log holds open.

    keys: None for a session that no budget binds, or ever did. usage: the calls of its log that are not
    settled; None before it begins.
    """

    scopes: tuple[str, ...] = ()
    keys: BudgetKeys | None = None
    usage: UsageBooks | None = None

    def know(self, events: Sequence[Event]) -> None:
        """Take in events that a store has, and that change no amount: those with which a fork begins."""
        for books in (self.keys, self.usage):
            if books is not None:
                books.take(events)


UNBOUND: Final = Bound()
