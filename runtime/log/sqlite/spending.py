"""The spending of budgets in a SQLite log: its statements, and reading it.

    budgets        scope, period -> the amounts spent, in tokens and micro-dollars
    reservations   session, epoch, agent, turn, attempt -> the need and the spans of an open reservation; one
                   with a time in `lost_ms` is a charge that no log holds

In an encrypted log a keyed digest stands for the scope in `budgets`, and `name` and `spans` are encrypted.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.usage import Need
from callboard.actors.protocol.value_types import Spans
from callboard.actors.session.budget_keys import CallKey, Reservation, SpendingChange
from callboard.actors.session.budget_scope import Spent
from callboard.runtime.log.cipher import Cipher, Unopenable
from callboard.runtime.log.spending import NetChanges, Spending, Unlogged, in_scopes

_KEY: Final = "session, epoch, agent, turn, attempt"
# {0}: `:` or `NEW.`, before the names of JSON arrays.
CHARGE: Final = (
    "INSERT INTO budgets SELECT json_extract(c.value, '$[0]'), json_extract(c.value, '$[1]'), "
    "json_extract(c.value, '$[2]'), json_extract(c.value, '$[3]'), json_extract(c.value, '$[4]') "
    "FROM json_each({0}charges) AS c WHERE true "
    "ON CONFLICT(scope, period) DO UPDATE SET tokens = budgets.tokens + excluded.tokens, "
    "micro_usd = budgets.micro_usd + excluded.micro_usd"
)
OPEN: Final = (
    "INSERT INTO reservations SELECT json_extract(o.value, '$[0]'), json_extract(o.value, '$[1]'), "
    "json_extract(o.value, '$[2]'), json_extract(o.value, '$[3]'), json_extract(o.value, '$[4]'), "
    "json_extract(o.value, '$[5]'), json_extract(o.value, '$[6]'), json_extract(o.value, '$[7]'), "
    "json_extract(o.value, '$[8]') FROM json_each({0}reserved) AS o WHERE true "
    f"ON CONFLICT({_KEY}) DO UPDATE SET lost_ms = excluded.lost_ms"
)
CLOSE: Final = (
    f"DELETE FROM reservations WHERE ({_KEY}) IN (SELECT json_extract(d.value, '$[0]'), "
    "json_extract(d.value, '$[1]'), json_extract(d.value, '$[2]'), json_extract(d.value, '$[3]'), "
    "json_extract(d.value, '$[4]') FROM json_each({0}settled) AS d)"
)
_SPENT: Final = (
    "SELECT CAST(scope AS BLOB), CAST(period AS BLOB), tokens, micro_usd, CAST(name AS BLOB) FROM budgets"
)
_RESERVED: Final = (
    f"SELECT {_KEY}, tokens, micro_usd, CAST(spans AS BLOB), lost_ms FROM reservations "
    "WHERE {} ORDER BY lost_ms, session, epoch, agent, turn, attempt"
)

_encode = msgspec.json.Encoder().encode
_spans = msgspec.json.Decoder(Spans).decode


class SpendingTables:
    """The tables of spending of one log. cipher: None for a log that is not encrypted."""

    def __init__(self, connection: sqlite3.Connection, cipher: Cipher | None = None) -> None:
        self._connection = connection
        self._cipher = cipher

    # --- writing, inside a transaction --------------------------------------------

    def parameters(self, net: NetChanges) -> dict[str, str]:
        """Return the parameters of the three statements."""
        charges = [
            (self._stored(scope), period, amount.tokens, amount.micro_usd, self._name(scope))
            for (scope, period), amount in net.charges.items()
        ]
        opened = [self._row(one, 0) for one in net.opened.values()]
        return {
            "charges": _encode(charges).decode(),
            "reserved": _encode(opened).decode(),
            "settled": _encode(net.closed).decode(),
        }

    def apply(self, changes: Sequence[SpendingChange]) -> None:
        """Apply changes."""
        self._execute(self.parameters(NetChanges(changes)))

    def _execute(self, parameters: dict[str, str]) -> None:
        for statement in (CHARGE, OPEN, CLOSE):
            self._connection.execute(statement.format(":"), parameters)

    def hand_over(
        self,
        session_id: str,
        epoch: int,
        held: Sequence[Reservation],
        lost: Sequence[Reservation],
        at_ms: int,
    ) -> list[Reservation]:
        """Hand the reservations of a session over, as `SpendingStore.hand_over` does."""
        own = [one.reservation for one in self._rows("lost_ms = 0 AND session = ?", session_id)]
        left = [one for one in own if one.key.epoch < epoch]
        kept = {one.key[2:] for one in held}
        gone = {one.key: one for one in (*left, *lost) if one.key[2:] not in kept}
        net = NetChanges(held)
        net.closed = [one.key for one in left if one.key[2:] in kept]
        for one in gone.values():
            net.charge(one, one.need)
        parameters = self.parameters(net)
        rows = [self._row(one, 0) for one in held] + [self._row(one, at_ms) for one in gone.values()]
        self._execute({**parameters, "reserved": _encode(rows).decode()})
        return list(gone.values())

    def charge_all(self, session_id: str, at_ms: int) -> None:
        """Charge all open reservations of a session that is deleted."""
        self.hand_over(session_id, 1 << 62, (), (), at_ms)

    # --- reading --------------------------------------------------------------------

    def read(self, scopes: Sequence[str] | None = None) -> Spending:
        """Return the spending of these scopes; None for all."""
        query, bounds = _SPENT, tuple[str, ...]()
        if scopes is not None:
            query += " WHERE scope IN (SELECT value FROM json_each(?))"
            bounds = (_encode([self._stored(scope) for scope in scopes]).decode(),)
        rows = self._connection.execute(query, bounds).fetchall()
        spent = tuple(sorted((self._spent(*row) for row in rows), key=lambda one: one[:2]))
        reserved = tuple(one.reservation for one in self._rows("lost_ms = 0"))
        return Spending(spent, reserved if scopes is None else tuple(in_scopes(reserved, scopes)))

    def unlogged(self) -> list[Unlogged]:
        """Return the charges that no log holds."""
        return self._rows("lost_ms > 0")

    def _rows(self, where: str, *bounds: str) -> list[Unlogged]:
        rows = self._connection.execute(_RESERVED.format(where), bounds).fetchall()
        return [self._reservation(*row) for row in rows]

    def _spent(self, scope: Any, period: Any, tokens: Any, micro: Any, name: Any) -> Spent:
        try:
            shown = str(scope, "utf-8")
            if self._cipher is not None:
                shown = self._cipher.open(("budget", shown), bytes.fromhex(str(name, "ascii"))).decode()
            amount = _amount(tokens, micro)
            return Spent(shown, str(period, "ascii"), amount)
        except (Unopenable, UnicodeDecodeError, TypeError, ValueError):
            raise CorruptLog(
                f"the row of a budget is damaged (scope {scope!r:.80}, period {period!r:.20}); restore a "
                "copy of the log, or delete the row: the budget then begins its period again"
            ) from None

    def _reservation(self, *row: Any) -> Unlogged:
        session, epoch, agent, turn, attempt, tokens, micro, spans, lost_ms = row
        try:
            if self._cipher is not None:
                spans = self._cipher.open(("reservation", session), bytes.fromhex(str(spans, "ascii")))
            key = msgspec.convert((session, epoch, agent, turn, attempt), CallKey)
            return Unlogged(Reservation(key, _amount(tokens, micro), _spans(spans)), lost_ms)
        except (Unopenable, UnicodeDecodeError, TypeError, ValueError, msgspec.DecodeError):
            raise CorruptLog(
                f"the row of a reservation is damaged (session {session!r:.80}, agent {agent!r:.80}); "
                "restore a copy of the log, or delete the row: its call is then charged to no budget",
            ) from None

    def _stored(self, scope: str) -> str:
        return scope if self._cipher is None else self._cipher.tag(f"budget {scope}")

    def _name(self, scope: str) -> str:
        if self._cipher is None:
            return ""
        return self._cipher.seal(("budget", self._stored(scope)), scope.encode()).hex()

    def _row(self, one: Reservation, lost_ms: int) -> tuple[Any, ...]:
        spans = _encode(one.spans)
        text = spans.decode()
        if self._cipher is not None:
            text = self._cipher.seal(("reservation", one.key.session), spans).hex()
        return (*one.key, one.need.tokens, one.need.micro_usd, text, lost_ms)


def _amount(tokens: Any, micro: Any) -> Need:
    if type(tokens) is not int or type(micro) is not int or tokens < 0 or micro < 0:
        raise ValueError
    return Need(tokens, micro)
