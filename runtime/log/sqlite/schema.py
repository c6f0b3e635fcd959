"""The tables of a log in SQLite, its format version, and what SQLite's errors mean to a user.

    meta      key, value: how the log was made, who owns it, and whether the file is all there is
    sessions  one row per session; `id` is its number inside this file
    events    id = session number * 2^32 + seq, so that a session's events lie together, in order, and no
              second index is needed; body is JSON text, cuts is NULL or [[offset, blob id], ...]
    blobs     large values that were cut out of bodies, once each, under the digest of their bytes
    log       a view with ids, times and kinds spelled out, for the sqlite3 shell and Datasette

A page has 8 KiB: with 4 KiB pages, 15 rows of 255 bytes leave 6 % of every page unused. Measured for turns
of six events with 180-byte bodies: 1.57 KiB a turn in a session of 800, 1.66 KiB if a hundred sessions are
written in turns (inserting in the middle splits pages; an index over session and seq costs 1.69 either way).
"""

import contextlib
import sqlite3
import sys
from pathlib import Path
from typing import Final, Literal

from callboard.actors.protocol.errors import (
    StoreError,
    StoreFailed,
    StoreLocked,
    StoreReadOnly,
    StoreTooNew,
    StoreUnreadable,
)
from callboard.runtime.log.cipher import Cipher, cipher_of, new_cipher
from callboard.runtime.log.hash_chain import Chain
from callboard.runtime.log.sqlite.wal_marker import (
    carry_over,
    check_whole,
    checkpoint,
    own,
    owner_of,
    say_whole,
)

Durability = Literal["full", "process"]

APPLICATION_ID: Final = 0x63627264
""""cbrd", in the header of the file: `file` and every SQLite tool can tell that it is ours."""

FORMAT: Final = 1
"""The version of the tables and of what they mean, kept as `user_version`."""

SQLITE_MIN: Final = (3, 33, 0)
"""UPDATE ... FROM."""

PAGE_BYTES: Final = 8_192
WAL_BYTES_MAX: Final = 16 * 1024 * 1024
"""What the file of the WAL is cut to when a long transaction, or a long reader, has made it longer."""

BUSY_TIMEOUT_MS: Final = 30_000
"""How long to wait for a lock that a person's sqlite3 shell holds. DBOS waits as long."""

CONTEST_TIMEOUT_MS: Final = 500
"""How long to wait for the end of a write when taking a log from a process that still runs."""

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
           e.sender, e.recipient, e.cause,
           CASE typeof(e.body) WHEN 'text' THEN json_extract(e.body, '$.type') END AS kind, e.body, e.cuts
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


def prepare(
    connection: sqlite3.Connection,
    path: Path,
    durability: Durability,
    chain: Chain,
    *,
    is_contested: bool = False,
    encryption_key: bytes | None = None,
) -> str:
    """Make sure that the file is a log that we can write, and become its owner; the owner's name.

    is_contested: another process holds the lock, and is to lose the log. Raises the errors of
    `EventLog.open`.
    """
    fresh = is_fresh(connection, path)  # asked before anything is changed: it may be another program's
    if not fresh:
        check_key(connection, path, chain)
        find_cipher(connection, path, encryption_key)
        check_whole(connection, path)
    _configure(connection, path, is_fresh=fresh)
    if is_contested:
        _check_pause(connection, path)
    try:
        connection.execute("BEGIN IMMEDIATE")
        if fresh:
            _make(connection, chain, new_cipher(encryption_key) if encryption_key is not None else None)
        owner = own(connection)  # a read-only file, which opens without complaint, complains here
        connection.execute("COMMIT")
        carry_over(connection, owner)
    except sqlite3.Error:
        with contextlib.suppress(sqlite3.Error):
            _leave_whole(connection)
        raise
    if durability == "full":  # only now: until here writing back has synced all that matters
        connection.execute("PRAGMA synchronous = FULL")
    return owner


def _configure(connection: sqlite3.Connection, path: Path, *, is_fresh: bool) -> None:
    """The settings of an owner's connection. Raises StoreUnreadable where there can be no WAL."""
    if is_fresh:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StoreUnreadable(f"{path}: SQLite keeps no WAL on this file system; use a local one")
    for name, value in _settings():
        connection.execute(f"PRAGMA {name} = {value}")


def _leave_whole(connection: sqlite3.Connection) -> None:
    """Closing will write back what was committed: let it not write "needed" back alone."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")
    say_whole(connection, owner_of(connection))


def _check_pause(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse to take a log from a process that was stopped in the middle of writing. Raises StoreLocked."""
    connection.execute(f"PRAGMA busy_timeout = {CONTEST_TIMEOUT_MS}")
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("COMMIT")
        is_paused = checkpoint(connection)
    except sqlite3.OperationalError as error:
        if error_code(error) != sqlite3.SQLITE_BUSY:
            raise
        is_paused = False
    if not is_paused:
        raise StoreLocked(
            f"{path}: its owner holds it in the middle of a write, so it cannot be taken over; "
            f"let that process go on, or end it: what it was told is stored stays"
        )
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")


def _settings() -> list[tuple[str, object]]:
    """With NORMAL only checkpoints sync; `prepare` ends with FULL, if wanted, which syncs every commit."""
    settings: list[tuple[str, object]] = [
        ("synchronous", "NORMAL"),
        ("wal_autocheckpoint", 0),  # see sqlite_mark
        ("journal_size_limit", WAL_BYTES_MAX),
        ("trusted_schema", "OFF"),
    ]
    # On macOS fsync alone does not reach the drive: https://bonsaidb.io/blog/acid-on-apple/
    if sys.platform == "darwin":
        settings += [("fullfsync", 1), ("checkpoint_fullfsync", 1)]
    return settings


def _make(connection: sqlite3.Connection, chain: Chain, cipher: Cipher | None) -> None:
    """Make a log with nothing in it, inside a transaction: all or none."""
    make_tables(connection)
    connection.executemany(
        "INSERT INTO meta VALUES (?, ?)",
        [
            ("digest", "blake2b-32 callboard/1"),
            ("key_check", chain.key_check),
            ("encryption", cipher.description if cipher else ""),
            ("owner", ""),
            ("wal", ""),
        ],
    )


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables, empty, and say in the file's header what it is."""
    for statement in _TABLES:
        connection.execute(statement)
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


def find_cipher(connection: sqlite3.Connection, path: Path, key: bytes | None) -> Cipher | None:
    """The cipher of a log, None if it is not encrypted. Raises WrongKey."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'encryption'").fetchone()
    return cipher_of(row[0] if row else "", key, str(path))


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
