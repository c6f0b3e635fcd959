"""The usage of sessions in a SQLite log: a row for each session, UTC day, model and profile."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.usage import ZERO, Usage, plus
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.protocol import no_session
from callboard.runtime.log.session_rows import SessionRow
from callboard.runtime.log.usage_rows import Place, UsageRow, figures, summed

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
        sums: dict[str, Usage] = {}
        for found in self._connection.execute(_ROWS.format(_OF_SESSIONS), (numbers,)).fetchall():
            try:
                row = _row(found)
            except CorruptLog:  # no digest covers usage: a damaged row must not hide its session
                continue
            sums[row.session_id] = plus(sums.get(row.session_id, ZERO), row.usage)
        return [replace(row, usage=sums[row.session_id]) if row.session_id in sums else row for row in rows]


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
