"""Amounts that a store keeps beside the events.

The spending of budgets above sessions, as a store keeps it beside the events.

A store that has it keeps, for each scope and period, the amount spent; the reservations that are open; and
the charges that no log holds, called *unlogged*. `Append.spending` changes it in the transaction that stores
the events of the append, so that the amount spent is that of the committed logs and of the unlogged charges.

A reservation is known by session, epoch, agent, turn and attempt. A change of one that a store has applied
changes nothing when it comes again.

The spending of budgets in a log in memory.

The usage of sessions beside the events: a row for each session, day, model and profile.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.near_names import NamedFields
from callboard.actors.protocol.plain_values import PlainValues
from callboard.actors.protocol.usage import ZERO, Need, Usage, plus, usage_of
from callboard.actors.session.budget_keys import CallKey, Reservation, Settlement, SpendingChange
from callboard.actors.session.budget_scope import Spent
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.session_rows import SessionRow

S = TypeVar("S")


class Unlogged(NamedTuple):
    """A charge that no log holds: a crash has lost the call, so its whole reservation is charged.

    at_ms: the time of the charge, in milliseconds since 1970 UTC.
    """

    reservation: Reservation
    at_ms: int


class Spending(NamedTuple):
    """The spending of some scopes: the amounts spent, and the open reservations."""

    spent: tuple[Spent, ...] = ()
    reserved: tuple[Reservation, ...] = ()


def in_scopes(reserved: Iterable[Reservation], scopes: Sequence[str]) -> Iterator[Reservation]:
    """Yield the reservations in one of these scopes."""
    wanted = set(scopes)
    return (one for one in reserved if any(scope in wanted for scope, _ in one.spans))


class SpendingStore(Protocol):
    """The part of a store that keeps the spending of budgets."""

    async def read(self, scopes: Sequence[str] | None = None) -> Spending:
        """Return the spending of these scopes; None for all. Raises CorruptLog for a damaged row."""

    async def hand_over(
        self,
        session_id: str,
        epoch: int,
        held: Sequence[Reservation],
        lost: Sequence[Reservation],
        at_ms: int,
    ) -> list[Reservation]:
        """Give the open reservations of a session to an epoch. Charge those that were lost, and return them.

        held: those that the session's log holds open, under this epoch. Every other one of an earlier epoch
        is lost, and so are `lost`, which the store need not know. at_ms: the time of their charges.
        """

    async def unlogged(self) -> list[Unlogged]:
        """Return the charges that no log holds, in the order of their times."""


class BudgetLimit(NamedTuple):
    """The most that calls may have spent and reserved in a scope and period. None: no limit."""

    scope: str
    period: str
    tokens: int | None = None
    micro_usd: int | None = None


class SharedSpendingStore(SpendingStore, Protocol):
    """The spending of budgets in a store that several processes write at once."""

    async def reserve(self, reservation: Reservation, limits: Sequence[BudgetLimit]) -> bool:
        """Reserve for a call if no limit would be exceeded. Return whether it is reserved.

        Asks and reserves in one step, so that no two processes are given the same amount. A call that is
        reserved already is reserved once. limits: one for each span of the reservation.
        """

    async def release(self, key: CallKey) -> None:
        """Release the reservation of a call that is not made after all, if there is one."""

    async def now_ms(self) -> int:
        """Return the store's own time, in milliseconds since 1970 UTC, by which all periods go."""


class NetChanges:
    """The sum of some changes: reservations that stay open, those that end, and the charges.

    A reservation that opens and ends among these changes is only a charge, unless the store has it already,
    by a statement of its own. is_reserved: True if it may.
    """

    def __init__(self, changes: Iterable[SpendingChange] = (), *, is_reserved: bool = False) -> None:
        self.opened: dict[CallKey, Reservation] = {}
        self.closed: list[CallKey] = []
        self.charges: dict[tuple[str, str], Need] = {}
        for change in changes:
            if isinstance(change, Settlement):
                if self.opened.pop(change.reservation.key, None) is None or is_reserved:
                    self.closed.append(change.reservation.key)
                self.charge(change.reservation, change.charge)
            else:
                self.opened[change.key] = change

    def charge(self, reservation: Reservation, amount: Need) -> None:
        """Add a charge to each span of a reservation."""
        if amount.tokens or amount.micro_usd:
            for span in reservation.spans:
                had = self.charges.get(span)
                more = (
                    amount
                    if had is None
                    else Need(had.tokens + amount.tokens, had.micro_usd + amount.micro_usd)
                )
                self.charges[span] = more


def handed_over(
    own: Iterable[Reservation], held: Iterable[Reservation], lost: Iterable[Reservation]
) -> tuple[NetChanges, list[Reservation]]:
    """Return the changes of `SpendingStore.hand_over`, and the reservations that are charged as lost.

    own: those of the session's earlier epochs in the store.
    """
    earlier, net = list(own), NetChanges(held)
    kept = {key[2:] for key in net.opened}  # without the session and the epoch
    gone = {one.key: one for one in (*earlier, *lost) if one.key[2:] not in kept}
    net.closed = [one.key for one in earlier]
    for one in gone.values():
        net.charge(one, one.need)
    return net, list(gone.values())


class MemorySpending(SpendingStore):
    """The amounts spent, the open reservations and the unlogged charges."""

    def __init__(self) -> None:
        self._spent: dict[tuple[str, str], Need] = {}
        self._open: dict[CallKey, Reservation] = {}
        self._unlogged: list[Unlogged] = []

    def apply(self, changes: Sequence[SpendingChange]) -> None:
        """Apply changes."""
        if changes:
            self._apply(NetChanges(changes))

    def _apply(self, net: NetChanges) -> None:
        for key in net.closed:
            self._open.pop(key, None)
        self._open.update(net.opened)
        for span, amount in net.charges.items():
            had = self._spent.get(span, Need())
            self._spent[span] = Need(had.tokens + amount.tokens, had.micro_usd + amount.micro_usd)

    async def read(self, scopes: Sequence[str] | None = None) -> Spending:
        return self.now(scopes)

    def now(self, scopes: Sequence[str] | None = None) -> Spending:
        """Return the spending as it is now. Argument as of `read`."""
        spent = [Spent(*span, amount) for span, amount in sorted(self._spent.items())]
        reserved = tuple(one for _, one in sorted(self._open.items()))
        if scopes is None:
            return Spending(tuple(spent), reserved)
        found = (one for one in spent if one.scope in scopes)
        return Spending(tuple(found), tuple(in_scopes(reserved, scopes)))

    async def hand_over(
        self,
        session_id: str,
        epoch: int,
        held: Sequence[Reservation],
        lost: Sequence[Reservation],
        at_ms: int,
    ) -> list[Reservation]:
        left = [one for key, one in self._open.items() if key.session == session_id and key.epoch < epoch]
        net, gone = handed_over(left, held, lost)
        self._apply(net)
        self._unlogged += [Unlogged(one, at_ms) for one in gone]
        return gone

    async def unlogged(self) -> list[Unlogged]:
        return self.lost()

    def lost(self) -> list[Unlogged]:
        """Return the unlogged charges so far."""
        return list(self._unlogged)


Place: TypeAlias = tuple[str, str, str]
"""A day, a model and a profile."""


class UsageRow(PlainValues, frozen=True, gc=False, metaclass=NamedFields):
    """The usage of a session on one UTC day, with one model, by the agents of one profile."""

    session_id: str
    day: str
    model: str
    profile: str
    usage: Usage


def with_usage(
    rows: list[SessionRow], stored: Iterable[S], read: Callable[[S], UsageRow]
) -> list[SessionRow]:
    """Return rows of sessions with their usage, as far as `read` can read the stored rows of it."""
    sums: dict[str, Usage] = {}
    for one in stored:
        try:
            row = read(one)
        except CorruptLog:  # no digest covers usage: a damaged row must not hide its session
            continue
        sums[row.session_id] = plus(sums.get(row.session_id, ZERO), row.usage)
    return [replace(row, usage=sums[row.session_id]) if row.session_id in sums else row for row in rows]


def summed(charges: Iterable[Charge]) -> dict[Place, Usage]:
    """Return the sum of charges by day, model and profile."""
    found: dict[Place, list[Usage]] = {}
    for one in charges:
        found.setdefault((one.day, one.model, one.profile), []).append(one.usage)
    return {place: total(usages) for place, usages in found.items()}


def total(usages: Iterable[Usage]) -> Usage:
    """Return the sum of usages."""
    return usage_of(*map(sum, zip(*map(figures, usages), strict=True)))  # half the steps of `plus`


def figures(usage: Usage) -> tuple[int, ...]:
    """Return the numbers of a usage, in the order of its fields."""
    return msgspec.structs.astuple(usage)
