"""The budgets that all sessions of one runtime share: the live side of the policy, with clock and timer.

The policy (`actors/session/budgets.py`) reserves, refuses or holds a call. This object gives it the wall
clock, calls back when a call that has waited is answered, and wakes it at the end of a period.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from callboard.actors.protocol.usage import Need
from callboard.actors.session.budget_keys import CallKey, Reservation, SpendingChange
from callboard.actors.session.budget_limits import Budget, checked_patterns
from callboard.actors.session.budget_scope import BudgetState
from callboard.actors.session.budgets import BudgetPolicy, Given, Refused
from callboard.runtime.clock import now_ms
from callboard.runtime.log.spending import SpendingStore

_LOOK_MS: Final = 60_000
"""The wall clock may jump, so a call that waits for the end of a period is looked at this often."""


class SharedBudgets:
    """The scopes of all sessions of one runtime, on its event loop."""

    def __init__(self, budgets: Mapping[str, Budget] | None = None) -> None:
        self.budgets = checked_patterns(budgets or {})
        self._policy = BudgetPolicy(self.budgets, now_ms())
        self._takers: dict[CallKey, Callable[[Given | Refused], object]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def load(self, store: SpendingStore, scopes: Sequence[str]) -> None:
        """Read the stored amounts of scopes that are not known here. Raises CorruptLog for a damaged row."""
        new = [scope for scope in scopes if not self._policy.knows(scope)]
        if new:
            spending = await store.read(new)
            self._policy.load(new, spending.spent, spending.reserved, now_ms())

    def begin(self, session: str, epoch: int, held: Iterable[Reservation]) -> list[Reservation]:
        """Let a session run. Return its reservations that its log does not hold open: they are charged."""
        lost = self._policy.begin(session, epoch, held, now_ms())
        self._serve()
        return lost

    def leave(self, session: str) -> None:
        """Let a session leave. Its calls wait no more; its reservations stay, and count as spent."""
        self._policy.leave(session, now_ms())
        for key in [key for key in self._takers if key.session == session]:
            del self._takers[key]
        self._serve()

    def request(
        self, key: CallKey, scopes: tuple[str, ...], need: Need, take: Callable[[Given | Refused], object]
    ) -> None:
        """Reserve a call. take: called once with the answer, perhaps at once."""
        answer = self._policy.request(key, scopes, need, now_ms())
        if answer is not None:
            take(answer)
            return
        self._takers[key] = take
        self._serve()

    def cancel(self, key: CallKey) -> None:
        """Let a call wait no more."""
        if self._takers.pop(key, None) is not None:
            self._policy.cancel(key, now_ms())
            self._serve()

    def settle(self, changes: Iterable[SpendingChange]) -> None:
        """Charge the calls that are settled, and release their reservations."""
        now = now_ms()
        for change in changes:
            self._policy.settle(change, now)
        if self._takers:
            self._serve()

    def states(self) -> tuple[BudgetState, ...]:
        """Return the scopes as they are now."""
        return self._policy.states(now_ms())

    def close(self) -> None:
        """Forget the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _serve(self) -> None:
        """Answer the calls that can be answered, and wait for the end of the period of the others."""
        now = now_ms()
        for key, answer in self._policy.give(now):
            take = self._takers.pop(key, None)
            if take is not None:
                take(answer)
        self.close()
        wait_ms = self._policy.wait_ms(now)
        if wait_ms is not None:
            delay = min(wait_ms, _LOOK_MS) / 1_000
            self._timer = asyncio.get_running_loop().call_later(delay, self._serve)
