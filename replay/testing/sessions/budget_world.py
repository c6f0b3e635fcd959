"""Several sessions under shared budgets as a world: one process, one store, and crashes of one or of all.

    world = BudgetWorld(BudgetScenario({"a": one, "b": other}, {}, budgets={"*": Budget(tokens=500)}))

There is no copy of a store: its contents after a crash follow from the logs that are left, since spending is
stored with its events.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from callboard.actors.protocol.port_messages import RequestBudget
from callboard.actors.protocol.usage import Need
from callboard.actors.session.budget_keys import (
    BudgetKeys,
    CallKey,
    Reservation,
    Settlement,
    SpendingChange,
)
from callboard.actors.session.budget_limits import Budget, scopes_of
from callboard.actors.session.budget_scope import Refused, Spent
from callboard.actors.session.budgets import BudgetPolicy, Given
from callboard.replay.testing.sessions.capacity_monitors import EachSession
from callboard.replay.testing.sessions.capacity_world import CapacityWorld, SharedScenario
from callboard.replay.testing.sessions.memory import Memory
from callboard.replay.testing.sessions.scenario import START_MS, Scenario
from callboard.replay.testing.sessions.shared_session import BudgetedSession
from callboard.replay.testing.world import Violation

OVER = "No scope has more spent and reserved than its limit."
SPENT = "The amount spent is what the committed logs charge, and the charges that no log holds."
OPEN = "The amount reserved is that of the calls which the logs of running sessions hold open."
LEFT = "At rest no call waits for a budget."


@dataclass(frozen=True)
class BudgetScenario(SharedScenario):
    """Sessions by name under shared budgets."""

    budgets: Mapping[str, Budget] = field(default_factory=dict)

    @cached_property
    def limited(self) -> Mapping[str, Scenario]:
        """Return the sessions, each with its scopes and with the names of the limited models."""
        names = tuple(sorted(self.capacity))
        return {
            name: replace(one, capacity=names, scopes=scopes_of(self.budgets, self.tags.get(name, ())))
            for name, one in self.sessions.items()
        }


class BudgetWorld(CapacityWorld):
    """Sessions under shared budgets. unlogged: the charges that no log holds."""

    def __init__(self, scenario: BudgetScenario, memories: Mapping[str, Memory] | None = None) -> None:
        self.budgets = BudgetPolicy(scenario.budgets, START_MS)
        self.unlogged: list[Reservation] = []
        self.given: list[tuple[CallKey, Given | Refused]] = []
        self.waits = 0  # the number of calls that had to wait
        # A session has lost the end of its log in a process that goes on: calls that this process has charged
        # are open again in the log. They count twice until the process ends, so that no limit is passed.
        self.counts_twice = False
        super().__init__(scenario, memories)

    def _session(self, name: str, scenario: Scenario, memory: Memory | None) -> BudgetedSession:
        return BudgetedSession(scenario, memory, name, self)

    def budgeted(self) -> Mapping[str, BudgetedSession]:
        """Return the sessions by name."""
        return {name: one for name, one in self.sessions.items() if isinstance(one, BudgetedSession)}

    # --- the store ------------------------------------------------------------------

    def stored(self) -> tuple[Counter[tuple[str, str]], list[Reservation]]:
        """Return the tokens spent by scope and period, and the open reservations, by the logs."""
        spent: Counter[tuple[str, str]] = Counter()
        reserved: list[Reservation] = []
        for name, session in self.budgeted().items():
            keys = BudgetKeys(name, session.keys.epoch)
            for change in keys.take(session.log):
                if isinstance(change, Settlement):
                    spent.update(dict.fromkeys(change.reservation.spans, change.charge.tokens))
            reserved += keys.open
        for one in self.unlogged:
            spent.update(dict.fromkeys(one.spans, one.need.tokens))
        return spent, reserved

    def _crash_all(self) -> None:
        """End the process: a new one knows what the store has, and nothing else."""
        self._is_restarting = True
        super()._crash_all()

    _is_restarting = False

    # --- the port -------------------------------------------------------------------

    def reserve(self, key: CallKey, scopes: tuple[str, ...], asked: RequestBudget) -> None:
        """Reserve a call, or let it wait."""
        answer = self.budgets.request(key, scopes, asked.need, self.now)
        if answer is not None:
            self.given.append((key, answer))
        else:
            self.waits += 1

    def cancel(self, key: CallKey) -> None:
        """Let a call wait no more."""
        self.given = [one for one in self.given if one[0] != key]
        self.budgets.cancel(key)

    def settle(self, changes: Iterable[SpendingChange]) -> None:
        """Charge the calls that are settled."""
        for change in changes:
            self.budgets.settle(change)

    def begin(self, session: str, epoch: int, held: Sequence[Reservation]) -> None:
        """Let a session run. Keep the charges that no log holds."""
        if self._is_restarting:
            self._is_restarting = False
            self.budgets = BudgetPolicy(self.budgets.budgets, self.now)
            spent, reserved = self.stored()
            scopes = sorted({scope for one in self.sessions.values() for scope in one.scenario.scopes})
            rows = [Spent(*span, Need(tokens)) for span, tokens in spent.items()]
            former = [one._replace(key=one.key._replace(epoch=one.key.epoch - 1)) for one in reserved]
            self.budgets.load(scopes, rows, former, self.now)
            self.counts_twice = False
        known = {one.key[2:] for one in self.budgets.reservations(session)}
        self.counts_twice |= any(one.key[2:] not in known for one in held)
        self.unlogged += self.budgets.begin(session, epoch, held)

    def depart(self, session: str) -> None:
        """Let a session leave the process."""
        self.given = [one for one in self.given if one[0].session != session]
        self.budgets.leave(session)

    def _serve(self) -> None:
        super()._serve()
        given, self.given = [*self.given, *self.budgets.give(self.now)], []
        for key, answer in given:
            self.budgeted()[key.session].budget_given(key.agent, answer)


class BudgetWorlds:
    """Makes the worlds of a campaign: one scenario, and what its runs have in common."""

    def __init__(self, scenario: BudgetScenario) -> None:
        self.scenario = scenario
        self._memories = {name: Memory() for name in scenario.sessions}

    def __call__(self) -> BudgetWorld:
        """Make a world at its start."""
        return BudgetWorld(self.scenario, self._memories)


class BudgetBooks:
    """The rules of shared budgets, from the logs of all sessions."""

    def begin(self, steps: int) -> None:
        """Do nothing: the rules keep nothing from one run to the next."""

    def after(self, world: BudgetWorld, at: int, fair_steps: int) -> Violation | None:
        """Compare the amounts of each scope with its limit, and with the logs."""
        spent, _ = world.stored()
        for one in world.budgets.states(world.now):
            taken = one.spent_tokens + one.reserved_tokens + one.elsewhere_tokens
            limit = one.budget.tokens
            if limit is not None and taken > limit and not world.counts_twice:
                return Violation(OVER, at)
            if one.spent_tokens < spent[one.scope, one.period]:
                return Violation(SPENT, at)
        return None

    def at_rest(self, world: BudgetWorld, at: int) -> Violation | None:
        """Check that nothing waits and nothing is reserved that no log holds open."""
        _, reserved = world.stored()
        # What the process holds for a session that has failed stays until another process goes on with it.
        failed = {name for name, session in world.budgeted().items() if session.failure is not None}
        reserved = [one for one in reserved if one.key.session not in failed]
        reserved += [one for name in failed for one in world.budgets.reservations(name)]
        for one in world.budgets.states(world.now):
            held = sum(each.need.tokens for each in reserved if (one.scope, one.period) in each.spans)
            if one.waiting:
                return Violation(LEFT, at)
            if one.reserved_tokens + one.elsewhere_tokens != held:
                return Violation(OPEN, at)
        return None


def budget_monitors(replay_every: int = 20) -> Sequence[EachSession | BudgetBooks]:
    """Return all rules of sessions under shared budgets."""
    return [EachSession(replay_every), BudgetBooks()]
