"""The tables, their version, and what SQLite's errors become."""

import sqlite3
import sys
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import (
    StoreError,
    StoreFailed,
    StoreLocked,
    StoreReadOnly,
    StoreTooNew,
    StoreUnreadable,
)
from callboard.runtime.log.hash_chain import Chain
from callboard.runtime.log.sqlite import schema as sqlite_schema
from callboard.runtime.log.sqlite.schema import (
    APPLICATION_ID,
    FORMAT,
    _settings,
    error_code,
    is_fresh,
    pragma,
    prepare,
    store_error,
)
from callboard.runtime.log.sqlite.wal_marker import owner_of


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
    names = [name for name, _ in _settings()]
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


def test_an_old_sqlite_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 32, 9))
    with pytest.raises(StoreUnreadable, match=r"needs 3\.33"):
        is_fresh(connection, path)
    connection.close()


def contested(path: Path) -> str:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return prepare(connection, path, "process", Chain(), is_contested=True)
    finally:
        connection.close()


def test_a_log_is_not_taken_by_force_from_who_is_writing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_schema, "CONTEST_TIMEOUT_MS", 5)
    other = sqlite3.connect(path, isolation_level=None)
    name = prepare(other, path, "process", Chain())
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreLocked, match="in the middle of a write"):
        contested(path)
    other.execute("ROLLBACK")
    assert owner_of(other) == name
    assert contested(path) == owner_of(other) != name
    other.close()


def test_a_log_is_not_taken_by_force_from_who_is_writing_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    name = prepare(other, path, "process", Chain())
    monkeypatch.setattr(sqlite_schema, "checkpoint", lambda connection: False)
    with pytest.raises(StoreLocked, match="in the middle of a write"):
        contested(path)
    assert owner_of(other) == name
    other.close()


def test_another_error_while_taking_a_log_by_force_is_told_as_it_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(connection: sqlite3.Connection) -> bool:
        raise sqlite3.OperationalError("disk I/O error")

    prepare(other := sqlite3.connect(path, isolation_level=None), path, "process", Chain())
    monkeypatch.setattr(sqlite_schema, "checkpoint", fail)
    with pytest.raises(sqlite3.OperationalError, match="disk I/O"):
        contested(path)
    other.close()
