"""All rows of a batch in one statement, so that SQLite does its work in one go, beside the main thread.

A chunk goes over in few values: all bodies end to end, all digests end to end, and small fields as JSON, with
the places of the bodies. SQLite takes them apart again. Large values go the same way, in a statement before
the rows that need them. Values that the file is known to have are not sent again. If that is wrong, the whole
batch is refused (see `batch`): no row gets a hole.

SQLite's JSON ends a text at NUL and makes floats of numbers beyond 64 bits, so `HashChain` refuses both.
"""

import sqlite3
from collections.abc import Container, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec

from callboard.actors.protocol.events import Event
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import DIGEST_BYTES, Sealing
from callboard.runtime.log.large_values import Cut

CHUNK_BYTES: Final = 4 * 2**20  # beyond this a statement gets no further row: SQLite copies them
TEXT: Final = "CAST({} AS TEXT)"
BLOB: Final = "{}"  # SQL for a stored body or large value: readable, or encrypted

# A value is bound with the interpreter lock held, and a row has eight of them: 1.3 us a row, of 1.6 us that
# an INSERT of 256 rows takes. In a chunk a row takes 0.2 us with the lock and 1.8 us without it, on another
# core (CPython 3.11, SQLite 3.40, batches of 512 rows with bodies of 180 bytes).
Chunk: TypeAlias = dict[str, str | bytes]
"""The parameters of the statements. For rows: `rows`, `bodies`, `digests`. For large values: `names`, their
digests end to end; `data`; and `pieces`, the place of each in the data, or null if it is not sent.
"""

_INSERT: Final = """INSERT INTO events
SELECT json_extract(row.value, '$[0]'),
       json_extract(row.value, '$[1]'),
       json_extract(row.value, '$[2]'),
       json_extract(row.value, '$[3]'),
       json_extract(row.value, '$[4]'),
       {body},
       CASE WHEN json_extract(row.value, '$[7]') IS NOT NULL THEN ({cuts}) END,
       substr({of}digests, row.key * {size} + 1, {size})
FROM json_each({of}rows) AS row"""
_BODY: Final = "substr({of}bodies, json_extract(row.value, '$[5]'), json_extract(row.value, '$[6]'))"
_CUTS: Final = """SELECT {checked} FROM (
    SELECT json_extract(cut.value, '$[0]') AS offset, blobs.id AS number
    FROM json_each(row.value, '$[7]') AS cut
    LEFT JOIN blobs ON digest = substr({of}names, json_extract(cut.value, '$[1]') * {size} + 1, {size})
    ORDER BY cut.key)"""
_NUMBERED: Final = "json_group_array(json_array(offset, number))"
_ALL_NUMBERED: Final = f"CASE count(*) WHEN count(number) THEN {_NUMBERED} ELSE RAISE(ABORT, 'lost') END"
_INSERT_PIECES: Final = """INSERT INTO blobs(digest, data)
SELECT substr({of}names, piece.key * {size} + 1, {size}), {data}
FROM json_each({of}pieces) AS piece WHERE piece.type = 'array'
ON CONFLICT(digest) DO NOTHING"""
_DATA: Final = "substr({of}data, json_extract(piece.value, '$[0]'), json_extract(piece.value, '$[1]'))"

_encode = msgspec.json.Encoder().encode


@cache
def inserts_from(of: str, kind: str) -> tuple[str, str]:
    """Return the statements that insert a chunk's large values, and its rows.

    of: the prefix of the chunk's values, `:`, or `NEW.` in a trigger, where a large value that is not in the
    file is an error. kind: TEXT or BLOB.
    """
    cuts = _CUTS.format(of=of, size=DIGEST_BYTES, checked=_ALL_NUMBERED if of == "NEW." else _NUMBERED)
    body, data = kind.format(_BODY.format(of=of)), kind.format(_DATA.format(of=of))
    return (
        _INSERT_PIECES.format(of=of, size=DIGEST_BYTES, data=data),
        _INSERT.format(of=of, size=DIGEST_BYTES, body=body, cuts=cuts),
    )


class _Pieces:
    """The large values of a chunk, once each."""

    def __init__(self, known: Container[bytes], cipher: Cipher | None) -> None:
        self.size = 0
        self._known = known
        self._cipher = cipher
        self._numbers: dict[bytes, int] = {}
        self._places: list[tuple[int, int] | None] = []
        self._data: list[bytes] = []

    def number(self, digest: bytes, data: bytes) -> int:
        """Return the number in this chunk of a value that was cut out of a row's body."""
        if digest not in self._numbers:
            self._numbers[digest] = len(self._numbers)
            self._places.append(None if digest in self._known else self._added(digest, data))
        return self._numbers[digest]

    def _added(self, digest: bytes, data: bytes) -> tuple[int, int]:
        kept = data if self._cipher is None else self._cipher.seal(("blob", digest), data)
        self._data.append(kept)
        self.size += len(kept)
        return self.size - len(kept) + 1, len(kept)  # SQLite counts from 1

    def chunk(self) -> Chunk:
        """Return the chunk's parameters for large values."""
        places, names = _encode(self._places).decode(), b"".join(self._numbers)
        return {"pieces": places, "names": names, "data": b"".join(self._data)}


class Rows:
    """New rows of `events`, with the large values that were cut out of them.

    kind: TEXT or BLOB. known: digests of large values that the file certainly has. cipher: for the others.
    size: bytes of the bodies and of the large values that are sent. names: digests of all large values.
    """

    def __init__(self, kind: str = TEXT, known: Container[bytes] = (), cipher: Cipher | None = None) -> None:
        self.size = 0
        self.names: set[bytes] = set()
        self._known = known
        self._cipher = cipher
        self._insert_pieces, self._insert = inserts_from(":", kind)
        self._chunks: list[Chunk] = []
        self._begin()

    def _begin(self) -> None:
        self._rows: list[tuple[Any, ...]] = []
        self._bodies: list[bytes] = []
        self._digests: list[bytes] = []
        self._pieces = _Pieces(self._known, self._cipher)
        self._end = 1  # where the next body begins: SQLite counts from 1

    def add(self, base: int, events: Sequence[Event], sealing: Sealing) -> None:
        """Add rows behind all others. base: the part of their ids above the seq."""
        sealed, cuts = zip(events, sealing.bodies, sealing.digests, strict=True), sealing.cuts
        for at, (event, body, digest) in enumerate(sealed):
            size = len(body)
            row = (base | event.seq, event.at, event.sender, event.recipient, event.cause, self._end, size)
            self._rows.append((*row, self._numbered(cuts[at])) if at in cuts else row)
            self._bodies.append(body)
            self._digests.append(digest)
            self._end += size
            if self._end + self._pieces.size > CHUNK_BYTES:
                self._finish()

    def _numbered(self, cuts: Sequence[Cut]) -> list[tuple[int, int]]:
        self.names.update(cut.digest for cut in cuts)
        return [(offset, self._pieces.number(digest, data)) for offset, digest, data in cuts]

    def only_chunk(self) -> Chunk | None:
        """Return the only chunk, or None if there are none or more."""
        self._finish()
        return self._chunks[0] if len(self._chunks) == 1 else None

    def insert(self, connection: sqlite3.Connection) -> None:
        """Insert all rows, in as few statements as their size allows."""
        self._finish()
        for chunk in self._chunks:
            if chunk["names"]:
                connection.execute(self._insert_pieces, chunk)
            connection.execute(self._insert, chunk)

    def _finish(self) -> None:
        if self._rows:
            self.size += self._end - 1 + self._pieces.size
            bodies, digests = b"".join(self._bodies), b"".join(self._digests)
            rows = _encode(self._rows).decode()
            self._chunks.append({"rows": rows, "bodies": bodies, "digests": digests, **self._pieces.chunk()})
            self._begin()
