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

from callboard.runtime.log.append_rules import no_session
from callboard.runtime.log.cipher import Cipher, Unopenable
from callboard.runtime.log.hash_chain import Sealed, corrupt
from callboard.runtime.log.large_values import Cut, blob_digest, splice
from callboard.runtime.log.protocol import Head, SessionRow, Stored
from callboard.runtime.log.sqlite.schema import SEQ_BITS, SEQ_MAX

_ROWS: Final = (
    "SELECT id & 0xffffffff, at, CAST(sender AS BLOB), CAST(recipient AS BLOB), cause, "
    "CAST(body AS BLOB), digest, cuts FROM events WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?"
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


class _Names(dict[bytes, str]):
    """Addresses by their bytes, each decoded when it is first seen."""

    def __missing__(self, name: bytes) -> str:
        self[name] = text = name.decode("utf-8", "replace")
        return text


def find(connection: sqlite3.Connection, session_id: str) -> Place | None:
    """The session, or None."""
    row = connection.execute(
        "SELECT id, epoch, head, origin FROM sessions WHERE session_id = ?", (session_id,)
    ).fetchone()
    return Place(*row) if row else None


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
        "SELECT digest FROM events WHERE id = ?", (place.number << SEQ_BITS | place.head,)
    ).fetchone()
    if row is None:
        raise corrupt(session_id, place.head, "is missing, and it was the last one")
    return Head(place.head, row[0])


def session_rows(connection: sqlite3.Connection, cipher: Cipher | None) -> list[SessionRow]:
    """All sessions, newest first."""
    rows = connection.execute(
        "SELECT session_id, epoch, head, created_ms, title FROM sessions ORDER BY created_ms DESC, id DESC"
    )
    if cipher is None:
        return [SessionRow(*row) for row in rows.fetchall()]
    return [
        SessionRow(name, epoch, head, created_ms, _title(cipher, name, title))
        for name, epoch, head, created_ms, title in rows.fetchall()
    ]


def _title(cipher: Cipher, session_id: str, stored: bytes) -> str:
    try:
        return cipher.open_title(session_id, stored)
    except Unopenable:
        return "(a title that does not decrypt)"


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
    page = _page(connection, place, start, limit)
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
    page = _opened(_page(connection, place, start, limit), session_id, blobs.cipher)
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


# at, cause and the digest are whatever stands in the file; a wrong type gives a wrong digest
_Row = tuple[int, int, bytes, bytes, int, bytes, bytes, str | None]


def _page(connection: sqlite3.Connection, place: Place, start: int, limit: int) -> list[_Row]:
    first = place.number << SEQ_BITS
    bounds = (first | min(max(start, 1), SEQ_MAX), first | SEQ_MAX, limit)
    rows: list[_Row] = connection.execute(_ROWS, bounds).fetchall()
    return rows


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


def _whole(session_id: str, seq: int, text: bytes, cuts: str, blobs: "Blobs") -> bytes:
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

    def at(self, session_id: str, seq: int, cuts: str) -> list[tuple[int, bytes]]:
        """What belongs to an event's `cuts`: (offset, value). Raises CorruptLog."""
        try:
            return [(offset, self._get(number)) for offset, number in _places(cuts)]
        except (LookupError, TypeError, msgspec.DecodeError) as error:
            raise corrupt(session_id, seq, f"lacks a large value ({error})") from None

    def _get(self, number: int) -> bytes:
        value = self._known.get(number)
        if value is None:
            query = "SELECT CAST(data AS BLOB), digest FROM blobs WHERE id = ?"
            row = self._connection.execute(query, (number,)).fetchone()
            if row is None:
                raise LookupError(f"no blob {number}")
            data = row[0] if self.cipher is None else self.cipher.open_blob(row[1], row[0])
            value = self._known[number] = self._made(data)
        return value
