"""Amounts that all sessions of one runtime share: budgets, and capacity.

The budgets that all sessions of one runtime share: the live side of the policy, with clock and timer.

The policy (`actors/session/budgets.py`) reserves, refuses or holds a call. This object gives it the wall
clock, calls back when a call that has waited is answered, and wakes it at the end of a period.

The capacity that all sessions of one runtime share: the live side of the policy, with clock and timer.

The policy (`actors/session/capacity.py`) chooses the next call. This object tells it the time, calls back
when a place is given, and wakes it when a bucket has enough tokens for the head of its line.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Value
from callboard.actors.protocol.near_names import NamedFields
from callboard.actors.protocol.usage import Need
from callboard.actors.session.budget_keys import CallKey, Reservation, SpendingChange
from callboard.actors.session.budget_limits import Budget, checked_patterns
from callboard.actors.session.budget_scope import BudgetState, Refused
from callboard.actors.session.budgets import BudgetPolicy, Given
from callboard.actors.session.capacity import Capacity, CapacityPolicy, Demand, LineState, Waiting
from callboard.runtime.clock import monotonic_ms, now_ms
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.log.spending import Unlogged


class UnloggedCharge(Value, frozen=True, metaclass=NamedFields):
    """A call that a crash lost before its answer, and that no log holds. It is charged its whole need.

    scopes: those that it is charged to. at_ms: the time of the charge, in milliseconds since 1970 UTC.
    """

    session_id: str
    agent: str
    turn: int
    attempt: int
    tokens: int
    cost_usd: float
    scopes: tuple[str, ...]
    at_ms: int


class BudgetReport(Value, frozen=True, metaclass=NamedFields):
    """The budgets of a runtime. unlogged: the charges that no log holds."""

    scopes: tuple[BudgetState, ...] = ()
    unlogged: tuple[UnloggedCharge, ...] = ()


def _charge_of(one: Unlogged) -> UnloggedCharge:
    key, need, spans = one.reservation
    amounts = (need.tokens, need.micro_usd / 1_000_000)
    call = (key.session, key.agent, key.turn, key.attempt)
    return UnloggedCharge(*call, *amounts, tuple(scope for scope, _ in spans), one.at_ms)


_LOOK_MS: Final = 60_000
"""The wall clock may jump, so a call that waits for the end of a period is looked at this often."""


class SharedBudgets:
    """The scopes of all sessions of one runtime, on its event loop."""

    def __init__(self, budgets: Mapping[str, Budget] | None, log: EventLog) -> None:
        """Take budgets by pattern. Raises MisuseError."""
        self.budgets = checked_patterns({} if budgets is None else budgets)
        self.store = getattr(log, "spending", None)
        if self.budgets and self.store is None:
            raise MisuseError(
                f"budgets= needs a log that keeps what is spent, and {type(log).__name__} has no `spending`; "
                "use a SQLite log, or a log in memory"
            )
        self._policy = BudgetPolicy(self.budgets, now_ms())
        self._takers: dict[CallKey, Callable[[Given | Refused], object]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def load(self, scopes: Sequence[str]) -> None:
        """Read the stored amounts of scopes that are not known here. Raises CorruptLog for a damaged row."""
        new = [scope for scope in scopes if not self._policy.knows(scope)]
        if new and self.store is not None:
            spending = await self.store.read(new)
            self._policy.load(new, spending.spent, spending.reserved, now_ms())

    def begin(self, session: str, epoch: int, held: Iterable[Reservation]) -> list[Reservation]:
        """Let a session run. Return its reservations that its log does not hold open: they are charged."""
        lost = self._policy.begin(session, epoch, held)
        self._serve()
        return lost

    def leave(self, session: str) -> None:
        """Let a session leave. Its calls wait no more; its reservations stay, and count as spent."""
        self._policy.leave(session)
        for key in [key for key in self._takers if key.session == session]:
            del self._takers[key]
        self._serve()

    def request(self, key: CallKey, scopes: tuple[str, ...], need: Need) -> Given | Refused | None:
        """Reserve a call, or refuse it. None if it waits: `wait` says who takes the answer."""
        return self._policy.request(key, scopes, need, now_ms())

    def wait(self, key: CallKey, take: Callable[[Given | Refused], object]) -> None:
        """Let a call wait for its answer. take: called with it, once."""
        self._takers[key] = take
        self._serve()

    def cancel(self, key: CallKey) -> None:
        """Let a call wait no more."""
        if self._takers.pop(key, None) is not None:
            self._policy.cancel(key)
            self._serve()

    def settle(self, changes: Iterable[SpendingChange]) -> None:
        """Charge the calls that are settled, and release their reservations."""
        for change in changes:
            self._policy.settle(change)
        if self._takers:
            self._serve()

    async def report(self) -> BudgetReport:
        """Return all scopes and the unlogged charges. Raises CorruptLog for a damaged row."""
        if self.store is None:
            return BudgetReport()
        stored, unlogged = await self.store.read(), await self.store.unlogged()
        elsewhere = BudgetPolicy(self.budgets, now_ms())
        names = {one.scope for one in stored.spent}
        names |= {scope for one in stored.reserved for scope, _ in one.spans}
        elsewhere.load(names, stored.spent, stored.reserved, now_ms())
        found = {one.scope: one for one in elsewhere.states(now_ms())}
        found |= {one.scope: one for one in self._policy.states(now_ms())}
        return BudgetReport(tuple(found[name] for name in sorted(found)), tuple(map(_charge_of, unlogged)))

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


class CapacityReport(Value, frozen=True, metaclass=NamedFields):
    """The limited models of a runtime. lines: one for each. waiting: the waiting calls, and their reasons."""

    lines: tuple[LineState, ...]
    waiting: tuple[Waiting, ...]


class SharedCapacity:
    """Places among the model calls of all sessions of one runtime, on its event loop."""

    def __init__(self, limits: Mapping[str, Capacity] | None = None) -> None:
        self.limits = _checked(limits or {})
        self._policy = CapacityPolicy(self.limits, monotonic_ms())
        self._takers: dict[str, dict[str, Callable[[], object]]] = {}  # by session and agent
        self._timer: asyncio.TimerHandle | None = None
        self.on_change: Callable[[], object] = _nothing
        """Called when a request or a place may have changed what the lines need."""

    def request(
        self,
        session: str,
        agent: str,
        model: str,
        tokens: int,
        take: Callable[[], object],
        tags: Collection[str] = (),
    ) -> None:
        """Request a place for an agent's call. take: called once, when it is given, perhaps at once.

        tags: those of the session.
        """
        self._takers.setdefault(session, {})[agent] = take
        self._policy.request(session, agent, model, tokens, monotonic_ms(), tags)
        self._serve()

    def give_back(self, session: str, agent: str, used: int | None) -> None:
        """End an agent's request or place, if it has one. used: the tokens of its call; None if not known."""
        self._takers.get(session, {}).pop(agent, None)
        self._policy.give_back(session, agent, used, monotonic_ms())
        self._serve()

    def leave(self, session: str) -> None:
        """End all requests and places of a session."""
        self._policy.leave(session, monotonic_ms())
        self._takers.pop(session, None)
        self._serve()

    def lease(self, model: str, calls: int, tokens: int = 0, tag: str = "") -> None:
        """Set the places of a limited model to those that a worker was given for a tag, and add tokens."""
        self._policy.lease(model, calls, tokens, tag)
        self._serve()

    def forget(self, model: str, tag: str) -> None:
        """Forget the line of a tag in which nothing waits and no place is held."""
        self._policy.forget(model, tag)

    def demands(self, model: str) -> dict[str, Demand]:
        """Return what the lines of a limited model need, by tag."""
        return self._policy.demands(model)

    def report(self) -> CapacityReport:
        """Return the lines of all limited models, and what waits in them."""
        now = monotonic_ms()
        return CapacityReport(self._policy.states(now), self._policy.waiting(now))

    def close(self) -> None:
        """Forget the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _serve(self) -> None:
        """Give all places that can be given, and wait for the tokens of the next."""
        now = monotonic_ms()
        for session, agent in self._policy.give(now):
            take = self._takers.get(session, {}).pop(agent, None)
            if take is not None:
                take()
        self.close()
        wait_ms = self._policy.wait_ms(now)
        if wait_ms is not None:
            self._timer = asyncio.get_running_loop().call_later(wait_ms / 1_000, self._serve)
        self.on_change()


def _nothing() -> None:
    """Do nothing: only a worker shares its capacity with others."""


def _checked(limits: Mapping[str, Capacity]) -> dict[str, Capacity]:
    """Return a copy of the limits by model name. Raises MisuseError for anything else."""
    if not isinstance(limits, Mapping):
        raise MisuseError(f"capacity={limits!r:.80}: give {{'name of a model': Capacity(calls=8)}}")
    for name, limit in limits.items():
        if not isinstance(name, str) or not isinstance(limit, Capacity):
            raise MisuseError(
                f"capacity has {name!r:.80}: {limit!r:.80}; give limits by model name, "
                "{'name': Capacity(calls=8)}"
            )
    return dict(limits)
