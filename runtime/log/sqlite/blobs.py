"""Large values in the file, which bodies were cut from."""

import sqlite3
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import corrupt
from callboard.runtime.log.large_values import Cut
from callboard.runtime.log.sqlite.schema import typed

_BLOB: Final = f"SELECT CAST(data AS BLOB), {typed('digest', 'blob')} FROM blobs WHERE id = ?"

Kept: TypeAlias = Callable[[bytes], tuple[bytes, bytes]]
"""A large value -> the digest and the data of its cut."""

places_of = msgspec.json.Decoder(list[tuple[int, int]]).decode


class Blobs:
    """Large values by their number in the file, each fetched once."""

    def __init__(self, connection: sqlite3.Connection, cipher: Cipher | None, kept: Kept) -> None:
        self._connection = connection
        self._cipher = cipher
        self._kept = kept
        self._known: dict[int, tuple[bytes, bytes]] = {}

    def cuts(self, session_id: str, seq: int, cuts: bytes) -> tuple[Cut, ...]:
        """Return the cuts of an event."""
        try:
            return tuple(Cut(offset, *self._get(number)) for offset, number in places_of(cuts))
        except (LookupError, TypeError, OverflowError, ValueError) as error:
            raise corrupt(session_id, seq, f"lacks a large value ({error})") from None

    def _get(self, number: int) -> tuple[bytes, bytes]:
        if number not in self._known:
            row = self._connection.execute(_BLOB, (number,)).fetchone()
            if row is None or row[0] is None:  # SQLite takes NOT NULL on trust, also in a damaged file
                raise LookupError(f"no blob {number}")
            data = row[0] if self._cipher is None else self._cipher.open(("blob", row[1]), row[0])
            self._known[number] = self._kept(data)
        return self._known[number]
