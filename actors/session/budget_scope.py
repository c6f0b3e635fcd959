"""The books of one scope of a budget above sessions, in its current period. No I/O, no clock.

The amount spent is that of settled calls. Beside it stand the reservations of calls in flight: those of
sessions that run, and those *elsewhere*, of sessions that no process runs.
"""

from typing import Final, NamedTuple

from callboard.actors.protocol.immutable import Value
from callboard.actors.protocol.near_names import NamedFields
from callboard.actors.protocol.usage import Need
from callboard.actors.session.budget_keys import CallKey
from callboard.actors.session.budget_limits import Budget, Unit, pattern_of

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


class BudgetState(Value, frozen=True, metaclass=NamedFields):
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


class Amount:
    """A sum of tokens and micro-dollars, added up in place: each call changes two of them."""

    __slots__ = ("micro_usd", "tokens")

    def __init__(self) -> None:
        self.tokens = self.micro_usd = 0

    def add(self, need: Need) -> None:
        """Add an amount."""
        self.tokens += need.tokens
        self.micro_usd += need.micro_usd

    def take(self, need: Need) -> None:
        """Subtract an amount."""
        self.tokens -= need.tokens
        self.micro_usd -= need.micro_usd


class ScopeBooks:
    """The books of one scope, in its period.

    line: the tickets of calls that wait, in order. spent: by settled calls. reserved: by sessions that run.
    held: by other sessions.
    """

    def __init__(self, name: str, budget: Budget, period: str) -> None:
        self.name = name
        self.budget = budget
        self.line: list[int] = []
        self._tokens = budget.limit("tokens")
        self._micro_usd = budget.limit("micro_usd")
        self.begin(period)

    def begin(self, period: str) -> None:
        """Begin a period: nothing is spent in it."""
        self.period = period
        self.spent, self.reserved, self.held = Amount(), Amount(), Amount()
        self._elsewhere: dict[CallKey, Need] = {}

    @property
    def sessions(self) -> tuple[str, ...]:
        """Return the sessions that hold reservations and that no process runs."""
        return tuple(dict.fromkeys(key.session for key in self._elsewhere))[:NAMED_MAX]

    # --- calls ----------------------------------------------------------------------

    def has_room(self, need: Need) -> bool:
        """Return True if a call fits beside the amount spent and all reservations."""
        spent, reserved, held = self.spent, self.reserved, self.held
        limit = self._tokens
        if limit is not None and spent.tokens + reserved.tokens + held.tokens + need.tokens > limit:
            return False
        limit = self._micro_usd
        if limit is None:
            return True
        return spent.micro_usd + reserved.micro_usd + held.micro_usd + need.micro_usd <= limit

    def refusal(self, need: Need) -> Refused | None:
        """Return the refusal of a call that never fits in this period; None if it can."""
        spent, held = self.spent, self.held
        limit = self._tokens
        if limit is not None and spent.tokens + held.tokens + need.tokens > limit:
            figures = (limit, spent.tokens, held.tokens, self.sessions)
            return Refused(self.name, self.period, "tokens", *figures)
        limit = self._micro_usd
        if limit is not None and spent.micro_usd + held.micro_usd + need.micro_usd > limit:
            figures = (limit, spent.micro_usd, held.micro_usd, self.sessions)
            return Refused(self.name, self.period, "micro_usd", *figures)
        return None

    # --- amounts --------------------------------------------------------------------

    def reserve(self, key: CallKey, need: Need, *, is_running: bool) -> None:
        """Reserve a call. is_running: False for one of a session that no process runs."""
        if is_running:
            self.reserved.add(need)
        elif key not in self._elsewhere:
            self._elsewhere[key] = need
            self.held.add(need)

    def release(self, key: CallKey, need: Need) -> None:
        """Release the reservation of a call."""
        if self._elsewhere and self._elsewhere.pop(key, None) is not None:
            self.held.take(need)
        else:
            self.reserved.take(need)

    def state(self) -> BudgetState:
        """Return the scope as it is now."""
        return BudgetState(
            self.name,
            pattern_of(self.name),
            self.budget,
            self.period,
            self.spent.tokens,
            self.spent.micro_usd / 1_000_000,
            self.reserved.tokens,
            self.reserved.micro_usd / 1_000_000,
            self.held.tokens,
            self.held.micro_usd / 1_000_000,
            self.sessions,
            len(self.line),
        )
