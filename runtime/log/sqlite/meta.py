"""The table `meta`: how a log was made, who owns it, and whether the file is complete.

digest      how digests are computed
key_check   8 bytes by which a digest key is recognised, in hex; "" for a log without one
encryption  how the log is encrypted, see `cipher`; "" for plain text
owner, wal  see `wal_marker`
"""

import re
import sqlite3
from pathlib import Path
from typing import Final

from callboard.actors.protocol.errors import CorruptLog
from callboard.runtime.log.cipher import Cipher, cipher_of
from callboard.runtime.log.hash_chain import HashChain

_DIGEST: Final = "blake2b-32 callboard/1"
_KEY_CHECK: Final = re.compile("(?:[0-9a-f]{16})?")


def insert_meta(connection: sqlite3.Connection, hash_chain: HashChain, cipher: Cipher | None) -> None:
    """Insert the rows of a new log."""
    rows = [
        ("digest", _DIGEST),
        ("key_check", hash_chain.key_check),
        ("encryption", cipher.description if cipher else ""),
        ("owner", ""),
        ("wal", ""),
    ]
    connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)


def meta_value(connection: sqlite3.Connection, key: str) -> str:
    """Return the value of a key. Raises CorruptLog if the row is missing or is not UTF-8."""
    row = connection.execute("SELECT CAST(value AS BLOB) FROM meta WHERE key = ?", (key,)).fetchone()
    try:
        # As bytes: sqlite3 raises an error without a result code for text that is not UTF-8.
        return str(row[0], "utf-8")
    except (TypeError, UnicodeDecodeError):
        raise damaged_meta(connection, key) from None


def damaged_meta(connection: sqlite3.Connection, key: str) -> CorruptLog:
    """Return the error for a key whose row is missing or holds no value that callboard writes."""
    file = connection.execute("PRAGMA database_list").fetchone()[2]
    return CorruptLog(f"{file} is damaged: its table meta has no valid {key!r}; restore a copy of the file")


def check_key(connection: sqlite3.Connection, path: Path, hash_chain: HashChain) -> None:
    """Refuse a digest key that the log was not made with. Raises WrongKey, CorruptLog."""
    if meta_value(connection, "digest") != _DIGEST:
        raise damaged_meta(connection, "digest")
    kept = meta_value(connection, "key_check")
    if not _KEY_CHECK.fullmatch(kept):
        raise damaged_meta(connection, "key_check")
    hash_chain.check_key(kept, str(path))


def find_cipher(connection: sqlite3.Connection, path: Path, key: bytes | None) -> Cipher | None:
    """Return the cipher of a log, None if it is not encrypted. Raises WrongKey, CorruptLog."""
    return cipher_of(meta_value(connection, "encryption"), key, str(path))
