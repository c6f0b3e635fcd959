"""The removal of sessions in small steps, so that commits of other sessions go in between.

`take_out` takes a session's row away and notes its number in the table `meta`, as `removal NUMBER`, with the
seq of the next event to remove. From then on no query finds the session. The row of a session with forks
stays, hidden: the events that they share stay under its id, and go with the last of them.
`remove_some` removes its next events, and the large values that no other session has (table `uses`), and
notes how far it came in the same transaction. So a crash in between leaves a note for the next owner.

A number with such a note is given to no new session.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from callboard.runtime.log.session_rows import HIDDEN
from callboard.runtime.log.sqlite.schema import PAGE_BYTES, SEQ_BITS, SEQ_MAX, places_of
from callboard.runtime.log.sqlite.tables import SessionEntry, Tables

# A step of 500 events of 200 bytes writes 20 pages, zeroed: 2 ms with the sync of the WAL (NVMe, 2 cores).
EVENTS_MAX: Final = 500
BYTES_MAX: Final = 512 * 1_024  # of bodies and large values, beyond which a step takes no further event

# Not a table of its own, which would take a page of every file and is mostly empty. Ten digits: the order of
# the keys is then that of the numbers, and the first and last note are found at once.
_NOTE: Final = "printf('removal %010d', ?)"
_NOTED: Final = (
    "SELECT CAST(substr(key, 9) AS INTEGER), CAST(value AS INTEGER) FROM meta "
    "WHERE key GLOB 'removal [0-9]*' ORDER BY key"
)
# A hidden session may lose more of its events before the removal of the others has ended.
_EARLIER: Final = (
    "ON CONFLICT(key) DO UPDATE SET value = min(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))"
)
_HIDE: Final = (
    f"UPDATE sessions SET status = '{HIDDEN}', title = '', kind = '', failures = 0, host = '', "
    "details = NULL, head = ? WHERE id = ?"
)
_KEPT: Final = (
    "SELECT DISTINCT json_extract(cut.value, '$[1]') FROM events AS e, json_each(e.cuts) AS cut "
    "WHERE e.id BETWEEN ? AND ? AND e.cuts IS NOT NULL AND json_valid(e.cuts)"
)
_NEXT: Final = f"{_NOTED} LIMIT 1"
_LAST: Final = f"{_NOTED} DESC LIMIT 1"
_ROWS: Final = (
    "SELECT id, length(CAST(body AS BLOB)), CAST(cuts AS BLOB) FROM events WHERE id BETWEEN ? AND ? "
    "ORDER BY id LIMIT ?"
)
_LISTED: Final = "IN (SELECT value FROM json_each(?))"
_SIZES: Final = f"SELECT sum(length(CAST(data AS BLOB))) FROM blobs WHERE id {_LISTED}"

_Row: TypeAlias = tuple[int, int | None, bytes | None]
_encode = msgspec.json.Encoder().encode


class Step(NamedTuple):
    """A step of a removal. pages: about as many were written. is_last: True if no session is left.

    blobs: the number of large values that its events had.
    """

    pages: int
    is_last: bool
    blobs: int = 0


def take_out(connection: sqlite3.Connection, tables: Tables, entry: SessionEntry) -> int:
    """Take a session out, as far as no fork shares its events, in a transaction. Return their number.

    A hidden session whose forks have gone with it goes, too.
    """
    last = max(tables.forks(entry.session_id).values(), default=0)
    for tag in tables.details_of(entry).tags:
        own = (tables.stored_tag(tag), entry.number)
        connection.execute("DELETE FROM tags WHERE (tag, session) = (?, ?)", own)
    if last:
        connection.execute(_HIDE, (last, entry.number))
    else:
        connection.execute("DELETE FROM sessions WHERE id = ?", (entry.number,))
    if last < entry.head:
        noted = (entry.number, last + 1)
        connection.execute(f"INSERT INTO meta VALUES ({_NOTE}, ?) {_EARLIER}", noted)
    count = entry.head - max(last, entry.base)
    if last or not entry.parent:
        return count
    parent = tables.entry(entry.parent, hidden=True)
    return count + (take_out(connection, tables, parent) if parent.is_hidden else 0)


def last_removed(connection: sqlite3.Connection) -> int:
    """Return the highest number of a deleted session whose events are left; 0 without one."""
    last = connection.execute(_LAST).fetchone()
    return 0 if last is None else int(last[0])


def is_pending(connection: sqlite3.Connection) -> bool:
    """Return whether events of deleted sessions are left."""
    return connection.execute(_NEXT).fetchone() is not None


def remove_some(connection: sqlite3.Connection) -> Step:
    """Remove the next events of a deleted session, in a transaction. Those before them are shared."""
    left = connection.execute(_NEXT).fetchone()
    if left is None:
        return Step(0, True)
    number, start = left
    base = number << SEQ_BITS
    rows = connection.execute(_ROWS, (base | start, base | SEQ_MAX, EVENTS_MAX)).fetchall()
    last, size, blobs = _chosen(connection, number, rows)
    if last:
        shared = connection.execute(_KEPT, (base, (base | start) - 1)).fetchall()
        kept = {blob for (blob,) in shared}
        connection.execute("DELETE FROM events WHERE id BETWEEN ? AND ?", (base | start, last))
        _remove_blobs(connection, number, [blob for blob in blobs if blob not in kept])
    if not last or (last == rows[-1][0] and len(rows) < EVENTS_MAX):
        connection.execute(f"DELETE FROM meta WHERE key = {_NOTE}", (number,))
    else:
        noted = (str(last - base + 1), number)
        connection.execute(f"UPDATE meta SET value = ? WHERE key = {_NOTE}", noted)
    return Step(2 + len(blobs) + size // PAGE_BYTES, not is_pending(connection), len(blobs))


def _chosen(connection: sqlite3.Connection, session: int, rows: Sequence[_Row]) -> tuple[int, int, list[int]]:
    """Return the last row of a step (0 for none), its size in bytes, and the numbers of its large values."""
    last, size = 0, 0
    blobs: dict[int, None] = {}
    for row_id, body, cuts in rows:
        named = () if cuts is None else _numbers(connection, session, cuts)
        last, new = row_id, [number for number in named if number not in blobs]
        blobs.update(dict.fromkeys(new))
        size += (body or 0) + (_size(connection, new) if new else 0)
        if size > BYTES_MAX:
            break
    return last, size, list(blobs)


def _numbers(connection: sqlite3.Connection, session: int, cuts: bytes) -> list[int]:
    """Return the numbers of an event's large values; those of the whole session if they are damaged."""
    try:
        return [number for _, number in places_of(cuts)]
    except (msgspec.DecodeError, UnicodeDecodeError):
        query = "SELECT blob FROM uses WHERE session = ?"
        return [number for (number,) in connection.execute(query, (session,))]


def _size(connection: sqlite3.Connection, numbers: list[int]) -> int:
    return connection.execute(_SIZES, (_encode(numbers).decode(),)).fetchone()[0] or 0


def _remove_blobs(connection: sqlite3.Connection, session: int, numbers: list[int]) -> None:
    """Remove the large values that this session had, and no other one has."""
    listed = _encode(numbers).decode()
    connection.execute(f"DELETE FROM uses WHERE session = ? AND blob {_LISTED}", (session, listed))
    unused = "NOT EXISTS (SELECT 1 FROM uses WHERE uses.blob = blobs.id)"
    connection.execute(f"DELETE FROM blobs WHERE id {_LISTED} AND {unused}", (listed,))
