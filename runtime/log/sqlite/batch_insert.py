"""A batch as one statement, a transaction of its own: rows, heads, and the conditions on them.

It is an INSERT into a view of this connection alone (`TEMP`: the file does not hold it). The view's trigger

  - refuses if another connection has changed the file since `data_version` was read, as its owner may be
    another process by now; if a session is not where its writer believes; and if a row needs a large value
    that is neither in the batch nor in the file;
  - moves the heads;
  - inserts the large values and the rows, in the form of `rows`.

A refused statement has changed nothing. The caller then writes the batch statement by statement, which names
the error.
"""

import sqlite3
from typing import Final

from callboard.runtime.log.sqlite.rows import Chunk, inserts_from

MOVE_HEADS: Final = (
    "UPDATE sessions SET head = json_extract(m.value, '$[3]') FROM json_each({}) AS m "
    "WHERE sessions.id = json_extract(m.value, '$[0]') AND epoch = json_extract(m.value, '$[1]') "
    "AND head = json_extract(m.value, '$[2]')"
)
"""Move the heads of sessions that are at their expected one: [[number, epoch, from, to], ...]."""

_VIEW: Final = """CREATE TEMP VIEW batch AS
SELECT NULL AS version, NULL AS moves, NULL AS rows, NULL AS bodies, NULL AS digests,
       NULL AS pieces, NULL AS data, NULL AS names"""
_TRIGGER: Final = """CREATE TEMP TRIGGER insert_batch INSTEAD OF INSERT ON batch BEGIN
SELECT RAISE(ABORT, 'changed') WHERE (SELECT data_version FROM pragma_data_version) IS NOT NEW.version;
{moved};
SELECT RAISE(ABORT, 'elsewhere') WHERE changes() IS NOT json_array_length(NEW.moves);
{pieces};
{rows};
END"""
# While the main thread computes without pause, every call into SQLite gives the interpreter lock away and
# waits for milliseconds to get it back. Five statements wait five times; this one waits once, and SQLite does
# all its work on another core, fsync included.
_INSERT: Final = (
    "INSERT INTO batch VALUES (:version, :moves, :rows, :bodies, :digests, :pieces, :data, :names)"
)


def make_batch_view(connection: sqlite3.Connection, kind: str) -> None:
    """Make the view and its trigger, once for a connection. kind: TEXT or BLOB, the type of bodies."""
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(_VIEW)
    pieces, rows = inserts_from("NEW.", kind)
    connection.execute(_TRIGGER.format(moved=MOVE_HEADS.format("NEW.moves"), pieces=pieces, rows=rows))


def insert_batch(connection: sqlite3.Connection, version: int, moves: str, chunk: Chunk) -> bool:
    """Append a chunk of rows. Return False if it was refused and nothing has changed."""
    try:
        connection.execute(_INSERT, {"version": version, "moves": moves, **chunk})
    except sqlite3.IntegrityError:
        return False
    return True
