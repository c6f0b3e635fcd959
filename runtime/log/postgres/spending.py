"""Amounts in a log on PostgreSQL: the spending of budgets, and the usage of sessions.

budgets        scope, period -> the amounts spent, in tokens and micro-dollars
reservations   the key of a call -> what it has reserved; its session and epoch
reserved       the key of a call, scope and period -> the amounts reserved there; gone with its reservation
unlogged       the key of a call -> what it had reserved, and the time of the charge

All workers share these tables, so a row of `budgets` is the place where they meet: it is locked in the order
of scope and period, for one statement.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.usage import Usage
from callboard.actors.session.budget_keys import CallKey, Reservation
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.postgres.arrays import int8s, texts
from callboard.runtime.log.postgres.link import Row
from callboard.runtime.log.postgres.tables import Tables
from callboard.runtime.log.session_rows import SessionRow
from callboard.runtime.log.spending import (
    BudgetLimit,
    NetChanges,
    Place,
    Spending,
    Unlogged,
    UsageRow,
    figures,
    handed_over,
    in_scopes,
    summed,
    with_usage,
)
from callboard.runtime.log.spending_texts import SpendingTexts

_FIGURES: Final = Usage.__struct_fields__
_USAGE: Final = (
    f"SELECT s.session_id, u.day, u.model, u.profile, {', '.join(f'u.{name}' for name in _FIGURES)} "
    "FROM {s}.usage AS u JOIN {s}.sessions AS s ON s.id = u.session WHERE "
)
_USAGE_ORDER: Final = " ORDER BY u.session, u.day, u.model, u.profile"
_PUT: Final = (
    f"INSERT INTO {{s}}.usage(session, day, model, profile, {', '.join(_FIGURES)}) "
    f"SELECT * FROM unnest({', '.join(['%s'] * (4 + len(_FIGURES)))})"
)
_CHARGE: Final = """INSERT INTO {s}.budgets AS had(scope, period, tokens, micro_usd, name)
SELECT * FROM unnest(%s, %s, %s, %s, %s) AS c(scope, period, tokens, micro_usd, name) ORDER BY scope, period
ON CONFLICT (scope, period) DO UPDATE
SET tokens = had.tokens + excluded.tokens, micro_usd = had.micro_usd + excluded.micro_usd"""
_OPEN: Final = """INSERT INTO {s}.reservations(call, session, epoch, held)
SELECT * FROM unnest(%s, %s, %s, %s)
ON CONFLICT (call) DO NOTHING"""
_SPAN: Final = """INSERT INTO {s}.reserved(call, scope, period, tokens, micro_usd)
SELECT * FROM unnest(%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"""
_RESERVE: Final = "SELECT {s}.reserve(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
_NO_LIMIT: Final = (1 << 63) - 1
_CLOSE: Final = "DELETE FROM {s}.reservations WHERE call = ANY(%s)"
_LOSE: Final = """INSERT INTO {s}.unlogged(call, held, at_ms) SELECT l.call, l.held, %s
FROM unnest(%s, %s) AS l(call, held) ON CONFLICT (call) DO NOTHING"""
_SPENT: Final = "SELECT scope, period, tokens, micro_usd, name FROM {s}.budgets"
_OWN: Final = "SELECT call, held FROM {s}.reservations WHERE session = %s AND epoch < %s"


class SpendingTables:
    """The tables of spending of one log."""

    def __init__(self, tables: Tables, cipher: Cipher | None = None) -> None:
        self._tables = tables
        self._texts = SpendingTexts(cipher)

    # --- in the statement of a batch ------------------------------------------------

    def columns(self, nets: Sequence[tuple[int, NetChanges]]) -> list[object]:
        """Return the columns of the changes of some sessions, named by their numbers."""
        charges = [(number, *row) for number, net in nets for row in self._charges(net)]
        opened = [(number, *row) for number, net in nets for row in self._opened(net.opened.values())]
        spans = [(number, *row) for number, net in nets for row in self._spans(net.opened.values())]
        closed = [(number, self._texts.call(key)) for number, net in nets for key in net.closed]
        return [
            *_columns(charges, (int8s, texts, texts, int8s, int8s, texts)),
            *_columns(opened, (int8s, texts, texts, int8s, texts)),
            *_columns(spans, (int8s, texts, texts, texts, int8s, int8s)),
            *_columns(closed, (int8s, texts)),
        ]

    def _charges(self, net: NetChanges) -> list[tuple[object, ...]]:
        return [
            (self._texts.scope(scope), period, amount.tokens, amount.micro_usd, self._texts.name(scope))
            for (scope, period), amount in net.charges.items()
        ]

    def _opened(self, reservations: Iterable[Reservation]) -> list[tuple[object, ...]]:
        return [
            (self._texts.call(one.key), one.key.session, one.key.epoch, self._texts.held(one))
            for one in reservations
        ]

    def _spans(self, reservations: Iterable[Reservation]) -> list[tuple[object, ...]]:
        return [
            (self._texts.call(one.key), self._texts.scope(scope), period, one.need.tokens, one.need.micro_usd)
            for one in reservations
            for scope, period in one.spans
        ]

    # --- in a statement of its own ----------------------------------------------------

    def reserve(self, one: Reservation, limits: Sequence[BudgetLimit]) -> bool:
        """Reserve for a call if each limit allows it, as `SharedSpendingStore.reserve` does."""
        scopes = [self._texts.scope(limit.scope) for limit in limits]
        values = [
            *(self._texts.call(one.key), one.key.session, one.key.epoch, self._texts.held(one)),
            *(one.need.tokens, one.need.micro_usd),
            *(texts(scopes), texts(limit.period for limit in limits)),
            texts(self._texts.name(limit.scope) for limit in limits),
            int8s([_NO_LIMIT if limit.tokens is None else limit.tokens for limit in limits]),
            int8s([_NO_LIMIT if limit.micro_usd is None else limit.micro_usd for limit in limits]),
        ]
        # A statement that was cut is sent again: a reservation that is there already is granted.
        ((is_granted,),) = self._tables.rows(_RESERVE, values)
        return bool(is_granted)

    def release(self, key: CallKey) -> None:
        """Release the reservation of a call, as `SharedSpendingStore.release` does."""
        self._run(_CLOSE, [texts([self._texts.call(key)])])

    # --- in a transaction -------------------------------------------------------------

    def hand_over(
        self,
        session_id: str,
        epoch: int,
        held: Sequence[Reservation],
        lost: Sequence[Reservation],
        at_ms: int,
    ) -> list[Reservation]:
        """Hand the reservations of a session over, as `SpendingStore.hand_over` does."""
        rows = self._tables.rows(f"{_OWN} FOR UPDATE", (session_id, epoch))
        net, gone = handed_over(sorted(self._texts.reservation(*row) for row in rows), held, lost)
        if net.charges:
            self._run(_CHARGE, _columns(self._charges(net), (texts, texts, int8s, int8s, texts)))
        if net.opened:
            self._run(_OPEN, _columns(self._opened(net.opened.values()), (texts, texts, int8s, texts)))
            self._run(_SPAN, _columns(self._spans(net.opened.values()), (texts, texts, texts, int8s, int8s)))
        if net.closed:
            self._run(_CLOSE, [texts(self._texts.call(key) for key in net.closed)])
        if gone:
            lost_rows = [(self._texts.call(one.key), self._texts.held(one)) for one in gone]
            self._run(_LOSE, [at_ms, *_columns(lost_rows, (texts, texts))])
        return gone

    def charge_all(self, session_id: str, at_ms: int) -> None:
        """Charge all open reservations of a session that is deleted."""
        self.hand_over(session_id, sys.maxsize, (), (), at_ms)

    def _run(self, statement: str, values: Sequence[object]) -> None:
        self._tables.rows(statement, values)

    # --- reading --------------------------------------------------------------------

    def read(self, scopes: Sequence[str] | None = None) -> Spending:
        """Return the spending of these scopes; None for all."""
        query, bounds = f"{_SPENT} WHERE (tokens <> 0 OR micro_usd <> 0)", list[object]()
        if scopes is not None:
            query += " AND scope = ANY(%s)"
            bounds = [texts(map(self._texts.scope, scopes))]
        spent = tuple(sorted(self._texts.spent(*row) for row in self._tables.rows(query, bounds)))
        rows = self._tables.rows("SELECT call, held FROM {s}.reservations")
        reserved = tuple(sorted(self._texts.reservation(*row) for row in rows))
        return Spending(spent, reserved if scopes is None else tuple(in_scopes(reserved, scopes)))

    def now_ms(self) -> int:
        """Return the server's time."""
        ((now,),) = self._tables.rows("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
        return int(now)

    def unlogged(self) -> list[Unlogged]:
        """Return the charges that no log holds."""
        rows = self._tables.rows("SELECT call, held, at_ms FROM {s}.unlogged ORDER BY at_ms, call")
        return [Unlogged(self._texts.reservation(call, held), at_ms) for call, held, at_ms in rows]

    # --- usage -----------------------------------------------------------------------

    def put_usage(self, session_id: str, charges: Sequence[Charge]) -> None:
        """Replace the usage of a session, inside a transaction. Raises SessionNotFound."""
        number = self._tables.entry(session_id, lock="FOR UPDATE").number
        self.drop_usage(number)
        rows = [(number, *place, *figures(one)) for place, one in summed(charges).items()]
        if rows:
            self._run(_PUT, usage_columns(rows))

    def drop_usage(self, number: int) -> None:
        """Drop the usage of a session that is deleted, inside a transaction."""
        self._run("DELETE FROM {s}.usage WHERE session = %s", (number,))

    def usage(self, since_day: str = "") -> list[UsageRow]:
        """Return the rows from a day on. Raises CorruptLog for a damaged one."""
        rows = self._tables.rows(f"{_USAGE} u.day >= %s{_USAGE_ORDER}", (since_day,))
        return [_usage_row(row) for row in rows]

    def added_to(self, rows: list[SessionRow]) -> list[SessionRow]:
        """Return rows of sessions with their usage, as far as it can be read."""
        if not rows:
            return rows
        numbers = int8s([row.number for row in rows])
        return with_usage(rows, self._tables.rows(f"{_USAGE} u.session = ANY(%s)", (numbers,)), _usage_row)


def usage_columns(rows: Sequence[tuple[object, ...]]) -> list[object]:
    """Return the columns of rows of usage."""
    return _columns(rows, (int8s, texts, texts, texts, *[int8s] * len(_FIGURES)))


def usage_rows(usage: Mapping[int, Mapping[Place, Usage]]) -> list[tuple[object, ...]]:
    """Return the rows of the usage of sessions, by their numbers."""
    return [
        (number, *place, *figures(one)) for number, found in usage.items() for place, one in found.items()
    ]


def _columns(
    rows: Sequence[tuple[object, ...]], kinds: Sequence[Callable[[list[Any]], object]]
) -> list[object]:
    """Return rows as an array for each column."""
    return [kind([row[at] for row in rows]) for at, kind in enumerate(kinds)]


def _usage_row(row: Row) -> UsageRow:
    session, day, model, profile, *counts = row
    if any(one < 0 for one in counts):
        raise CorruptLog(
            f"the usage of session {session} is damaged; delete its rows from the table `usage`, and "
            "fill it again with `callboard usage --fill`"
        )
    return UsageRow(session, day, model, profile, Usage(*counts))
