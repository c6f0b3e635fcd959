"""The spending of budgets as texts, as stores on tables keep it.

A key is the JSON list of session, epoch, agent, turn and attempt. What a call has reserved is the JSON list
of tokens, micro-dollars and spans. In an encrypted log a keyed digest stands for a scope, and its name and
what a call has reserved are encrypted.
"""

from typing import Any

import msgspec

from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.usage import Need
from callboard.actors.protocol.value_types import Spans
from callboard.actors.session.budget_keys import CallKey, Reservation
from callboard.actors.session.budget_scope import Spent
from callboard.runtime.log.cipher import Cipher, Unopenable

_encode = msgspec.json.Encoder().encode
_key = msgspec.json.Decoder(CallKey).decode
_held = msgspec.json.Decoder(tuple[int, int, Spans]).decode


class SpendingTexts:
    """Writes and reads these texts. cipher: None for a log that is not encrypted."""

    def __init__(self, cipher: Cipher | None = None) -> None:
        self._cipher = cipher

    def scope(self, scope: str) -> str:
        """Return the form in which a scope stands in the log."""
        return scope if self._cipher is None else self._cipher.tag(f"budget {scope}")

    def name(self, scope: str) -> str:
        """Return the encrypted name of a scope; empty in a log that is not encrypted."""
        if self._cipher is None:
            return ""
        return self._cipher.seal(("budget", self.scope(scope)), scope.encode()).hex()

    def call(self, key: CallKey) -> str:
        """Return the text of a key."""
        return _encode(key).decode()

    def kept(self, one: Reservation) -> object:
        """Return what a call has reserved, for JSON."""
        held = (one.need.tokens, one.need.micro_usd, one.spans)
        if self._cipher is None:
            return held
        return self._cipher.seal(("reservation", one.key.session), _encode(held)).hex()

    def held(self, one: Reservation) -> str:
        """Return what a call has reserved, as a text."""
        kept = self.kept(one)
        return kept if isinstance(kept, str) else _encode(kept).decode()

    def spent(self, scope: Any, period: Any, tokens: Any, micro: Any, name: Any) -> Spent:
        """Return the amount spent that is in a row. Raises CorruptLog."""
        try:
            shown = _text(scope)
            if self._cipher is not None:
                shown = self._cipher.open(("budget", shown), bytes.fromhex(_text(name))).decode()
            return Spent(shown, _text(period), amount(tokens, micro))
        except (Unopenable, ValueError):
            raise CorruptLog(
                f"the row of a budget is damaged (scope {scope!r:.80}, period {period!r:.20}); restore a "
                "copy of the log, or delete the row: the budget then begins its period again"
            ) from None

    def reservation(self, call: Any, held: Any) -> Reservation:
        """Return the reservation that is in a row. Raises CorruptLog."""
        try:
            key = _key(call)
            if self._cipher is not None:
                held = self._cipher.open(("reservation", key.session), bytes.fromhex(_text(held)))
            tokens, micro, spans = _held(held)
            return Reservation(key, amount(tokens, micro), spans)
        except (Unopenable, ValueError):  # as of msgspec, too
            raise CorruptLog(
                f"the row of a reservation is damaged (call {call!r:.200}); restore a copy of the log, or "
                "delete the row: its call is then charged to no budget"
            ) from None


def amount(tokens: object, micro: object) -> Need:
    """Return an amount. Raises ValueError for one that cannot be."""
    if type(tokens) is not int or type(micro) is not int or tokens < 0 or micro < 0:
        raise ValueError
    return Need(tokens, micro)


def _text(stored: str | bytes) -> str:
    return stored if isinstance(stored, str) else str(stored, "utf-8")
