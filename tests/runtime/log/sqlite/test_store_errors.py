"""SQLite's errors as errors of callboard."""

import sqlite3
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import (
    StoreError,
    StoreFailed,
    StoreLocked,
    StoreReadOnly,
    StoreUnreadable,
)
from callboard.runtime.log.sqlite.store_errors import error_code, store_error


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (sqlite3.SQLITE_READONLY, StoreReadOnly, "open_reader"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, StoreReadOnly, "open_reader"),
        (sqlite3.SQLITE_NOTADB, StoreUnreadable, "not a callboard log"),
        (sqlite3.SQLITE_CORRUPT, StoreUnreadable, "damaged"),
        (sqlite3.SQLITE_CANTOPEN, StoreUnreadable, "may read"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreLocked, "sqlite3 shell"),
        (sqlite3.SQLITE_LOCKED, StoreLocked, "sqlite3 shell"),
        (sqlite3.SQLITE_FULL, StoreFailed, "make room"),
        (sqlite3.SQLITE_IOERR_FSYNC, StoreFailed, "reopen"),
        (0, StoreFailed, "reopen"),
    ],
)
def test_every_error_names_the_next_step(code: int, kind: type[StoreError], said: str) -> None:
    error = sqlite3.OperationalError("what SQLite said")
    if code:
        error.sqlite_errorcode = code
        error.sqlite_errorname = "SQLITE_X"
    mapped = store_error(error, Path("log.db"), "append")
    assert type(mapped) is kind
    assert said in str(mapped)
    assert "log.db" in str(mapped)
    assert ("(SQLITE_X); " if code else "(OperationalError); ") in str(mapped)
    assert error_code(error) == code & 0xFF


def test_a_message_that_sqlite3_cannot_decode_is_damage() -> None:
    error = UnicodeDecodeError("utf-8", b"malformed database schema (\xff)", 27, 28, "invalid start byte")
    mapped = store_error(error, Path("log.db"), "opening")
    assert type(mapped) is StoreUnreadable
    assert "opening failed on a name that is not UTF-8" in str(mapped)
