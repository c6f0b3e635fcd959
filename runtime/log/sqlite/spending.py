"""Amounts in a SQLite log: the spending of budgets, and the usage of sessions.

The spending of budgets in a SQLite log: its statements, and reading it.

    budgets        scope, period -> the amounts spent, in tokens and micro-dollars
    reservations   the key of a call -> what it has reserved
    unlogged       the key of a call -> what it had reserved, and the time of the charge

`spending_texts` says how both are written. A batch of them goes over as one JSON object, which SQLite need
not take apart: with a column for each field a call of w1 took 35,000 instructions more.

The usage of sessions in a SQLite log: a row for each session, UTC day, model and profile.
"""

import sqlite3
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.usage import Usage
from callboard.actors.session.budget_keys import Reservation, SpendingChange
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.protocol import no_session
from callboard.runtime.log.session_rows import SessionRow
from callboard.runtime.log.spending import (
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
_VALUES: Final = ", ".join(f"json_extract(u.value, '$[{at}]')" for at in range(4 + len(_FIGURES)))
_SUMS: Final = ", ".join(f"{name} = usage.{name} + excluded.{name}" for name in _FIGURES)
# {0}: `:` or `NEW.`, before the name of the JSON list. The subquery: as `ONCE` of `batch`.
ADD: Final = (
    f"INSERT INTO usage SELECT {_VALUES} "
    "FROM (SELECT value FROM json_each({0}usage) LIMIT -1 OFFSET 0) AS u WHERE true "
    f"ON CONFLICT(session, day, model, profile) DO UPDATE SET {_SUMS}"
)
_ROWS: Final = (
    "SELECT CAST(session_id AS BLOB), session, CAST(day AS BLOB), CAST(model AS BLOB), "
    f"CAST(profile AS BLOB), {', '.join(_FIGURES)} "
    "FROM usage JOIN sessions ON sessions.id = usage.session WHERE {} ORDER BY session, day, model, profile"
)
_OF_SESSIONS: Final = "session IN (SELECT value FROM json_each(?))"

_encode = msgspec.json.Encoder().encode


class UsageTable:
    """The table of usage of one log."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def parameter(self, usage: Mapping[tuple[int, Place], Usage]) -> str:
        """Return the parameter of `ADD`. usage: by the number of the session and its place."""
        return _encode([(number, *place, *figures(one)) for (number, place), one in usage.items()]).decode()

    def add(self, usage: Mapping[tuple[int, Place], Usage]) -> None:
        """Add usage, inside a transaction."""
        self._connection.execute(ADD.format(":"), {"usage": self.parameter(usage)})

    def put(self, session_id: str, charges: Sequence[Charge]) -> None:
        """Replace the usage of a session, inside a transaction. Raises SessionNotFound."""
        query = "SELECT id FROM sessions WHERE session_id = ?"
        row = self._connection.execute(query, (session_id,)).fetchone()
        if row is None:
            raise no_session(session_id)
        number = row[0]
        self.drop(number)
        self.add({(number, place): one for place, one in summed(charges).items()})

    def drop(self, number: int) -> None:
        """Drop the usage of a session that is deleted, inside a transaction."""
        self._connection.execute("DELETE FROM usage WHERE session = ?", (number,))

    def read(self, since_day: str = "") -> list[UsageRow]:
        """Return the rows from a day on. Raises CorruptLog for a damaged one."""
        rows = self._connection.execute(_ROWS.format("day >= ?"), (since_day,)).fetchall()
        return [_row(row) for row in rows]

    def added_to(self, rows: list[SessionRow]) -> list[SessionRow]:
        """Return rows of sessions with their usage, as far as it can be read."""
        numbers = _encode([row.number for row in rows]).decode()
        found = self._connection.execute(_ROWS.format(_OF_SESSIONS), (numbers,)).fetchall()
        return with_usage(rows, found, _row)


def _row(row: tuple[Any, ...]) -> UsageRow:
    try:
        session, day, model, profile = (str(row[at], "utf-8") for at in (0, 2, 3, 4))
        if any(type(one) is not int or one < 0 for one in row[5:]):
            raise ValueError
        return UsageRow(session, day, model, profile, Usage(*row[5:]))
    except ValueError:
        raise CorruptLog(
            f"the usage of session number {row[1]} is damaged; delete its rows from the table `usage`, and "
            "fill it again with `callboard usage --fill`"
        ) from None


# {0}: `:` or `NEW.`, before the names of JSON values.
CHARGE: Final = (
    "INSERT INTO budgets SELECT json_extract(c.value, '$[0]'), json_extract(c.value, '$[1]'), "
    "json_extract(c.value, '$[2]'), json_extract(c.value, '$[3]'), json_extract(c.value, '$[4]') "
    "FROM json_each({0}charges) AS c WHERE true "
    "ON CONFLICT(scope, period) DO UPDATE SET tokens = budgets.tokens + excluded.tokens, "
    "micro_usd = budgets.micro_usd + excluded.micro_usd"
)
OPEN: Final = (
    "INSERT INTO reservations SELECT o.key, o.value FROM json_each({0}reserved) AS o WHERE true "
    "ON CONFLICT(call) DO NOTHING"
)
CLOSE: Final = "DELETE FROM reservations WHERE call IN (SELECT value FROM json_each({0}settled))"
STATEMENTS: Final = {"charges": CHARGE, "reserved": OPEN, "settled": CLOSE, "usage": ADD}
"""The statements by the name of their parameter, in their order."""

_LOSE: Final = (
    "INSERT INTO unlogged SELECT o.key, o.value, :at_ms FROM json_each(:lost) AS o WHERE true "
    "ON CONFLICT(call) DO NOTHING"
)
_SPENT: Final = (
    "SELECT CAST(scope AS BLOB), CAST(period AS BLOB), tokens, micro_usd, CAST(name AS BLOB) FROM budgets"
)
_OPEN: Final = "SELECT CAST(call AS BLOB), CAST(held AS BLOB) FROM reservations"
_UNLOGGED: Final = "SELECT CAST(call AS BLOB), CAST(held AS BLOB), at_ms FROM unlogged ORDER BY at_ms, call"


class SpendingTables:
    """The tables of spending of one log. cipher: None for a log that is not encrypted."""

    def __init__(self, connection: sqlite3.Connection, cipher: Cipher | None = None) -> None:
        self._connection = connection
        self._texts = SpendingTexts(cipher)
        self.usage = UsageTable(connection)

    # --- writing, inside a transaction --------------------------------------------

    def parameters(self, net: NetChanges, usage: Mapping[tuple[int, Place], Usage]) -> dict[str, str]:
        """Return the parameters of the statements. usage: by the number of the session and its place."""
        if not (net.charges or net.opened or net.closed):
            return {"usage": self.usage.parameter(usage)}
        charges = [
            (self._texts.scope(scope), period, amount.tokens, amount.micro_usd, self._texts.name(scope))
            for (scope, period), amount in net.charges.items()
        ]
        return {
            "charges": _encode(charges).decode(),
            "reserved": self._by_key(net.opened.values()),
            "settled": _encode([self._texts.call(key) for key in net.closed]).decode(),
            "usage": self.usage.parameter(usage),
        }

    def apply(self, changes: Sequence[SpendingChange], usage: Mapping[tuple[int, Place], Usage]) -> None:
        """Apply changes, and add usage."""
        self._execute(self.parameters(NetChanges(changes), usage))

    def _execute(self, parameters: dict[str, str]) -> None:
        for name in parameters:
            self._connection.execute(STATEMENTS[name].format(":"), parameters)

    def hand_over(
        self,
        session_id: str,
        epoch: int,
        held: Sequence[Reservation],
        lost: Sequence[Reservation],
        at_ms: int,
    ) -> list[Reservation]:
        """Hand the reservations of a session over, as `SpendingStore.hand_over` does."""
        own = [one for one in self._open() if one.key.session == session_id and one.key.epoch < epoch]
        net, gone = handed_over(own, held, lost)
        self._execute(self.parameters(net, {}))
        self._connection.execute(_LOSE, {"lost": self._by_key(gone), "at_ms": at_ms})
        return gone

    def charge_all(self, session_id: str, at_ms: int) -> None:
        """Charge all open reservations of a session that is deleted."""
        self.hand_over(session_id, sys.maxsize, (), (), at_ms)

    # --- reading --------------------------------------------------------------------

    def read(self, scopes: Sequence[str] | None = None) -> Spending:
        """Return the spending of these scopes; None for all."""
        query, bounds = _SPENT, tuple[str, ...]()
        if scopes is not None:
            query += " WHERE scope IN (SELECT value FROM json_each(?))"
            bounds = (_encode([self._texts.scope(scope) for scope in scopes]).decode(),)
        rows = self._connection.execute(query, bounds).fetchall()
        spent = tuple(sorted(self._texts.spent(*row) for row in rows))  # no two are of one scope and period
        reserved = tuple(self._open())
        return Spending(spent, reserved if scopes is None else tuple(in_scopes(reserved, scopes)))

    def unlogged(self) -> list[Unlogged]:
        """Return the charges that no log holds."""
        rows = self._connection.execute(_UNLOGGED).fetchall()
        return [Unlogged(self._texts.reservation(call, held), at_ms) for call, held, at_ms in rows]

    def _open(self) -> list[Reservation]:
        rows = self._connection.execute(_OPEN).fetchall()
        return sorted(self._texts.reservation(call, held) for call, held in rows)

    def _by_key(self, reservations: Iterable[Reservation]) -> str:
        """Return what calls have reserved, as a JSON object by their keys."""
        found = {self._texts.call(one.key): self._texts.kept(one) for one in reservations}
        return _encode(found).decode()
