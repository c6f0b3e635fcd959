"""The books of one scope of a budget above sessions, in its current period. No I/O, no clock.

The amount spent is that of settled calls. Beside it stand the reservations of calls in flight: those of
sessions that run, and those *elsewhere*, of sessions that no process runs.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from callboard.actors.protocol.immutable import Value
from callboard.actors.protocol.usage import NOTHING, Need
from callboard.actors.session.budget_keys import CallKey
from callboard.actors.session.budget_limits import UNITS, Budget, Unit, pattern_of

NAMED_MAX: Final = 12  # sessions that a refusal names


class Spent(NamedTuple):
    """An amount spent in a period of a scope."""

    scope: str
    period: str
    amount: Need


class Refused(NamedTuple):
    """A call does not fit in a scope; the fields are those of `BudgetGiven`."""

    scope: str
    period: str
    unit: Unit
    limit: int
    spent: int
    elsewhere: int
    sessions: tuple[str, ...]


class BudgetState(Value, frozen=True):
    """A scope of a budget as it is now, with the amounts of its period.

    scope: its name. pattern: the key of `budgets` that it belongs to. spent_tokens, spent_usd: the amount
    that settled calls have used. reserved_tokens, reserved_usd: the amount reserved for calls in flight.
    elsewhere_tokens, elsewhere_usd: the amount reserved by sessions that no process runs, and sessions:
    their ids. waiting: the number of calls that wait.
    """

    scope: str
    pattern: str
    budget: Budget
    period: str
    spent_tokens: int = 0
    spent_usd: float = 0.0
    reserved_tokens: int = 0
    reserved_usd: float = 0.0
    elsewhere_tokens: int = 0
    elsewhere_usd: float = 0.0
    sessions: tuple[str, ...] = ()
    waiting: int = 0


class ScopeBooks:
    """The books of one scope, in its period."""

    def __init__(self, name: str, budget: Budget, period: str) -> None:
        self.name = name
        self.budget = budget
        self.limits = [(unit, limit) for unit in UNITS if (limit := budget.limit(unit)) is not None]
        self.line: list[int] = []  # tickets, in order
        self.spent = NOTHING
        self.reserved = NOTHING  # by sessions that run
        self.elsewhere: dict[CallKey, Need] = {}  # by others
        self.begin(period)

    def begin(self, period: str) -> None:
        """Begin a period: nothing is spent in it."""
        self.period = period
        self.spent = self.reserved = NOTHING
        self.elsewhere = {}

    def refusal(self, need: Need) -> Refused | None:
        """Return the refusal of a call that does not fit beside the amount spent; None if it does."""
        for unit, limit in self.limits:
            spent = getattr(self.spent, unit)
            held = sum(getattr(one, unit) for one in self.elsewhere.values()) if self.elsewhere else 0
            if spent + held + getattr(need, unit) > limit:
                return Refused(self.name, self.period, unit, limit, spent, held, self.sessions)
        return None

    @property
    def sessions(self) -> tuple[str, ...]:
        """Return the sessions that hold reservations and that no process runs."""
        return tuple(dict.fromkeys(key.session for key in self.elsewhere))[:NAMED_MAX]

    def has_room(self, need: Need) -> bool:
        """Return True if a call that `refusal` lets pass fits beside the reservations, too."""
        for unit, limit in self.limits:
            held = sum(getattr(one, unit) for one in self.elsewhere.values()) if self.elsewhere else 0
            taken = getattr(self.spent, unit) + getattr(self.reserved, unit) + held
            if taken + getattr(need, unit) > limit:
                return False
        return True

    def state(self) -> BudgetState:
        """Return the scope as it is now."""
        held = total(self.elsewhere.values())
        return BudgetState(
            self.name,
            pattern_of(self.name),
            self.budget,
            self.period,
            self.spent.tokens,
            self.spent.micro_usd / 1_000_000,
            self.reserved.tokens,
            self.reserved.micro_usd / 1_000_000,
            held.tokens,
            held.micro_usd / 1_000_000,
            self.sessions,
            len(self.line),
        )


def plus(one: Need, other: Need) -> Need:
    """Add two amounts."""
    return Need(one.tokens + other.tokens, one.micro_usd + other.micro_usd)


def less(one: Need, other: Need) -> Need:
    """Subtract the other amount."""
    return Need(one.tokens - other.tokens, one.micro_usd - other.micro_usd)


def total(needs: Iterable[Need]) -> Need:
    """Add amounts."""
    found = NOTHING
    for need in needs:
        found = plus(found, need)
    return found
