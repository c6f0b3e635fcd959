"""Opening a log for writing: settings, a new log, and the change of owners."""

import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.protocol.errors import StoreLocked, StoreUnreadable
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.sqlite import meta
from callboard.runtime.log.sqlite.meta import _settings, meta_value, prepare
from callboard.runtime.log.sqlite.schema import pragma


@pytest.mark.parametrize(("platform", "is_set"), [("darwin", True), ("linux", False)])
def test_macos_is_told_to_sync_the_drive(
    monkeypatch: pytest.MonkeyPatch, platform: str, is_set: bool
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert ({"fullfsync", "checkpoint_fullfsync"} <= _settings().keys()) == is_set


def test_a_place_without_a_wal_is_refused(path: Path) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    with pytest.raises(StoreUnreadable, match="use a local one"):
        prepare(connection, path, "full", HashChain())
    connection.close()


def contested(path: Path) -> str:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return prepare(connection, path, "process", HashChain(), is_contested=True)
    finally:
        connection.close()


def test_a_log_is_not_taken_by_force_in_the_middle_of_a_write(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meta, "CONTEST_TIMEOUT_MS", 5)
    other = sqlite3.connect(path, isolation_level=None)
    name = prepare(other, path, "process", HashChain())
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreLocked, match="in the middle of a write"):
        contested(path)
    other.execute("ROLLBACK")
    assert meta_value(other, "owner") == name
    assert contested(path) == meta_value(other, "owner") != name
    other.close()


def test_a_log_is_not_taken_by_force_in_the_middle_of_a_checkpoint(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    name = prepare(other, path, "process", HashChain())
    monkeypatch.setattr(meta, "checkpoint", lambda connection: False)
    with pytest.raises(StoreLocked, match="in the middle of a write"):
        contested(path)
    assert meta_value(other, "owner") == name
    other.close()


def test_another_error_while_taking_a_log_by_force_is_raised_unchanged(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(connection: sqlite3.Connection) -> bool:
        raise sqlite3.OperationalError("disk I/O error")

    prepare(other := sqlite3.connect(path, isolation_level=None), path, "process", HashChain())
    monkeypatch.setattr(meta, "checkpoint", fail)
    with pytest.raises(sqlite3.OperationalError, match="disk I/O"):
        contested(path)
    other.close()


@pytest.mark.parametrize("step", ["UPDATE meta SET value = ? WHERE key", "COMMIT", "PRAGMA wal_checkpoint"])
def test_a_log_that_fails_while_it_is_opened_is_left_without_a_transaction_or_a_marker(
    path: Path, step: str
) -> None:
    class Failing(sqlite3.Connection):
        is_failing = False

        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if self.is_failing and sql.startswith(step):
                self.is_failing = False
                raise sqlite3.OperationalError("disk I/O error")
            return super().execute(sql, *values)

    connection = sqlite3.connect(path, isolation_level=None, factory=Failing)
    first = prepare(connection, path, "process", HashChain())
    connection.is_failing = True
    with pytest.raises(sqlite3.OperationalError, match="disk I/O"):
        prepare(connection, path, "process", HashChain())
    assert not connection.in_transaction
    assert meta_value(connection, "wal") == ""
    is_written = step.startswith("PRAGMA")
    assert (meta_value(connection, "owner") != first) is is_written
    connection.close()
    other = sqlite3.connect(path, isolation_level=None)
    assert prepare(other, path, "process", HashChain()) != first
    other.close()


@pytest.mark.parametrize("is_contested", [False, True])
@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("process", 1)])
def test_an_owner_syncs_writes_back_and_waits_as_documented(
    path: Path, durability: meta.Durability, level: int, is_contested: bool
) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    if is_contested:
        prepare(connection, path, "full", HashChain())
    connection.execute("PRAGMA busy_timeout = 30000")
    prepare(connection, path, durability, HashChain(), is_contested=is_contested)
    found = {name: pragma(connection, name) for name in _settings()} | {
        "busy_timeout": pragma(connection, "busy_timeout")
    }
    wanted = {
        "synchronous": level,
        "wal_autocheckpoint": 0,
        "journal_size_limit": 16 << 20,
        "trusted_schema": 0,
        "cache_size": -1_000,
        "busy_timeout": 30_000,
    }
    assert wanted.items() <= found.items()
    connection.close()
