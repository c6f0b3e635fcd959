"""The tables, their version, and what SQLite's errors become."""

import sqlite3
import sys
from pathlib import Path

import pytest

from callboard.actors.errors import (
    StoreError,
    StoreFailed,
    StoreLocked,
    StoreReadOnly,
    StoreTooNew,
    StoreUnreadable,
)
from callboard.runtime.log.chain import Chain
from callboard.runtime.log.sqlite_schema import (
    APPLICATION_ID,
    FORMAT,
    _settings,
    error_code,
    is_fresh,
    pragma,
    prepare,
    store_error,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


def test_a_new_log_says_what_it_is(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    assert is_fresh(connection, path)
    prepare(connection, path, "full", Chain())
    assert not is_fresh(connection, path)
    assert pragma(connection, "application_id") == APPLICATION_ID
    assert pragma(connection, "user_version") == FORMAT
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    assert {name for name in names if not name.startswith("sqlite_")} == {
        "meta",
        "sessions",
        "events",
        "blobs",
        "log",
    }
    prepare(connection, path, "process", Chain())
    connection.close()


def test_a_later_format_and_a_foreign_database_are_refused(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    prepare(connection, path, "full", Chain())
    connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    with pytest.raises(StoreTooNew, match=f"format {FORMAT + 1}"):
        is_fresh(connection, path)
    connection.execute("PRAGMA application_id = 1")
    with pytest.raises(StoreUnreadable, match="not a callboard log"):
        is_fresh(connection, path)
    connection.close()


@pytest.mark.parametrize(("platform", "is_set"), [("darwin", True), ("linux", False)])
def test_macos_is_told_to_sync_the_drive(
    monkeypatch: pytest.MonkeyPatch, platform: str, is_set: bool
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    names = [name for name, _ in _settings("full")]
    assert ("fullfsync" in names and "checkpoint_fullfsync" in names) == is_set


def test_a_place_without_a_wal_is_refused(path: Path) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    with pytest.raises(StoreUnreadable, match="use a local one"):
        prepare(connection, path, "full", Chain())
    connection.close()


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (sqlite3.SQLITE_READONLY, StoreReadOnly, "SQLiteReader"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, StoreReadOnly, "SQLiteReader"),
        (sqlite3.SQLITE_NOTADB, StoreUnreadable, "not a callboard log"),
        (sqlite3.SQLITE_CORRUPT, StoreUnreadable, "damaged"),
        (sqlite3.SQLITE_CANTOPEN, StoreUnreadable, "may be read"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreLocked, "sqlite3 shell"),
        (sqlite3.SQLITE_LOCKED, StoreLocked, "sqlite3 shell"),
        (sqlite3.SQLITE_FULL, StoreFailed, "make room"),
        (sqlite3.SQLITE_IOERR_FSYNC, StoreFailed, "reopen"),
        (0, StoreFailed, "reopen"),
    ],
)
def test_every_error_says_what_to_do_next(code: int, kind: type[StoreError], said: str) -> None:
    error = sqlite3.OperationalError("what SQLite said")
    if code:
        error.sqlite_errorcode = code
        error.sqlite_errorname = "SQLITE_X"
    mapped = store_error(error, Path("log.db"), "append")
    assert type(mapped) is kind
    assert said in str(mapped)
    assert "log.db" in str(mapped)
    assert error_code(error) == code & 0xFF
