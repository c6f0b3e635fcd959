"""The rules of delegation and of budgets, each in one sentence, checked on any log: simulated or recorded.

    for breach in check_log(recording.events):
        print(breach)

Reading costs O(1) an event for each rule that looks at its kind. What needs more than the log alone (the
requests that models got, the deciders themselves, the states of the actors at rest) is in
`requests` and `sessions.monitors`.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias, get_args

from callboard.actors.protocol.addresses import CLIENT
from callboard.actors.protocol.errors import UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage, Ask, AskEnded, SessionClosed
from callboard.replay.testing.rules.admission import Closing, FirstCome
from callboard.replay.testing.rules.base import Breach, Invariant
from callboard.replay.testing.rules.budgets import (
    Budgets,
    Charges,
    NothingRefusedThatFits,
    NothingReserved,
    RoomToDelegate,
)
from callboard.replay.testing.rules.caps import Children, Depth, ParallelCalls, Turns
from callboard.replay.testing.rules.checks import Checked
from callboard.replay.testing.rules.ends import (
    NothingAfterEnd,
    OneAnswer,
    OneEnd,
    OneJudgement,
    OneLife,
    Order,
)
from callboard.replay.testing.rules.facts import Facts, Handled
from callboard.replay.testing.rules.isolation import Approvals, Isolation, Narrowing
from callboard.replay.testing.rules.ledger import Ledger
from callboard.replay.testing.rules.one_stop import OneStop
from callboard.replay.testing.rules.outcomes import AnswerInTime, Cancelled, Closed
from callboard.replay.testing.rules.reasons import Deserved
from callboard.replay.testing.rules.reports import FirstValidWins
from callboard.replay.testing.rules.spending import Spending
from callboard.replay.testing.rules.starts import Started
from callboard.replay.testing.rules.stops import NothingAfterStop, OnlyDrains, TransitiveStop
from callboard.replay.testing.rules.timers import Timers
from callboard.replay.testing.rules.tools import ToolLimits

INVARIANTS: Final[tuple[type[Invariant], ...]] = (
    Order,
    OneAnswer,
    OneEnd,
    OneJudgement,
    OneLife,
    NothingAfterEnd,
    NothingAfterStop,
    OnlyDrains,
    TransitiveStop,
    FirstValidWins,
    Depth,
    Turns,
    Children,
    ParallelCalls,
    ToolLimits,
    Budgets,
    NothingRefusedThatFits,
    RoomToDelegate,
    Charges,
    NothingReserved,
    Narrowing,
    Approvals,
    Isolation,
    Checked,
    Timers,
    Deserved,
    Closing,
    FirstCome,
    Spending,
    OneStop,
    AnswerInTime,
    Closed,
    Cancelled,
    Started,
)
"""All that a log alone can show."""

Hears: TypeAlias = Callable[[Event], None]


def invariant(name: str) -> type[Invariant]:
    """Return the invariant of this name. Raises UnknownName."""
    for one in INVARIANTS:
        if one.name == name:
            return one
    raise UnknownName(f"there is no invariant {name!r}; there are: {', '.join(i.name for i in INVARIANTS)}")


@lru_cache(maxsize=64)
def _methods(kinds: tuple[type[Invariant], ...]) -> dict[type, tuple[tuple[int, str], ...]]:
    """Return, for each kind of message, the invariants that read it and the methods they read it by."""
    found = {}
    for message in get_args(AnyMessage):
        names = ("on_any", f"on_{message.__name__}")
        found[message] = tuple(
            (index, name) for index, one in enumerate(kinds) for name in names if hasattr(one, name)
        )
    return found


class LogChecker:
    """Checks a log as it comes, event by event. breaches: those found so far."""

    def __init__(self, kinds: Sequence[type[Invariant]] = INVARIANTS) -> None:
        self._facts = Facts()
        self._ledger = Ledger(self._facts)
        self._all = [one(self._facts, self._ledger) for one in kinds]
        self._handlers = [one.handled for one in self._all if type(one).handled is not Invariant.handled]
        self._methods = _methods(tuple(kinds))
        self._hears: dict[type, list[Hears]] = {}
        self._orders = [one for one in self._all if isinstance(one, Order)]
        self._last = 0
        self._has_gap = False
        self._is_told = False
        self._is_in_doubt = False
        self._is_closed = False

    @property
    def breaches(self) -> list[Breach]:
        """Return the breaches so far, in the order of the log."""
        found = [breach for one in self._all for breach in one.breaches]
        return sorted(found, key=lambda breach: breach.seq)

    @property
    def is_clean(self) -> bool:
        """Return whether there are no breaches so far."""
        return not any(one.breaches for one in self._all)

    def hear(self, event: Event) -> None:
        """Check the next event."""
        self._has_gap = self._has_gap or event.seq != self._last + 1
        self._last = event.seq
        if self._has_gap:  # the other rules cannot judge a log that lacks an event
            for order in self._orders:
                order.on_any(event)
            return
        for handled in self._facts.settle(event):
            self._handled(handled)
        self._facts.hear(event)
        for hears in self._hears.get(type(event.body)) or self._hears_of(type(event.body)):
            hears(event)
        self._is_told = event.recipient == CLIENT

    def _hears_of(self, kind: type) -> list[Hears]:
        """Return the methods that read messages of a kind."""
        found = self._hears[kind] = [getattr(self._all[index], name) for index, name in self._methods[kind]]
        return found

    def _handled(self, handled: Handled) -> None:
        self._ledger.handled(handled)
        for take in self._handlers:
            take(handled)
        for output in handled.outputs:
            body = output.body
            if isinstance(body, SessionClosed):
                self._is_closed = True
            elif isinstance(body, AskEnded) and not isinstance(handled.event.body, Ask):
                self._is_in_doubt = bool(body.in_doubt)
                if not body.in_doubt:
                    self._quiet(output.seq)

    def _quiet(self, seq: int) -> None:
        for one in self._all:
            one.quiet(seq)

    def rest(self, is_at_rest: bool = False) -> None:
        """End the log. is_at_rest: no further event will come, so nothing may be left open.
        A session that was closed with agents in doubt is the exception: their last messages are ignored.
        """
        if self._has_gap:
            return
        for handled in self._facts.rest(is_cut=not is_at_rest and not self._is_told):
            self._handled(handled)
        if is_at_rest and self._last and not (self._is_closed and self._is_in_doubt):
            self._quiet(self._last)


def check_log(
    events: Iterable[Event], *, is_at_rest: bool = False, kinds: Sequence[type[Invariant]] = INVARIANTS
) -> list[Breach]:
    """Return the breaches of these events, which are all of a session's from the first.
    is_at_rest: no further event will come (a simulation that is over), so anything open is a breach.
    kinds: the invariants to check.
    """
    checker = LogChecker(kinds)
    for event in events:
        checker.hear(event)
    checker.rest(is_at_rest)
    return checker.breaches


__all__ = ["INVARIANTS", "Breach", "Invariant", "LogChecker", "check_log", "invariant"]
