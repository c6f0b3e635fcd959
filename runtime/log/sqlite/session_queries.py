"""Queries on the sessions of a log, for owner and readers."""

import sqlite3
from typing import Final, NamedTuple

import msgspec

from callboard.actors.protocol.errors import CorruptLog
from callboard.runtime.log.cipher import Cipher, Unopenable
from callboard.runtime.log.hash_chain import DIGEST_BYTES, corrupt
from callboard.runtime.log.protocol import Head, SessionRow, no_session
from callboard.runtime.log.sqlite.schema import NUMBER_MAX, SEQ_BITS, SEQ_MAX, blob_or_null, integer_or_null

_WITH_CUTS: Final = "WHERE events.cuts IS NOT NULL"


class SessionEntry(NamedTuple):
    """A session in its file: its number there, and the values of its row."""

    number: int
    epoch: int
    head: int
    origin: bytes


def find_session(connection: sqlite3.Connection, session_id: str) -> SessionEntry | None:
    """Return the session, or None. Raises CorruptLog if its row is damaged."""
    row = connection.execute(
        f"SELECT id, {integer_or_null('epoch')}, {integer_or_null('head')}, {blob_or_null('origin')} "
        "FROM sessions WHERE session_id = ?",
        (session_id,),
    ).fetchone()
    if row is None:
        return None
    entry = SessionEntry(*row)
    if not 0 < entry.number <= NUMBER_MAX or _is_damaged(entry.epoch, entry.head):
        raise _damaged_session(session_id)
    if entry.origin is None or len(entry.origin) != DIGEST_BYTES:
        raise corrupt(session_id, 1, "continues no digest of 32 bytes")
    return entry


def _is_damaged(epoch: int | None, head: int | None) -> bool:
    return epoch is None or epoch < 1 or head is None or not 0 <= head <= SEQ_MAX


def _damaged_session(session_id: str) -> CorruptLog:
    return CorruptLog(
        f"session {session_id}: its row in the table sessions is damaged; restore a copy of the log",
        session_id,
    )


def require_session(connection: sqlite3.Connection, session_id: str) -> SessionEntry:
    """Return the session. Raises SessionNotFound, CorruptLog."""
    entry = find_session(connection, session_id)
    if entry is None:
        raise no_session(session_id)
    return entry


def read_head(connection: sqlite3.Connection, session_id: str, entry: SessionEntry) -> Head:
    """Return the head of a session. Raises CorruptLog if its last event is missing."""
    if entry.head == 0:
        return Head(0, entry.origin)
    row = connection.execute(
        f"SELECT {blob_or_null('digest')} FROM events WHERE id = ?", (entry.number << SEQ_BITS | entry.head,)
    ).fetchone()
    if row is None:
        raise corrupt(session_id, entry.head, "is missing, and it was the last one")
    if row[0] is None:
        raise corrupt(session_id, entry.head, "has no digest")
    return Head(entry.head, row[0])


def session_rows(connection: sqlite3.Connection, cipher: Cipher | None) -> list[SessionRow]:
    """Return all sessions, newest first. Raises CorruptLog if a row is damaged."""
    rows = connection.execute(
        f"SELECT id, CAST(session_id AS BLOB), {integer_or_null('epoch')}, {integer_or_null('head')}, "
        f"{integer_or_null('created_ms')}, CAST(title AS BLOB) "
        "FROM sessions ORDER BY created_ms DESC, id DESC"
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


def delete_session(connection: sqlite3.Connection, entry: SessionEntry) -> None:
    """Delete a session's rows, and the large values that no other session has, inside a transaction."""
    first = entry.number << SEQ_BITS
    cuts = f"SELECT json_extract(cut.value, '$[1]') FROM events, json_each(events.cuts) AS cut {_WITH_CUTS}"
    own = connection.execute(f"{cuts} AND events.id BETWEEN ? AND ?", (first, first | SEQ_MAX)).fetchall()
    connection.execute("DELETE FROM events WHERE id BETWEEN ? AND ?", (first, first | SEQ_MAX))
    connection.execute("DELETE FROM sessions WHERE id = ?", (entry.number,))
    numbers = msgspec.json.encode(sorted({number for (number,) in own})).decode()
    connection.execute(
        f"DELETE FROM blobs WHERE id IN (SELECT value FROM json_each(?)) AND id NOT IN ({cuts})", (numbers,)
    )
