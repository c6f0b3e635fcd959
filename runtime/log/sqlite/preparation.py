"""Opening a log for writing: settings, a new log in an empty file, and the change of owners."""

import contextlib
import sqlite3
import sys
from pathlib import Path
from typing import Final, Literal

from callboard.actors.protocol.errors import CorruptLog, StoreLocked, StoreUnreadable
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.sqlite.meta import (
    check_complete,
    check_key,
    checkpoint,
    clear_marker,
    find_cipher,
    finish_marking,
    insert_meta,
    meta_value,
    write_owner,
)
from callboard.runtime.log.sqlite.schema import is_fresh, make_tables, set_page_format
from callboard.runtime.log.sqlite.store_errors import error_code

Durability = Literal["full", "process"]

WAL_BYTES_MAX: Final = 16 * 2**20  # size to which the WAL is cut after a long transaction or reader
BUSY_TIMEOUT_MS: Final = 30_000  # how long to wait for a lock that a sqlite3 shell holds. DBOS waits as long.
CONTEST_TIMEOUT_MS: Final = 500  # for the end of a write when taking a log from a process that still runs


def prepare(
    connection: sqlite3.Connection,
    path: Path,
    durability: Durability,
    hash_chain: HashChain,
    *,
    is_contested: bool = False,
    encryption_key: bytes | None = None,
) -> str:
    """Make the file a log that this connection owns; return the owner's name. Raises as `EventLog.open`.

    is_contested: another process holds the lock, and is to lose the log.
    """
    is_new = _is_new(connection, path, hash_chain, encryption_key)
    _configure(connection, path, is_new=is_new)
    if is_contested:
        _check_pause(connection, path)
    try:
        connection.execute("BEGIN IMMEDIATE")
        # Asked again: another process may have made the log since, and then its key decides.
        if is_new and _is_new(connection, path, hash_chain, encryption_key):
            make_tables(connection)
            insert_meta(connection, hash_chain, encryption_key)
        owner = write_owner(connection)  # a read-only file, which opens without complaint, complains here
        connection.execute("COMMIT")
        finish_marking(connection, owner)
    except BaseException:
        with contextlib.suppress(sqlite3.Error, CorruptLog):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            # Closing the connection would write it back as "needed".
            clear_marker(connection, meta_value(connection, "owner"))
        raise
    if durability == "full":  # only now: until here writing back has synced all that matters
        connection.execute("PRAGMA synchronous = FULL")
    return owner


def _is_new(
    connection: sqlite3.Connection, path: Path, hash_chain: HashChain, encryption_key: bytes | None
) -> bool:
    """Return whether the file is empty; refuse a log that this owner cannot continue. Changes nothing."""
    if is_fresh(connection, path):
        return True
    check_key(connection, path, hash_chain)
    find_cipher(connection, path, encryption_key)
    check_complete(connection, path)
    return False


def _configure(connection: sqlite3.Connection, path: Path, *, is_new: bool) -> None:
    """Apply the settings of an owner's connection. Raises StoreUnreadable if the file system has no WAL."""
    if is_new:
        set_page_format(connection)
    if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
        raise StoreUnreadable(f"{path}: SQLite keeps no WAL on this file system; use a local one")
    for name, value in _settings().items():
        connection.execute(f"PRAGMA {name} = {value}")


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
            f"let that process go on, or end it: acknowledged events stay"
        )
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")


def _settings() -> dict[str, object]:
    settings: dict[str, object] = {
        # Only checkpoints sync. `prepare` ends with FULL, if wanted, which syncs every commit.
        "synchronous": "NORMAL",
        "wal_autocheckpoint": 0,  # it would write the marker's "" back into the file: see `meta`
        "journal_size_limit": WAL_BYTES_MAX,
        "trusted_schema": "OFF",
    }
    # On macOS fsync alone does not reach the drive: https://bonsaidb.io/blog/acid-on-apple/
    if sys.platform == "darwin":
        settings |= {"fullfsync": 1, "checkpoint_fullfsync": 1}
    return settings
