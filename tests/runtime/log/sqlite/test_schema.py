"""The tables, and the version of their format."""

import sqlite3
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import StoreTooNew, StoreUnreadable
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.sqlite.meta import prepare
from callboard.runtime.log.sqlite.schema import APPLICATION_ID, FORMAT, is_fresh, pragma


def test_a_new_log_is_marked_as_one(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    assert is_fresh(connection, path)
    prepare(connection, path, "full", HashChain())
    assert not is_fresh(connection, path)
    assert pragma(connection, "application_id") == APPLICATION_ID
    assert pragma(connection, "user_version") == FORMAT
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    assert {name for name in names if not name.startswith("sqlite_")} == {
        "meta",
        "sessions",
        "events",
        "sessions_by_age",
        "sessions_by_parent",
        "blobs",
        "uses",
        "tags",
        "log",
    }
    prepare(connection, path, "process", HashChain())
    connection.close()


def test_a_later_format_and_a_foreign_database_are_refused(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    prepare(connection, path, "full", HashChain())
    connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    with pytest.raises(StoreTooNew, match=f"format {FORMAT + 1}"):
        is_fresh(connection, path)
    connection.execute("PRAGMA application_id = 1")
    with pytest.raises(StoreUnreadable, match="not a callboard log"):
        is_fresh(connection, path)
    connection.close()


def test_an_old_sqlite_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 32, 9))
    with pytest.raises(StoreUnreadable, match=r"needs 3\.33"):
        is_fresh(connection, path)
    connection.close()
