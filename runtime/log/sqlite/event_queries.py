"""Queries on the events of a session, page by page. For owner and readers.

Every page is one statement, read to its end at once, so that no read transaction outlives the call: one
that stays open keeps SQLite from reusing the WAL (118 MiB after 20,000 inserts, measured).
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import msgspec

from callboard.actors.protocol.errors import CorruptLog
from callboard.runtime.log.cipher import Cipher, Unopenable
from callboard.runtime.log.hash_chain import corrupt
from callboard.runtime.log.large_values import Cut, blob_digest, splice
from callboard.runtime.log.protocol import Sealed, Stored
from callboard.runtime.log.sqlite.schema import SEQ_BITS, SEQ_MAX, blob_or_null
from callboard.runtime.log.sqlite.session_queries import SessionEntry
from callboard.runtime.log.sqlite.store_errors import error_code

# Texts as bytes: a damaged byte is then a wrong digest with a seq, not a decoding error without one.
_ROWS: Final = (
    "SELECT id & 0xffffffff, at, CAST(sender AS BLOB), CAST(recipient AS BLOB), cause, "
    "CAST(body AS BLOB), digest, CAST(cuts AS BLOB) FROM events WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?"
)
_OWN_ROWS: Final = _ROWS.replace("ORDER BY", "AND (recipient = ? OR sender = ?) ORDER BY")
_DAMAGED: Final = (
    "SELECT id & 0xffffffff FROM events WHERE id BETWEEN ? AND ? AND NOT (typeof(at) = 'integer' "
    "AND typeof(cause) = 'integer' AND typeof(digest) = 'blob' AND sender IS NOT NULL "
    "AND recipient IS NOT NULL AND body IS NOT NULL) ORDER BY id LIMIT 1"
)
PAGE_EVENTS: Final = 2_000  # rows of one read: bounds the memory that a long session takes

_places = msgspec.json.Decoder(list[tuple[int, int]]).decode


class _Names(dict[bytes | None, str]):
    """Addresses by their bytes. The few of a session are decoded once each and shared."""

    def __missing__(self, name: bytes | None) -> str:
        # No address holds NUL, so the digest of an event whose address is gone cannot match.
        self[name] = text = "\0" if name is None else name.decode("utf-8", "replace")
        return text


def stored_rows(
    connection: sqlite3.Connection,
    session_id: str,
    entry: SessionEntry,
    start: int,
    limit: int,
    cipher: Cipher | None = None,
) -> list[Stored]:
    """Return up to `limit` events from seq `start`, with their large values. Raises CorruptLog."""
    page = _page(connection, session_id, entry, start, limit)
    return _stored(connection, session_id, entry, page, cipher)


def rows_of(
    connection: sqlite3.Connection,
    session_id: str,
    entry: SessionEntry,
    address: str,
    first: int,
    last: int,
    limit: int,
    cipher: Cipher | None,
) -> list[Stored]:
    """Return up to `limit` events that an actor received or posted. Raises CorruptLog."""
    base = entry.number << SEQ_BITS
    # No index on the addresses: a scan costs 0.2 us a row, an index would cost every append 1 us and a page.
    bounds = (base | max(first, 1), base | min(last, SEQ_MAX), address, address, limit)
    page = _rows(connection, session_id, entry, _OWN_ROWS, bounds)
    return _stored(connection, session_id, entry, page, cipher)


def _stored(
    connection: sqlite3.Connection,
    session_id: str,
    entry: SessionEntry,
    page: "list[_Row]",
    cipher: Cipher | None,
) -> list[Stored]:
    names, blobs = _Names(), Blobs(connection, bytes, cipher)
    if not all(map(_is_sound, page)):
        raise _damaged_event(connection, session_id, entry)
    rows = []
    for seq, at, sender, recipient, cause, body, digest, cuts in _opened(page, session_id, cipher):
        whole = body if cuts is None else _whole(session_id, seq, body, cuts, blobs)
        rows.append(Stored(seq, at, names[sender], names[recipient], cause, whole, digest))
    return rows


def sealed_rows(
    connection: sqlite3.Connection,
    session_id: str,
    entry: SessionEntry,
    start: int,
    limit: int,
    blobs: "Blobs",
) -> list[Sealed]:
    """Return up to `limit` rows from seq `start` for a check of their digests. Raises CorruptLog.

    blobs: gives digests instead of values.
    """
    names, rows = _Names(), []
    page = _opened(_page(connection, session_id, entry, start, limit), session_id, blobs.cipher)
    for seq, at, sender, recipient, cause, body, digest, cuts in page:
        found_cuts: tuple[Cut, ...] = ()
        if cuts is not None:
            found_cuts = tuple(Cut(offset, value, b"") for offset, value in blobs.at(session_id, seq, cuts))
        rows.append(Sealed(seq, at, names[sender], names[recipient], cause, body, found_cuts, digest))
    return rows


def whole_rows(
    connection: sqlite3.Connection,
    session_id: str,
    entry: SessionEntry,
    start: int,
    limit: int,
    cipher: Cipher | None,
) -> list[Sealed]:
    """Return up to `limit` rows from seq `start` for a check of their digests, with their large values."""
    blobs = Blobs(connection, bytes, cipher)
    rows = sealed_rows(connection, session_id, entry, start, limit, blobs)
    digests = {id(data): blob_digest(data) for row in rows for _, data, _ in row.cuts}
    return [
        row._replace(cuts=tuple(Cut(offset, digests[id(data)], data) for offset, data, _ in row.cuts))
        if row.cuts
        else row
        for row in rows
    ]


def all_sealed(
    connection: sqlite3.Connection,
    session_id: str,
    entry: SessionEntry,
    cipher: Cipher | None,
    reported: Callable[[str, int], AbstractContextManager[None]] = lambda session_id, start: nullcontext(),
) -> Iterator[Sealed]:
    """Yield all rows of a session for a check of their digests, page by page. Raises CorruptLog.

    reported: given the session and the first seq of a page, names its errors.
    """
    start, blobs = 1, Blobs(connection, cipher=cipher)
    while True:
        with reported(session_id, start):
            rows = sealed_rows(connection, session_id, entry, start, PAGE_EVENTS, blobs)
        if not rows:
            return
        yield from rows
        start = rows[-1].seq + 1


# A damaged field has any type or is None; `verify` finds it by its digest, `stored_rows` by its type.
_Row = tuple[int, int, bytes, bytes, int, bytes, bytes, bytes | None]


def _page(
    connection: sqlite3.Connection, session_id: str, entry: SessionEntry, start: int, limit: int
) -> list[_Row]:
    first = entry.number << SEQ_BITS
    return _rows(
        connection, session_id, entry, _ROWS, (first | min(max(start, 1), SEQ_MAX), first | SEQ_MAX, limit)
    )


def _rows(
    connection: sqlite3.Connection,
    session_id: str,
    entry: SessionEntry,
    query: str,
    bounds: tuple[int | str, ...],
) -> list[_Row]:
    try:
        rows: list[_Row] = connection.execute(query, bounds).fetchall()
    except sqlite3.OperationalError as error:
        if error_code(error):
            raise
        # sqlite3 itself raised: a text in the place of a number or a digest is not UTF-8.
        raise _damaged_event(connection, session_id, entry) from None
    return rows


def _is_sound(row: _Row) -> bool:
    kinds = (type(row[1]), type(row[4]), type(row[6]))
    return kinds == (int, int, bytes) and None not in (row[2], row[3], row[5])


def _damaged_event(connection: sqlite3.Connection, session_id: str, entry: SessionEntry) -> CorruptLog:
    first = entry.number << SEQ_BITS
    row = connection.execute(_DAMAGED, (first | 1, first | SEQ_MAX)).fetchone()
    return corrupt(session_id, row[0] if row else entry.head, "holds a field of another type")


def _opened(page: list[_Row], session_id: str, cipher: Cipher | None) -> Iterable[_Row]:
    return page if cipher is None else (_decrypted(row, session_id, cipher) for row in page)


def _decrypted(row: _Row, session_id: str, cipher: Cipher) -> _Row:
    seq, at, sender, recipient, cause, body, digest, cuts = row
    try:
        body = cipher.open_event(session_id, seq, body)
    except Unopenable as error:
        raise corrupt(session_id, seq, f"has a body of another event, or a changed one ({error})") from None
    return (seq, at, sender, recipient, cause, body, digest, cuts)


def _whole(session_id: str, seq: int, text: bytes, cuts: bytes, blobs: "Blobs") -> bytes:
    try:
        return splice(text, blobs.at(session_id, seq, cuts))
    except ValueError as error:
        raise corrupt(session_id, seq, f"has a large value in no known place ({error})") from None


class Blobs:
    """Large values by their number in the file, each fetched once. made: applied to every value."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        made: Callable[[bytes], bytes] = blob_digest,
        cipher: Cipher | None = None,
    ) -> None:
        self.cipher = cipher
        self._connection = connection
        self._made = made
        self._known: dict[int, bytes] = {}

    def at(self, session_id: str, seq: int, cuts: bytes) -> list[tuple[int, bytes]]:
        """Return the (offset, value) pairs of an event's `cuts`. Raises CorruptLog."""
        try:
            return [(offset, self._get(number)) for offset, number in _places(cuts)]
        except (LookupError, TypeError, OverflowError, ValueError) as error:
            raise corrupt(session_id, seq, f"lacks a large value ({error})") from None

    def _get(self, number: int) -> bytes:
        value = self._known.get(number)
        if value is None:
            query = f"SELECT CAST(data AS BLOB), {blob_or_null('digest')} FROM blobs WHERE id = ?"
            row = self._connection.execute(query, (number,)).fetchone()
            if row is None:
                raise LookupError(f"no blob {number}")
            data = row[0] if self.cipher is None else self.cipher.open_blob(row[1], row[0])
            value = self._known[number] = self._made(data)
        return value
