"""A whole batch as one statement, a transaction of its own: rows, heads, and what must hold for them.

While the main thread computes without pause, every call into SQLite gives the interpreter lock away and
waits for milliseconds to get it back. A transaction of five statements waits five times; here SQLite does
all of it in one go, on another core, fsync included, and the lock is asked for once.

It is an INSERT into a view of this connection alone (`TEMP`: nothing of it is in the file), whose trigger

  - refuses if any other connection has changed the file since `data_version` was asked (its owner may be
    another process by now), unless every session is where its writer believes, and if a row needs a large
    value that is neither sent along nor in the file;
  - moves the heads;
  - inserts the large values and the rows, which come as `sqlite_rows` has them.

What it refuses has changed nothing, and is tried again by whoever asked, statement by statement: that way
says what was wrong.
"""

import sqlite3
from typing import Final

from callboard.runtime.log.sqlite.rows import Chunk, inserts_from

MOVED: Final = (
    "UPDATE sessions SET head = json_extract(m.value, '$[3]') FROM json_each({}) AS m "
    "WHERE sessions.id = json_extract(m.value, '$[0]') AND epoch = json_extract(m.value, '$[1]') "
    "AND head = json_extract(m.value, '$[2]')"
)
"""Heads moved on, of sessions that are where they are thought to be: [[number, epoch, from, to], ...]."""

_VIEW: Final = """CREATE TEMP VIEW door AS
SELECT NULL AS version, NULL AS moves, NULL AS rows, NULL AS bodies, NULL AS digests,
       NULL AS pieces, NULL AS data, NULL AS names"""
_TRIGGER: Final = """CREATE TEMP TRIGGER through_door INSTEAD OF INSERT ON door BEGIN
SELECT RAISE(ABORT, 'changed') WHERE (SELECT data_version FROM pragma_data_version) IS NOT NEW.version;
{moved};
SELECT RAISE(ABORT, 'elsewhere') WHERE changes() IS NOT json_array_length(NEW.moves);
{pieces};
{rows};
END"""
_THROUGH: Final = (
    "INSERT INTO door VALUES (:version, :moves, :rows, :bodies, :digests, :pieces, :data, :names)"
)


def make_door(connection: sqlite3.Connection, kind: str) -> None:
    """Make the view and its trigger, once for a connection. kind: TEXT or BLOB, how bodies are stored."""
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(_VIEW)
    pieces, rows = inserts_from("NEW.", kind)
    connection.execute(_TRIGGER.format(moved=MOVED.format("NEW.moves"), pieces=pieces, rows=rows))


def through_door(connection: sqlite3.Connection, version: int, moves: str, chunk: Chunk) -> bool:
    """Append a chunk of rows; False if it was refused, and then nothing has changed."""
    try:
        connection.execute(_THROUGH, {"version": version, "moves": moves, **chunk})
    except sqlite3.IntegrityError:
        return False
    return True
