"""The spending of budgets in a log in memory."""

from collections.abc import Sequence

from callboard.actors.protocol.usage import Need
from callboard.actors.session.budget_keys import CallKey, Reservation, SpendingChange
from callboard.actors.session.budget_scope import Spent
from callboard.runtime.log.spending import (
    NetChanges,
    Spending,
    SpendingStore,
    Unlogged,
    handed_over,
    in_scopes,
)


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
