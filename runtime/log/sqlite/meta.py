"""Opening a log for writing, and the table `meta`: how a log was made, who owns it, and where its end is.

    digest      how digests are computed
    key_check   8 bytes by which a digest key is recognised, in hex; "" for a log without one
    encryption  how the log is encrypted, see `cipher`; "" for plain text
    owner       a random name that every opener writes: a former owner that reads another one has lost the log
    wal         "needed" in the file alone, "" in the file and its WAL together

While a log is open its newest events are in `<path>-wal` only. SQLite takes a database whose WAL is missing
for a complete one that ends earlier (https://sqlite.org/howtocorrupt.html, 1.4). So before any other write
to a new WAL, the owner commits wal = "needed", has that written back into the file and synced, and then
commits wal = "": the file alone says that events are missing, the file with its WAL that none are. An opener
that reads "needed" and finds no WAL beside the file, or an empty one, refuses.

Every checkpoint repeats these three steps (`write_back`). Closing writes all back, the "" too. A crash at any
point leaves a WAL that is not empty: "needed" gets into the file by way of a WAL only, and only closing
empties it. docs/log.md has the limits of this.
"""

import contextlib
import re
import sqlite3
import sys
from pathlib import Path
from typing import Final, Literal

from callboard.actors.protocol.errors import CorruptLog, StoreIncomplete, StoreLocked, StoreUnreadable
from callboard.runtime.log.cipher import Cipher, cipher_of, new_cipher
from callboard.runtime.log.hash_chain import DIGEST_KIND, HashChain
from callboard.runtime.log.sqlite.schema import check_schema, is_fresh, make_tables, set_page_format, upgrade
from callboard.runtime.log.sqlite.store_errors import error_code

Durability = Literal["full", "process"]

WAL_BYTES_MAX: Final = 16 * 2**20  # size to which the WAL is cut after a long transaction or reader
CACHE_KIB: Final = 1_000  # pages kept in memory, 2,000 by default: appends use few pages again
BUSY_TIMEOUT_MS: Final = 30_000  # how long to wait for a lock that a sqlite3 shell holds. DBOS waits as long.
CONTEST_TIMEOUT_MS: Final = 500  # for the end of a write when taking a log from a process that still runs
NEEDED: Final = "needed"
CHECKPOINT_PAGES: Final = 512  # pages in the WAL from which on it is written back: about 4 MiB

_KEY_CHECK: Final = re.compile("(?:[0-9a-f]{16})?")
_SET_WAL: Final = (
    "UPDATE meta SET value = ? WHERE key = 'wal' "
    "AND (SELECT value FROM meta WHERE key = 'owner') = ?"
)  # fmt: skip


def insert_meta(connection: sqlite3.Connection, hash_chain: HashChain, encryption_key: bytes | None) -> None:
    """Insert the rows of a new log."""
    rows = {
        "digest": DIGEST_KIND,
        "key_check": hash_chain.key_check,
        "encryption": "" if encryption_key is None else new_cipher(encryption_key).description,
        "owner": "",
        "wal": "",
    }
    connection.executemany("INSERT INTO meta VALUES (?, ?)", rows.items())


def meta_value(connection: sqlite3.Connection, key: str) -> str:
    """Return the value of a key. Raises CorruptLog if the row is missing or is not UTF-8."""
    row = connection.execute("SELECT CAST(value AS BLOB) FROM meta WHERE key = ?", (key,)).fetchone()
    try:
        # As bytes: sqlite3 raises an error without a result code for text that is not UTF-8.
        return str(row[0], "utf-8")
    except (TypeError, UnicodeDecodeError):
        raise _damaged(connection, key) from None


def _damaged(connection: sqlite3.Connection, key: str) -> CorruptLog:
    file = connection.execute("PRAGMA database_list").fetchone()[2]
    return CorruptLog(f"{file} is damaged: its table meta has no valid {key!r}; restore a copy of the file")


def check_key(connection: sqlite3.Connection, path: Path, hash_chain: HashChain) -> None:
    """Refuse a digest key that the log was not made with. Raises WrongKey, CorruptLog."""
    if meta_value(connection, "digest") != DIGEST_KIND:
        raise _damaged(connection, "digest")
    kept = meta_value(connection, "key_check")
    if not _KEY_CHECK.fullmatch(kept):
        raise _damaged(connection, "key_check")
    hash_chain.check_key(kept, str(path))


def find_cipher(connection: sqlite3.Connection, path: Path, key: bytes | None) -> Cipher | None:
    """Return the cipher of a log, None if it is not encrypted. Raises WrongKey, CorruptLog."""
    return cipher_of(meta_value(connection, "encryption"), key, str(path))


# --- owner and WAL ------------------------------------------------------------------


def write_owner(connection: sqlite3.Connection) -> str:
    """Write a new owner's name and "needed", inside a transaction. Return the name."""
    connection.execute("UPDATE meta SET value = lower(hex(randomblob(16))) WHERE key = 'owner'")
    connection.execute("UPDATE meta SET value = ? WHERE key = 'wal'", (NEEDED,))
    return meta_value(connection, "owner")


def finish_marking(connection: sqlite3.Connection, owner: str) -> None:
    """Write the WAL back with its "needed", then commit "", unless the log was lost meanwhile."""
    checkpoint(connection)
    connection.execute(_SET_WAL, ("", owner))


def clear_marker(connection: sqlite3.Connection, owner: str) -> None:
    """Take the third step, when leaving, if a failure has prevented it."""
    if _is_needed(connection):
        connection.execute(_SET_WAL, ("", owner))


def write_back(connection: sqlite3.Connection, owner: str) -> None:
    """Write the WAL back in all three steps, unless the log was lost."""
    if connection.execute(_SET_WAL, (NEEDED, owner)).rowcount:
        finish_marking(connection, owner)


def checkpoint(connection: sqlite3.Connection) -> bool:
    """Write back all pages that no reader needs. Return False if another process is at it."""
    (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return not busy


def check_complete(connection: sqlite3.Connection, path: Path, shown: Path | None = None) -> None:
    """Refuse a log without its WAL. shown: the path for the message. Raises StoreIncomplete."""
    wal = path.with_name(path.name + "-wal")
    # Asked again: its owner may have closed it in between.
    if not _is_needed(connection) or size_of(wal) or not _is_needed(connection):
        return
    shown = shown or path
    raise StoreIncomplete(
        f"{shown} was copied or moved without {shown.name}-wal, where its newest events are, or that file "
        f"was removed: put it beside the log again (`callboard export --format db` makes whole copies). "
        f"If it is lost, continue without those events by: "
        f"sqlite3 {shown} \"UPDATE meta SET value = '' WHERE key = 'wal'\""
    )


def size_of(path: Path) -> int:
    """Return the size of a file, 0 if it is missing."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _is_needed(connection: sqlite3.Connection) -> bool:
    value = meta_value(connection, "wal")
    if value not in ("", NEEDED):
        raise _damaged(connection, "wal")
    return value == NEEDED


# --- opening --------------------------------------------------------------------------


def prepare(
    connection: sqlite3.Connection,
    path: Path,
    durability: Durability,
    hash_chain: HashChain,
    *,
    is_contested: bool = False,  # another process holds the lock, and is to lose the log
    encryption_key: bytes | None = None,
) -> str:
    """Make the file a log that this connection owns; return the owner's name. Raises as `EventLog.open`."""
    is_new = _is_new(connection, path, hash_chain, encryption_key)
    _configure(connection, path, is_new=is_new)
    if is_contested:
        _check_pause(connection, path)
    try:
        connection.execute("BEGIN IMMEDIATE")
        # Asked again: another process may have made the log since, and then its key decides.
        if is_new and _is_new(connection, path, hash_chain, encryption_key):
            make_tables(connection)
            check_schema(connection, path)  # the first check of a process takes 0.7 ms: not in a session
            insert_meta(connection, hash_chain, encryption_key)
        upgrade(connection)
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
            f"{path}: its owner is in the middle of a write, so it cannot be taken over; "
            f"let that process continue, or end it: acknowledged events are kept"
        )
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")


def _settings() -> dict[str, object]:
    settings: dict[str, object] = {
        # Only checkpoints sync. `prepare` ends with FULL, if wanted, which syncs every commit.
        "synchronous": "NORMAL",
        "wal_autocheckpoint": 0,  # it would write the marker's "" back into the file: see `meta`
        "journal_size_limit": WAL_BYTES_MAX,
        "trusted_schema": "OFF",
        "cache_size": -CACHE_KIB,
    }
    # On macOS fsync alone does not reach the drive: https://bonsaidb.io/blog/acid-on-apple/
    if sys.platform == "darwin":
        settings |= {"fullfsync": 1, "checkpoint_fullfsync": 1}
    return settings
