"""The table `meta`: how a log was made, who owns it, and whether the file is complete without its WAL.

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

import re
import sqlite3
from pathlib import Path
from typing import Final

from callboard.actors.protocol.errors import CorruptLog, StoreIncomplete
from callboard.runtime.log.cipher import Cipher, cipher_of, new_cipher
from callboard.runtime.log.hash_chain import HashChain

NEEDED: Final = "needed"
CHECKPOINT_PAGES: Final = 512  # pages in the WAL from which on it is written back: about 4 MiB

_DIGEST: Final = "blake2b-32 callboard/1"
_KEY_CHECK: Final = re.compile("(?:[0-9a-f]{16})?")
_SET_WAL: Final = (
    "UPDATE meta SET value = ? WHERE key = 'wal' "
    "AND (SELECT value FROM meta WHERE key = 'owner') = ?"
)  # fmt: skip


def insert_meta(connection: sqlite3.Connection, hash_chain: HashChain, encryption_key: bytes | None) -> None:
    """Insert the rows of a new log."""
    rows = {
        "digest": _DIGEST,
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
    if meta_value(connection, "digest") != _DIGEST:
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
    if not _is_needed(connection) or _size(wal) or not _is_needed(connection):
        return
    shown = shown or path
    raise StoreIncomplete(
        f"{shown} was copied or moved without {shown.name}-wal, where its newest events are, or that file "
        f"was removed: put it beside the log again (`callboard export --format db` makes whole copies). "
        f"If it is lost, continue without those events by: "
        f"sqlite3 {shown} \"UPDATE meta SET value = '' WHERE key = 'wal'\""
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _is_needed(connection: sqlite3.Connection) -> bool:
    value = meta_value(connection, "wal")
    if value not in ("", NEEDED):
        raise _damaged(connection, "wal")
    return value == NEEDED
