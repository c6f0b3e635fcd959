"""All rows of a batch in one statement, so that SQLite does its work in one go, beside the main thread.

A value is bound with the interpreter lock held, and a row has eight of them: 1.3 us a row, of 1.6 us that
an INSERT of 256 rows takes. So a batch goes over in three values: all bodies end to end, all digests end to
end, and everything small as JSON, with the places of the bodies. SQLite takes them apart again, on another
core than the one that runs the agents: 0.2 us a row with the lock, 1.8 us without (CPython 3.11, SQLite
3.40, batches of 512 rows with bodies of 180 bytes).

What SQLite's JSON cannot hold is refused: it ends a text at NUL, and makes floats of numbers beyond 64 bits.
Bodies do not go that way, and may hold anything.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from callboard.runtime.log.chain import DIGEST_BYTES, Sealed

CHUNK_BYTES: Final = 4 * 2**20
"""A statement gets no further row when its bodies have passed this size: SQLite copies what is bound."""

NUMBER_MAX: Final = (1 << 63) - 1

BlobsOf: TypeAlias = Callable[[Sealed], list[tuple[int, int]]]
"""Gives the (offset, blob id) of everything that was cut out of a row's body."""

TEXT: Final = "CAST({} AS TEXT)"
BLOB: Final = "{}"
"""How a body, or a large value, is stored: readable, or encrypted."""

Chunk: TypeAlias = dict[str, str | bytes]
"""Rows as the statement takes them: `rows`, `bodies` and `digests`."""

_INSERT: Final = """INSERT INTO events
SELECT json_extract(row.value, '$[0]'),
       json_extract(row.value, '$[1]'),
       json_extract(row.value, '$[2]'),
       json_extract(row.value, '$[3]'),
       json_extract(row.value, '$[4]'),
       {body},
       json_extract(row.value, '$[7]'),
       substr({of}digests, row.key * {size} + 1, {size})
FROM json_each({of}rows) AS row"""
_BODY: Final = "substr({of}bodies, json_extract(row.value, '$[5]'), json_extract(row.value, '$[6]'))"

_encode = msgspec.json.Encoder().encode


def insert_from(of: str, kind: str) -> str:
    """The statement that inserts a chunk. of: what its values are called by, `:` or `NEW.`."""
    return _INSERT.format(of=of, size=DIGEST_BYTES, body=kind.format(_BODY.format(of=of)))


class Rows:
    """Rows of `events` on their way into the table. kind: TEXT or BLOB. size: bytes of the bodies."""

    def __init__(self, kind: str = TEXT) -> None:
        self.size = 0
        self._insert = insert_from(":", kind)
        self._chunks: list[Chunk] = []
        self._begin()

    def _begin(self) -> None:
        self._rows: list[tuple[Any, ...]] = []
        self._bodies: list[bytes] = []
        self._digests: list[bytes] = []
        self._end = 1  # where the next body begins: SQLite counts from 1

    def add(self, base: int, sealed: Sequence[Sealed], blobs_of: BlobsOf) -> None:
        """More rows, behind all others. base: what their ids have besides the seq. blobs_of: for cuts."""
        rows, bodies, digests = self._rows, self._bodies, self._digests
        for row in sealed:
            seq, at, sender, recipient, cause, body, cuts, digest = row
            end = self._end
            rows.append(
                (base | seq, at, sender, recipient, cause, end, len(body), blobs_of(row) if cuts else None)
            )
            bodies.append(body)
            digests.append(digest)
            self._end = end = end + len(body)
            if end > CHUNK_BYTES:
                self._finish()
                rows, bodies, digests = self._rows, self._bodies, self._digests

    def only_chunk(self) -> Chunk | None:
        """All rows in one chunk, if they are so few."""
        self._finish()
        return self._chunks[0] if len(self._chunks) == 1 else None

    def insert(self, connection: sqlite3.Connection) -> None:
        """Insert all of them, in as few statements as their size allows."""
        self._finish()
        for chunk in self._chunks:
            connection.execute(self._insert, chunk)

    def _finish(self) -> None:
        if self._rows:
            self.size += self._end - 1
            rows, bodies, digests = (
                _encode(self._rows).decode(),
                b"".join(self._bodies),
                b"".join(self._digests),
            )
            self._chunks.append({"rows": rows, "bodies": bodies, "digests": digests})
            self._begin()


def check_rows(rows: Iterable[Sealed]) -> None:
    """Refuse what could not be read back as it was. Raises ValueError, OverflowError."""
    addresses = set()
    for row in rows:
        addresses.add(row[2])
        addresses.add(row[3])
        if not (-NUMBER_MAX <= row[1] <= NUMBER_MAX and -NUMBER_MAX <= row[4] <= NUMBER_MAX):
            raise OverflowError(f"event {row.seq} holds a number of more than 64 bits")
    for address in addresses:
        if "\0" in address:
            raise ValueError(f"there is NUL in the address {address!r:.100}")
