"""The spending of budgets in a SQLite log: its statements, and reading it.

    budgets        scope, period -> the amounts spent, in tokens and micro-dollars
    reservations   the key of a call -> what it has reserved
    unlogged       the key of a call -> what it had reserved, and the time of the charge

A key is the JSON list of session, epoch, agent, turn and attempt. What a call has reserved is the JSON list
of tokens, micro-dollars and spans. A batch of them goes over as one JSON object, which SQLite need not take
apart: with a column for each field a call of w1 took 35,000 instructions more.

In an encrypted log a keyed digest stands for the scope in `budgets`, and `name` and what a call has reserved
are encrypted.
"""

import sqlite3
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.protocol.value_types import Spans
from callboard.actors.session.budget_keys import CallKey, Reservation, SpendingChange
from callboard.actors.session.budget_scope import Spent
from callboard.runtime.log.cipher import Cipher, Unopenable
from callboard.runtime.log.spending import NetChanges, Spending, Unlogged, handed_over, in_scopes
from callboard.runtime.log.sqlite.usage import ADD, UsageTable
from callboard.runtime.log.usage_rows import Place

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

_encode = msgspec.json.Encoder().encode
_key = msgspec.json.Decoder(CallKey).decode
_held = msgspec.json.Decoder(tuple[int, int, Spans]).decode


class SpendingTables:
    """The tables of spending of one log. cipher: None for a log that is not encrypted."""

    def __init__(self, connection: sqlite3.Connection, cipher: Cipher | None = None) -> None:
        self._connection = connection
        self._cipher = cipher
        self.usage = UsageTable(connection)

    # --- writing, inside a transaction --------------------------------------------

    def parameters(self, net: NetChanges, usage: Mapping[tuple[int, Place], Usage]) -> dict[str, str]:
        """Return the parameters of the statements. usage: by the number of the session and its place."""
        if not (net.charges or net.opened or net.closed):
            return {"usage": self.usage.parameter(usage)}
        charges = [
            (self._stored(scope), period, amount.tokens, amount.micro_usd, self._name(scope))
            for (scope, period), amount in net.charges.items()
        ]
        return {
            "charges": _encode(charges).decode(),
            "reserved": self._by_key(net.opened.values()),
            "settled": _encode([_encode(key).decode() for key in net.closed]).decode(),
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
            bounds = (_encode([self._stored(scope) for scope in scopes]).decode(),)
        rows = self._connection.execute(query, bounds).fetchall()
        spent = tuple(sorted(self._spent(*row) for row in rows))  # no two are of one scope and period
        reserved = tuple(self._open())
        return Spending(spent, reserved if scopes is None else tuple(in_scopes(reserved, scopes)))

    def unlogged(self) -> list[Unlogged]:
        """Return the charges that no log holds."""
        rows = self._connection.execute(_UNLOGGED).fetchall()
        return [Unlogged(self._reservation(call, held), at_ms) for call, held, at_ms in rows]

    def _open(self) -> list[Reservation]:
        rows = self._connection.execute(_OPEN).fetchall()
        return sorted(self._reservation(call, held) for call, held in rows)

    def _spent(self, scope: Any, period: Any, tokens: Any, micro: Any, name: Any) -> Spent:
        try:
            shown = str(scope, "utf-8")
            if self._cipher is not None:
                shown = self._cipher.open(("budget", shown), bytes.fromhex(str(name, "ascii"))).decode()
            amount = _amount(tokens, micro)
            return Spent(shown, str(period, "ascii"), amount)
        except (Unopenable, ValueError):
            raise CorruptLog(
                f"the row of a budget is damaged (scope {scope!r:.80}, period {period!r:.20}); restore a "
                "copy of the log, or delete the row: the budget then begins its period again"
            ) from None

    def _reservation(self, call: Any, held: Any) -> Reservation:
        try:
            key = _key(call)
            if self._cipher is not None:
                held = self._cipher.open(("reservation", key.session), bytes.fromhex(str(held, "ascii")))
            tokens, micro, spans = _held(held)
            return Reservation(key, _amount(tokens, micro), spans)
        except (Unopenable, ValueError):  # as of msgspec, too
            raise CorruptLog(
                f"the row of a reservation is damaged (call {call!r:.200}); restore a copy of the log, or "
                "delete the row: its call is then charged to no budget"
            ) from None

    def _stored(self, scope: str) -> str:
        return scope if self._cipher is None else self._cipher.tag(f"budget {scope}")

    def _name(self, scope: str) -> str:
        if self._cipher is None:
            return ""
        return self._cipher.seal(("budget", self._stored(scope)), scope.encode()).hex()

    def _by_key(self, reservations: Iterable[Reservation]) -> str:
        """Return what calls have reserved, as a JSON object by their keys."""
        found = {_encode(one.key).decode(): self._kept(one) for one in reservations}
        return _encode(found).decode()

    def _kept(self, one: Reservation) -> object:
        held = (one.need.tokens, one.need.micro_usd, one.spans)
        if self._cipher is None:
            return held
        return self._cipher.seal(("reservation", one.key.session), _encode(held)).hex()


def _amount(tokens: Any, micro: Any) -> Need:
    if type(tokens) is not int or type(micro) is not int or tokens < 0 or micro < 0:
        raise ValueError
    return Need(tokens, micro)
