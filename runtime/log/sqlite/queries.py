"""How rows of a SQLite log become sessions and events again: shared by the owner and the readers.

Every page is one statement, read to its end at once, so that no read transaction outlives the call: one
that stays open keeps SQLite from reusing the WAL (118 MiB after 20,000 inserts, measured).

Texts are read as bytes: a damaged byte is then a wrong digest, with a seq, and not a decoding error
without one; and the few addresses of a session are decoded once each and shared.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from callboard.actors.protocol.errors import CorruptLog
from callboard.runtime.log.append_rules import no_session
from callboard.runtime.log.cipher import Cipher, Unopenable
from callboard.runtime.log.hash_chain import DIGEST_BYTES, Sealed, corrupt
from callboard.runtime.log.large_values import Cut, blob_digest, splice
from callboard.runtime.log.protocol import Head, SessionRow, Stored
from callboard.runtime.log.sqlite.schema import NUMBER_MAX, SEQ_BITS, SEQ_MAX
from callboard.runtime.log.sqlite.store_errors import error_code

_ROWS: Final = (
    "SELECT id & 0xffffffff, at, CAST(sender AS BLOB), CAST(recipient AS BLOB), cause, "
    "CAST(body AS BLOB), digest, CAST(cuts AS BLOB) FROM events WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?"
)
_DAMAGED: Final = (
    "SELECT id & 0xffffffff FROM events WHERE id BETWEEN ? AND ? AND NOT (typeof(at) = 'integer' "
    "AND typeof(cause) = 'integer' AND typeof(digest) = 'blob' AND sender IS NOT NULL "
    "AND recipient IS NOT NULL AND body IS NOT NULL) ORDER BY id LIMIT 1"
)
PAGE_EVENTS: Final = 2_000
"""Rows that one read takes, so that memory stays small however long a session is."""

_WITH_CUTS: Final = "WHERE events.cuts IS NOT NULL"
_places = msgspec.json.Decoder(list[tuple[int, int]]).decode


class Place(NamedTuple):
    """A session in its file: its number there, and what its row says."""

    number: int
    epoch: int
    head: int
    origin: bytes


class _Names(dict[bytes | None, str]):
    """Addresses by their bytes, each decoded when it is first seen."""

    def __missing__(self, name: bytes | None) -> str:
        # No address holds NUL, so the digest of an event whose address is gone cannot match.
        self[name] = text = "\0" if name is None else name.decode("utf-8", "replace")
        return text


def find(connection: sqlite3.Connection, session_id: str) -> Place | None:
    """Return the session, or None. Raises CorruptLog if its row is damaged."""
    row = connection.execute(
        f"SELECT id, {_integer('epoch')}, {_integer('head')}, {_blob('origin')} "
        "FROM sessions WHERE session_id = ?",
        (session_id,),
    ).fetchone()
    if row is None:
        return None
    place = Place(*row)
    if not 0 < place.number <= NUMBER_MAX or _is_damaged(place.epoch, place.head):
        raise _damaged_session(session_id)
    if place.origin is None or len(place.origin) != DIGEST_BYTES:
        raise corrupt(session_id, 1, "continues no digest of 32 bytes")
    return place


def _integer(column: str) -> str:
    """Return SQL for a number that is NULL where another type stands: sqlite3 decodes every text."""
    return f"CASE typeof({column}) WHEN 'integer' THEN {column} END"


def _blob(column: str) -> str:
    return f"CASE typeof({column}) WHEN 'blob' THEN {column} END"


def _is_damaged(epoch: int | None, head: int | None) -> bool:
    return epoch is None or epoch < 1 or head is None or not 0 <= head <= SEQ_MAX


def _damaged_session(session_id: str) -> CorruptLog:
    return CorruptLog(
        f"session {session_id}: its row in the table sessions is damaged; restore a copy of the log",
        session_id,
    )


def found(connection: sqlite3.Connection, session_id: str) -> Place:
    """The session. Raises SessionNotFound."""
    place = find(connection, session_id)
    if place is None:
        raise no_session(session_id)
    return place


def head_of(connection: sqlite3.Connection, session_id: str, place: Place) -> Head:
    """Where the session ends. Raises CorruptLog if its last event is gone."""
    if place.head == 0:
        return Head(0, place.origin)
    row = connection.execute(
        f"SELECT {_blob('digest')} FROM events WHERE id = ?", (place.number << SEQ_BITS | place.head,)
    ).fetchone()
    if row is None:
        raise corrupt(session_id, place.head, "is missing, and it was the last one")
    if row[0] is None:
        raise corrupt(session_id, place.head, "has no digest")
    return Head(place.head, row[0])


def session_rows(connection: sqlite3.Connection, cipher: Cipher | None) -> list[SessionRow]:
    """Return all sessions, newest first. Raises CorruptLog if a row is damaged."""
    rows = connection.execute(
        f"SELECT id, CAST(session_id AS BLOB), {_integer('epoch')}, {_integer('head')}, "
        f"{_integer('created_ms')}, CAST(title AS BLOB) FROM sessions ORDER BY created_ms DESC, id DESC"
    )
    return [_session_row(row, cipher) for row in rows.fetchall()]


def _session_row(
    row: tuple[int, bytes | None, int | None, int | None, int | None, bytes | None], cipher: Cipher | None
) -> SessionRow:
    number, name, epoch, head, created_ms, title = row
    try:
        session_id = str(name or b"\xff", "utf-8")
    except UnicodeDecodeError:
        raise CorruptLog(f"session number {number} has a damaged id; restore a copy of the log") from None
    if epoch is None or head is None or created_ms is None or _is_damaged(epoch, head):
        raise _damaged_session(session_id)
    return SessionRow(session_id, epoch, head, created_ms, _title(session_id, title, cipher))


def _title(session_id: str, stored: bytes | None, cipher: Cipher | None) -> str:
    try:
        if cipher is not None:
            return cipher.open_title(session_id, stored)
        return str(stored or b"", "utf-8")
    # No digest covers a title: a damaged one must not keep its session from being read.
    except (Unopenable, UnicodeDecodeError):
        return "(a title that cannot be read)"


def stored_rows(
    connection: sqlite3.Connection,
    session_id: str,
    place: Place,
    start: int,
    limit: int,
    cipher: Cipher | None = None,
) -> list[Stored]:
    """Up to `limit` events from seq `start`, large values back in their places. Raises CorruptLog."""
    names, blobs = _Names(), Blobs(connection, bytes, cipher)
    page = _page(connection, session_id, place, start, limit)
    if not all(map(_is_sound, page)):
        raise _damaged_event(connection, session_id, place)
    return [
        Stored(
            seq,
            at,
            names[sender],
            names[recipient],
            cause,
            body if cuts is None else _whole(session_id, seq, body, cuts, blobs),
            digest,
        )
        for seq, at, sender, recipient, cause, body, digest, cuts in _opened(page, session_id, cipher)
    ]


def sealed_rows(
    connection: sqlite3.Connection, session_id: str, place: Place, start: int, limit: int, blobs: "Blobs"
) -> list[Sealed]:
    """Up to `limit` rows from seq `start` as their digests see them. `blobs` gives digests, not values."""
    names = _Names()
    rows = []
    page = _opened(_page(connection, session_id, place, start, limit), session_id, blobs.cipher)
    for seq, at, sender, recipient, cause, body, digest, cuts in page:
        found_cuts: tuple[Cut, ...] = ()
        if cuts is not None:
            found_cuts = tuple(Cut(offset, value, b"") for offset, value in blobs.at(session_id, seq, cuts))
        rows.append(Sealed(seq, at, names[sender], names[recipient], cause, body, found_cuts, digest))
    return rows


def all_sealed(
    connection: sqlite3.Connection, session_id: str, place: Place, cipher: Cipher | None
) -> Iterator[Sealed]:
    """All rows of a session as their digests see them, page by page. Raises CorruptLog."""
    start, blobs = 1, Blobs(connection, cipher=cipher)
    while rows := sealed_rows(connection, session_id, place, start, PAGE_EVENTS, blobs):
        yield from rows
        start = rows[-1].seq + 1


def delete_session(connection: sqlite3.Connection, place: Place) -> None:
    """Delete a session's rows, and the large values that only it had, inside a transaction."""
    first = place.number << SEQ_BITS
    cuts = f"SELECT json_extract(cut.value, '$[1]') FROM events, json_each(events.cuts) AS cut {_WITH_CUTS}"
    own = connection.execute(f"{cuts} AND events.id BETWEEN ? AND ?", (first, first | SEQ_MAX)).fetchall()
    connection.execute("DELETE FROM events WHERE id BETWEEN ? AND ?", (first, first | SEQ_MAX))
    connection.execute("DELETE FROM sessions WHERE id = ?", (place.number,))
    numbers = msgspec.json.encode(sorted({number for (number,) in own})).decode()
    connection.execute(
        f"DELETE FROM blobs WHERE id IN (SELECT value FROM json_each(?)) AND id NOT IN ({cuts})", (numbers,)
    )


# A damaged field has any type or is None; `verify` finds it by its digest, `stored_rows` by its type.
_Row = tuple[int, int, bytes, bytes, int, bytes, bytes, bytes | None]


def _page(
    connection: sqlite3.Connection, session_id: str, place: Place, start: int, limit: int
) -> list[_Row]:
    first = place.number << SEQ_BITS
    bounds = (first | min(max(start, 1), SEQ_MAX), first | SEQ_MAX, limit)
    try:
        rows: list[_Row] = connection.execute(_ROWS, bounds).fetchall()
    except sqlite3.OperationalError as error:
        if error_code(error):
            raise
        # sqlite3 itself raised: a text in the place of a number or a digest is not UTF-8.
        raise _damaged_event(connection, session_id, place) from None
    return rows


def _is_sound(row: _Row) -> bool:
    """Return whether the fields of a row have their types."""
    return (
        type(row[1]) is int
        and type(row[4]) is int
        and type(row[6]) is bytes
        and row[2] is not None
        and row[3] is not None
        and row[5] is not None
    )


def _damaged_event(connection: sqlite3.Connection, session_id: str, place: Place) -> CorruptLog:
    """Return the error for the first event of a session that has a field of another type."""
    first = place.number << SEQ_BITS
    row = connection.execute(_DAMAGED, (first | 1, first | SEQ_MAX)).fetchone()
    return corrupt(session_id, row[0] if row else place.head, "holds a field of another type")


def _opened(page: list[_Row], session_id: str, cipher: Cipher | None) -> Iterable[_Row]:
    """The rows with their bodies as they were before they were encrypted. Raises CorruptLog."""
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
    """Large values by their number in the file, or something made of each, fetched once per object."""

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
        """What belongs to an event's `cuts`: (offset, value). Raises CorruptLog."""
        try:
            return [(offset, self._get(number)) for offset, number in _places(cuts)]
        except (LookupError, TypeError, OverflowError, ValueError) as error:
            raise corrupt(session_id, seq, f"lacks a large value ({error})") from None

    def _get(self, number: int) -> bytes:
        value = self._known.get(number)
        if value is None:
            query = f"SELECT CAST(data AS BLOB), {_blob('digest')} FROM blobs WHERE id = ?"
            row = self._connection.execute(query, (number,)).fetchone()
            if row is None:
                raise LookupError(f"no blob {number}")
            data = row[0] if self.cipher is None else self.cipher.open_blob(row[1], row[0])
            value = self._known[number] = self._made(data)
        return value
