"""The tables of a log in SQLite, its format version, and what SQLite's errors mean to a user.

    meta      key, value: how the log was made
    sessions  one row per session; `id` is its number inside this file
    events    id = session number * 2^32 + seq, so that a session's events lie together, in order, and no
              second index is needed; body is JSON text, cuts is NULL or [[offset, blob id], ...]
    blobs     large values that were cut out of bodies, once each, under the digest of their bytes
    log       a view with ids, times and kinds spelled out, for the sqlite3 shell and Datasette

A page has 8 KiB: with 4 KiB pages, 15 rows of 255 bytes leave 6 % of every page unused. Measured for turns
of six events with 180-byte bodies: 1.57 KiB a turn in a session of 800, 1.66 KiB if a hundred sessions are
written in turns (inserting in the middle splits pages; an index over session and seq costs 1.69 either way).
"""

import sqlite3
import sys
from pathlib import Path
from typing import Final, Literal

from callboard.actors.errors import (
    StoreError,
    StoreFailed,
    StoreLocked,
    StoreReadOnly,
    StoreTooNew,
    StoreUnreadable,
)
from callboard.runtime.log.chain import Chain

Durability = Literal["full", "process"]

APPLICATION_ID: Final = 0x63627264
""""cbrd", in the header of the file: `file` and every SQLite tool can tell that it is ours."""

FORMAT: Final = 1
"""The version of the tables and of what they mean, kept as `user_version`."""

SQLITE_MIN: Final = (3, 33, 0)
"""UPDATE ... FROM."""

PAGE_BYTES: Final = 8_192
CHECKPOINT_PAGES: Final = 512
"""The WAL is written back whenever it has passed 4 MiB, by the commit that passes it."""

SEQ_BITS: Final = 32
SEQ_MAX: Final = (1 << SEQ_BITS) - 1

_TABLES: Final = (
    """CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE sessions(
    id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    epoch INTEGER NOT NULL,
    head INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    title TEXT NOT NULL,
    origin BLOB NOT NULL)""",
    """CREATE TABLE events(
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    sender TEXT NOT NULL,
    recipient TEXT NOT NULL,
    cause INTEGER NOT NULL,
    body TEXT NOT NULL,
    cuts TEXT,
    digest BLOB NOT NULL)""",
    """CREATE TABLE blobs(id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, data TEXT NOT NULL)""",
    """CREATE VIEW log AS
    SELECT s.session_id AS session, e.id & 0xffffffff AS seq,
           strftime('%Y-%m-%dT%H:%M:%fZ', e.at / 1000.0, 'unixepoch') AS time,
           e.sender, e.recipient, e.cause, json_extract(e.body, '$.type') AS kind, e.body, e.cuts
    FROM sessions AS s JOIN events AS e ON e.id BETWEEN s.id << 32 AND (s.id << 32) | 0xffffffff""",
)


def is_fresh(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether there is nothing in the file yet.

    Raises StoreUnreadable for somebody else's database, StoreTooNew for a later format.
    """
    if sqlite3.sqlite_version_info < SQLITE_MIN:
        raise StoreUnreadable(f"SQLite {sqlite3.sqlite_version} is too old: callboard needs 3.33 or later")
    application = pragma(connection, "application_id")
    if application != APPLICATION_ID:
        if application == 0 and not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return True
        raise StoreUnreadable(f"{path} is a database, but not a callboard log; choose another file name")
    version = pragma(connection, "user_version")
    if version > FORMAT:
        raise StoreTooNew(
            f"{path} has format {version}, and this callboard reads up to {FORMAT}; "
            f"use the newer callboard that wrote it"
        )
    return False


def prepare(connection: sqlite3.Connection, path: Path, durability: Durability, chain: Chain) -> None:
    """Make sure that the file is a log that we can write. Raises the errors of `EventLog.open`."""
    fresh = is_fresh(connection, path)  # asked before anything is changed: it may be another program's
    if fresh:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StoreUnreadable(f"{path}: SQLite keeps no WAL on this file system; use a local one")
    for name, value in _settings(durability):
        connection.execute(f"PRAGMA {name} = {value}")
    connection.execute("BEGIN IMMEDIATE")
    if fresh:
        _make(connection, chain)
        connection.execute("COMMIT")
    else:  # a read-only file opens and begins without complaint: let it complain now, not at the first append
        connection.execute("UPDATE meta SET value = value")
        connection.execute("ROLLBACK")
    check_key(connection, path, chain)


def _settings(durability: Durability) -> list[tuple[str, object]]:
    """FULL syncs the WAL at every commit; NORMAL survives the end of the process, not that of the machine."""
    settings: list[tuple[str, object]] = [
        ("synchronous", "FULL" if durability == "full" else "NORMAL"),
        ("wal_autocheckpoint", CHECKPOINT_PAGES),
        ("journal_size_limit", 4 * CHECKPOINT_PAGES * PAGE_BYTES),
        ("trusted_schema", "OFF"),
    ]
    # On macOS fsync alone does not reach the drive: https://bonsaidb.io/blog/acid-on-apple/
    if sys.platform == "darwin":
        settings += [("fullfsync", 1), ("checkpoint_fullfsync", 1)]
    return settings


def _make(connection: sqlite3.Connection, chain: Chain) -> None:
    """Make the tables, inside a transaction: all or none."""
    for statement in _TABLES:
        connection.execute(statement)
    connection.executemany(
        "INSERT INTO meta VALUES (?, ?)",
        [("digest", "blake2b-32 callboard/1"), ("key_check", chain.key_check)],
    )
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """The value of a pragma that is a number."""
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def check_key(connection: sqlite3.Connection, path: Path, chain: Chain) -> None:
    """Refuse another digest key than the log was made with. Raises MisuseError."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'key_check'").fetchone()
    chain.check_key(row[0] if row else "", str(path))


def store_error(error: sqlite3.Error, path: Path, doing: str) -> StoreError:
    """What an error of SQLite's means, as one of ours, with what to do next."""
    code = error_code(error)
    name = getattr(error, "sqlite_errorname", "") or type(error).__name__
    said = f"{path}: {doing} failed: {error} ({name})"
    if code == sqlite3.SQLITE_READONLY:
        return StoreReadOnly(f"{path} cannot be written; mend its permissions, or read it with SQLiteReader")
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return StoreUnreadable(f"{said}; it is not a callboard log, or it was damaged: take a backup")
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreUnreadable(f"{said}; look whether the file and its folder may be read by this user")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreLocked(f"{said}; another program, such as an open sqlite3 shell, holds the file")
    if code == sqlite3.SQLITE_FULL:
        return StoreFailed(f"{said}; nothing of this batch was stored: make room, then resume the sessions")
    return StoreFailed(f"{said}; what was acknowledged before is stored: reopen the log, then resume")


def error_code(error: sqlite3.Error) -> int:
    """SQLite's primary result code; 0 where Python itself raised."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
