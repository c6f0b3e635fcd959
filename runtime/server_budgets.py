"""Budgets whose amounts several processes write at once, in a log on a server.

The store decides: it reserves a call in all its scopes, or in none, by one statement over the amounts of all
processes. Periods go by its clock.

Rules
  - A call that the store does not reserve is refused if it does not fit beside the amounts spent, and waits
    if it does not fit beside the reservations, too. Those of all processes count alike: a
    session of a worker that died goes on elsewhere, and settles its own.
  - Calls with the same scopes ask in turn, so in each process the first to wait is the first to be given.
    Between processes there is no order.
  - A reservation whose call was given up meanwhile is released again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

from callboard.actors.protocol.errors import StoreError
from callboard.actors.protocol.usage import Need
from callboard.actors.session.budget_keys import CallKey, Reservation, SpendingChange
from callboard.actors.session.budget_limits import Budget, pattern_of, period_at
from callboard.actors.session.budget_scope import Refused, ScopeBooks
from callboard.actors.session.budgets import Given
from callboard.runtime.budgets import SharedBudgets
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.log.spending import BudgetLimit, SharedSpendingStore, Spending

_LOOK_S: Final = 1.0
"""The time after which a call that waits asks again: nobody tells this process of settlements in others."""

_log = logging.getLogger("callboard.budgets")


class ServerBudgets(SharedBudgets):
    """The scopes of the sessions of one runtime, whose amounts are in a store that other runtimes share."""

    def __init__(self, budgets: Mapping[str, Budget], log: EventLog, store: SharedSpendingStore) -> None:
        super().__init__(budgets, log)
        self._server = store
        self._wishes: dict[CallKey, tuple[tuple[str, ...], Need]] = {}
        self._tasks: dict[CallKey, asyncio.Task[None]] = {}
        self._lines: dict[tuple[str, ...], asyncio.Lock] = {}
        self._settled = asyncio.Event()

    def begin(self, session: str, epoch: int, held: Iterable[Reservation]) -> list[Reservation]:
        """Let a session run. The store knows its reservations, and which of them are lost."""
        return []

    def leave(self, session: str) -> None:
        """Let a session leave. Its calls wait no more; its reservations stay."""
        for key in [key for key in self._tasks if key.session == session]:
            self.cancel(key)

    def request(self, key: CallKey, scopes: tuple[str, ...], need: Need) -> Given | Refused | None:
        """Note a call: the store is asked once `wait` says who takes the answer."""
        known = tuple(scope for scope in scopes if pattern_of(scope) in self.budgets)
        if not known:
            return Given(())
        self._wishes[key] = known, need
        return None

    def wait(self, key: CallKey, take: Callable[[Given | Refused], object]) -> None:
        """Ask the store for a call, until there is an answer. take: called with it, once."""
        asking = self._answer(key, *self._wishes.pop(key), take)
        self._tasks[key] = asyncio.get_running_loop().create_task(asking)

    def cancel(self, key: CallKey) -> None:
        """Let a call wait no more."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()

    def settle(self, changes: Iterable[SpendingChange]) -> None:
        """Let the calls that wait here ask again: they may fit now. The amounts are in the store."""
        self._settled.set()

    def close(self) -> None:
        """Wait for no answer any more."""
        for key in list(self._tasks):
            self.cancel(key)

    async def _answer(
        self, key: CallKey, scopes: tuple[str, ...], need: Need, take: Callable[[Given | Refused], object]
    ) -> None:
        async with self._lines.setdefault(scopes, asyncio.Lock()):
            while (answer := await self._ask(key, scopes, need)) is None:
                self._settled.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._settled.wait(), _LOOK_S)
        del self._tasks[key]
        take(answer)

    async def _ask(self, key: CallKey, scopes: tuple[str, ...], need: Need) -> Given | Refused | None:
        """Ask the store once. Return None if the call waits, and while the store cannot be reached."""
        try:
            now = await self._server.now_ms()
            limits = [self._limit(scope, now) for scope in scopes]
            one = Reservation(key, need, tuple((limit.scope, limit.period) for limit in limits))
            if await self._reserved(one, limits):
                return Given(one.spans)
            return self._refusal(await self._server.read(scopes), limits, need)
        except StoreError as error:  # the session fails by itself if its log stays away
            _log.warning("the budgets cannot be asked: %s", error)
            return None

    async def _reserved(self, one: Reservation, limits: list[BudgetLimit]) -> bool:
        asking = asyncio.ensure_future(self._server.reserve(one, limits))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(lambda done: self._release(one, done))
            raise

    def _release(self, one: Reservation, asked: "asyncio.Future[bool]") -> None:
        """Release the reservation of a call that was given up meanwhile."""
        if not asked.cancelled() and asked.exception() is None and asked.result():
            releasing = asyncio.ensure_future(self._server.release(one.key))
            releasing.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _limit(self, scope: str, now_ms: int) -> BudgetLimit:
        budget = self.budgets[pattern_of(scope)]
        period = period_at(budget.per, now_ms)
        return BudgetLimit(scope, period, budget.limit("tokens"), budget.limit("micro_usd"))

    def _refusal(self, stored: Spending, limits: list[BudgetLimit], need: Need) -> Refused | None:
        for limit in limits:
            books = ScopeBooks(limit.scope, self.budgets[pattern_of(limit.scope)], limit.period)
            for name, period, amount in stored.spent:
                if (name, period) == (limit.scope, limit.period):
                    books.spent.add(amount)
            if refused := books.refusal(need):
                return refused
        return None


def budgets_of(budgets: Mapping[str, Budget] | None, log: EventLog) -> SharedBudgets:
    """Return the budgets of a runtime: those of a log that only it writes, or of one on a server."""
    store = getattr(log, "spending", None)
    if budgets and store is not None and hasattr(store, "reserve"):
        shared: SharedSpendingStore = store
        return ServerBudgets(budgets, log, shared)
    return SharedBudgets(budgets, log)
