"""The policy of budgets above sessions: which call is reserved, waits, or is refused. No I/O or clock.

Each scope (`budget_limits`) has an amount spent in its period, reservations of calls in flight, and a line of
calls that wait.

Rules
  - A call is reserved in all scopes of its session, or in none.
  - It is refused if it does not fit beside the amount spent. It is not kept for the next period.
  - It waits if it does not fit beside the reservations, too. A reservation of a session that no process runs
    may stay forever, so it counts as spent.
  - A call that has found no room in a scope stays in the line of that scope until it has its answer. No later
    call passes it there. So every call has an answer in the end, and a line is first in, first out.
  - A reservation belongs to the period in which it was made. So does its charge.
  - A period that has ended never opens again, even if the clock is set back.
  - At the end of a period the calls that wait are looked at again, in the next one.
  - On resume a session hands over the reservations that its log holds open. Every other one of its earlier
    epochs is charged in full, once.
"""

from bisect import insort
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from callboard.actors.protocol.usage import NOTHING, Need
from callboard.actors.protocol.value_types import Spans
from callboard.actors.session.budget_keys import CallKey, Reservation, Settlement, SpendingChange
from callboard.actors.session.budget_limits import Budget, Per, end_of, is_period_of, pattern_of, period_at
from callboard.actors.session.budget_scope import BudgetState, Refused, ScopeBooks, Spent


class Given(NamedTuple):
    """A call is reserved in these spans."""

    spans: Spans


Answer: TypeAlias = tuple[CallKey, Given | Refused]
"""A call that has waited, and its answer."""


class _Waiting(NamedTuple):
    """A call that may wait. ticket: its place in the order of all calls."""

    key: CallKey
    need: Need
    books: tuple[ScopeBooks, ...]
    ticket: int


class BudgetPolicy:
    """The scopes of all sessions of a runtime. now: the wall clock, in milliseconds since 1970 UTC."""

    def __init__(self, budgets: Mapping[str, Budget], now: int) -> None:
        self.budgets = budgets
        self._now = now
        self._periods = {per: period_at(per, now) for per in _pers(budgets)}
        self._ends_ms = self._next_end()
        self._scopes: dict[str, ScopeBooks] = {}
        self._books: dict[tuple[str, ...], tuple[ScopeBooks, ...]] = {}  # by the scopes of a session
        self._held: dict[str, dict[CallKey, Reservation]] = {}  # by session
        self._running: set[str] = set()
        self._waiting: dict[int, _Waiting] = {}
        self._tickets: dict[CallKey, int] = {}
        self._next_ticket = 1
        self._looked_at: dict[str, None] = {}  # scopes whose lines may go on

    # --- scopes and their amounts --------------------------------------------------------------

    def knows(self, scope: str) -> bool:
        """Return True if the amounts of a scope are known."""
        return scope in self._scopes

    def load(
        self, scopes: Iterable[str], spent: Collection[Spent], reserved: Collection[Reservation], now: int
    ) -> None:
        """Take the stored amounts of scopes in that were not known.

        reserved: the open reservations in them, by sessions that no process runs yet.
        """
        self._move_to(now)
        known = self._scopes
        new = [one for one in dict.fromkeys(scopes) if one not in known and pattern_of(one) in self.budgets]
        for name in new:
            self._scope(name)
        spans = [(name, period) for name, period, _ in spent]
        for name, period in (*spans, *(span for one in reserved for span in one.spans)):
            if name not in new:
                continue
            scope = self._scopes[name]
            # A row of a later period than the clock's says that the clock was set back.
            if is_period_of(scope.budget.per, period) and period > scope.period:
                scope.begin(period)
        for name, period, amount in spent:
            if name in new and self._scopes[name].period == period:
                self._scopes[name].spent.add(amount)
        for one in reserved:
            if one.key.session in self._running:
                continue
            self._held.setdefault(one.key.session, {})[one.key] = one
            for scope in self._in_period(one):
                if scope.name in new:  # the others have it
                    scope.reserve(one.key, one.need, is_running=False)

    def _scope(self, name: str) -> ScopeBooks:
        scope = self._scopes.get(name)
        if scope is None:
            budget = self.budgets[pattern_of(name)]
            scope = self._scopes[name] = ScopeBooks(name, budget, self._periods[budget.per])
        return scope

    # --- sessions -------------------------------------------------------------------

    def begin(self, session: str, epoch: int, held: Iterable[Reservation]) -> list[Reservation]:
        """Let a session run under an epoch. Return its reservations that are charged as lost.

        held: those that its log holds open, under this epoch.
        """
        kept = {one.key[2:]: one for one in held}
        lost = []
        for one in list(self._held.get(session, {}).values()):
            if one.key.epoch < epoch:
                is_lost = one.key[2:] not in kept
                self._end(one, one.need if is_lost else NOTHING)
                if is_lost:
                    lost.append(one)
        self._running.add(session)
        for one in kept.values():
            self._held.setdefault(session, {})[one.key] = one
            self._reserve(one, is_running=True)
        return lost

    def reservations(self, session: str) -> tuple[Reservation, ...]:
        """Return the open reservations of a session."""
        return tuple(self._held.get(session, {}).values())

    def leave(self, session: str) -> None:
        """Let a session leave the process. Its calls wait no more; its reservations stay."""
        for waiting in [one for one in self._waiting.values() if one.key.session == session]:
            self._leave_lines(waiting)
        held = list(self._held.get(session, {}).values())
        for one in held:
            self._unreserve(one)
        self._running.discard(session)
        for one in held:
            self._reserve(one, is_running=False)

    # --- calls ----------------------------------------------------------------------

    def request(self, key: CallKey, scopes: tuple[str, ...], need: Need, now: int) -> Given | Refused | None:
        """Reserve a call. Return None if it waits: `give` answers it.

        A scope of a pattern without a budget here is not looked at.
        """
        self._move_to(now)
        books = self._books.get(scopes)
        if books is None:
            known = (name for name in scopes if pattern_of(name) in self.budgets)
            books = self._books[scopes] = tuple(map(self._scope, known))
        for scope in books:
            if scope.line or not scope.has_room(need):
                break
        else:  # as for most calls
            return self._reserved(key, need, books)
        call = _Waiting(key, need, books, self._next_ticket)
        refused = self._blocked(call)
        if refused is None:
            self._tickets[key] = call.ticket
            self._waiting[call.ticket] = call
            self._next_ticket += 1
        return refused

    def cancel(self, key: CallKey) -> None:
        """Take a call out of its lines. A call that is reserved stays so until it is settled."""
        ticket = self._tickets.get(key)
        if ticket is not None:
            self._leave_lines(self._waiting[ticket])

    def settle(self, change: SpendingChange) -> None:
        """Charge a call and release its reservation. A charge counts in the periods of the reservation."""
        if isinstance(change, Settlement):
            key = change.reservation.key
            one = self._held.get(key.session, {}).get(key)
            if one is not None:
                self._end(one, change.charge)

    def give(self, now: int) -> list[Answer]:
        """Answer the calls that wait, as far as there is room for them."""
        self._move_to(now)
        answers: list[Answer] = []
        while self._looked_at:
            name = next(iter(self._looked_at))
            del self._looked_at[name]
            scope = self._scopes[name]
            while scope.line:
                waiting = self._waiting[scope.line[0]]
                answer = self._answer(waiting)
                if answer is None:
                    break
                self._leave_lines(waiting)
                answers.append((waiting.key, answer))
        return answers

    def _answer(self, call: _Waiting) -> Given | Refused | None:
        """Reserve or refuse a call that waits; None if it waits on."""
        for scope in call.books:
            if _is_passed(scope, call.ticket) or not scope.has_room(call.need):
                return self._blocked(call)
        return self._reserved(call.key, call.need, call.books)

    def _reserved(self, key: CallKey, need: Need, books: tuple[ScopeBooks, ...]) -> Given:
        """Reserve a call."""
        one = Reservation(key, need, tuple([(scope.name, scope.period) for scope in books]))
        own = self._held.get(key.session)
        if own is None:
            own = self._held[key.session] = {}
        own[key] = one
        for scope in books:
            scope.reserved.add(need)
        return Given(one.spans)

    def _blocked(self, call: _Waiting) -> Refused | None:
        """Refuse a call that never fits. Put any other into the line of each scope without room for it."""
        for scope in call.books:
            if refused := scope.refusal(call.need):
                return refused
        for scope in call.books:
            is_blocked = _is_passed(scope, call.ticket) or not scope.has_room(call.need)
            if is_blocked and call.ticket not in scope.line:
                insort(scope.line, call.ticket)
        return None

    def _leave_lines(self, waiting: _Waiting) -> None:
        self._waiting.pop(waiting.ticket, None)
        self._tickets.pop(waiting.key, None)
        for scope in waiting.books:
            if waiting.ticket in scope.line:
                scope.line.remove(waiting.ticket)
                self._looked_at[scope.name] = None

    # --- amounts --------------------------------------------------------------------

    def _in_period(self, one: Reservation) -> Iterable[ScopeBooks]:
        """Yield the scopes of a reservation whose period it belongs to."""
        for name, period in one.spans:
            scope = self._scopes.get(name)
            if scope is not None and scope.period == period:
                yield scope

    def _reserve(self, one: Reservation, *, is_running: bool) -> None:
        for scope in self._in_period(one):
            scope.reserve(one.key, one.need, is_running=is_running)

    def _unreserve(self, one: Reservation) -> None:
        for scope in self._in_period(one):
            scope.release(one.key, one.need)
            if scope.line:
                self._looked_at[scope.name] = None

    def _end(self, one: Reservation, charge: Need) -> None:
        """Forget a reservation, and charge its call."""
        for name, period in one.spans:
            scope = self._scopes.get(name)
            if scope is not None and scope.period == period:
                scope.release(one.key, one.need)
                scope.spent.add(charge)
                if scope.line:
                    self._looked_at[name] = None
        own = self._held[one.key.session]
        del own[one.key]
        if not own:
            del self._held[one.key.session]

    # --- time -----------------------------------------------------------------------

    def wait_ms(self, now: int) -> int | None:
        """Return the time until the end of a period for which a call waits; None if none does."""
        pers = dict.fromkeys(scope.budget.per for one in self._waiting.values() for scope in one.books)
        ends = [end for per in pers if (end := end_of(per, max(now, self._now))) is not None]
        return max(0, min(ends) - now) if ends else None

    def _next_end(self) -> int | None:
        return min(
            (end for per in self._periods if (end := end_of(per, self._now)) is not None), default=None
        )

    def _move_to(self, now: int) -> None:
        """Begin the periods that have begun by now. A clock that was set back begins none."""
        if now <= self._now:
            return
        self._now = now
        if self._ends_ms is None or now < self._ends_ms:
            return
        self._periods = {per: period_at(per, now) for per in self._periods}
        self._ends_ms = self._next_end()
        for name, scope in list(self._scopes.items()):
            period = self._periods[scope.budget.per]
            if period > scope.period:
                scope.begin(period)
                self._looked_at[name] = None
                # The next call makes it again, with nothing spent. A call that waits holds its books.
                if not self._waiting:
                    del self._scopes[name], self._looked_at[name]
        self._books.clear()

    # --- looking --------------------------------------------------------------------

    def states(self, now: int) -> tuple[BudgetState, ...]:
        """Return all scopes as they are now, by name."""
        self._move_to(now)
        return tuple(scope.state() for _, scope in sorted(self._scopes.items()))


def _pers(budgets: Mapping[str, Budget]) -> tuple[Per, ...]:
    return tuple(dict.fromkeys(budget.per for budget in budgets.values()))


def _is_passed(scope: ScopeBooks, ticket: int) -> bool:
    """Return True if an earlier call waits in the line of a scope."""
    return bool(scope.line) and scope.line[0] < ticket
