"""The file of a memory that is damaged, locked, foreign, newer, or not there."""

import os
import random
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from callboard.errors import MemoryFailed
from callboard.memory import MemoryEntry, SQLiteMemory
from callboard.runtime.memory.file import FORMAT, opened, transaction
from tests.effort import effort


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def memory(path: Path) -> SQLiteMemory:
    made = SQLiteMemory(path, wait_s=0.05)
    made.remember("shared", MemoryEntry("id1", "the tea is hot", ("secret",)))
    return made


def reason_of(memory: SQLiteMemory) -> str:
    """Use a memory in each way. Return the one reason for which each is refused."""
    reasons = set()
    for use in (
        lambda: memory.recall("shared", "tea", 5),
        lambda: memory.remember("shared", MemoryEntry("id2", "text")),
        lambda: memory.forget("shared", "id1"),
        lambda: memory.sizes(),
    ):
        with pytest.raises(MemoryFailed) as failed:
            use()
        assert str(memory.path) not in str(failed.value)
        reasons.add(failed.value.reason)
    (reason,) = reasons
    return reason


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute(statement)


def test_a_missing_file_is_made_and_a_deleted_one_begins_anew(path: Path, memory: SQLiteMemory) -> None:
    path.unlink()
    assert list(memory.recall("shared", "tea", 5)) == []
    memory.remember("shared", MemoryEntry("id1", "tea"))
    assert [one.text for one in memory.recall("shared", "tea", 5)] == ["tea"]


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    assert reason_of(SQLiteMemory(tmp_path / "no" / "memory.db")) == "missing"


def test_a_file_that_is_no_database_is_damaged(path: Path) -> None:
    path.write_text("This is a diary, and no database at all." * 20)
    assert reason_of(SQLiteMemory(path)) == "damaged"


def test_the_database_of_another_program_is_foreign_and_stays_as_it_is(path: Path) -> None:
    change(path, "CREATE TABLE addresses(name TEXT)")
    before = path.read_bytes()
    assert reason_of(SQLiteMemory(path)) == "foreign"
    assert path.read_bytes() == before


def test_a_newer_format_is_refused(path: Path, memory: SQLiteMemory) -> None:
    change(path, f"PRAGMA user_version = {FORMAT + 1}")
    assert reason_of(memory) == "too_new"


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
        "CREATE VIEW v AS SELECT 1",
        "ALTER TABLE entries ADD COLUMN more",
        "DROP TABLE words",
    ],
)
def test_other_tables_than_its_own_are_refused(path: Path, memory: SQLiteMemory, statement: str) -> None:
    change(path, statement)
    assert reason_of(memory) == "damaged"


@pytest.mark.parametrize("labels", ["'no json'", "'{}'", "'[1]'", "x'ff'", "printf('%.*c', 9999, '[')"])
def test_a_damaged_entry_is_refused_and_never_read_without_its_labels(
    path: Path, memory: SQLiteMemory, labels: str
) -> None:
    change(path, f"UPDATE entries SET labels = {labels}")
    with pytest.raises(MemoryFailed) as failed:
        memory.recall("shared", "tea", 5)
    assert failed.value.reason == "damaged"


def test_a_locked_file_is_refused_after_the_wait_and_can_be_read_meanwhile(
    path: Path, memory: SQLiteMemory
) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(MemoryFailed, match="another program holds") as locked:
            memory.remember("shared", MemoryEntry("id2", "text"))
        assert locked.value.reason == "locked"
        assert [one.id for one in memory.recall("shared", "tea", 5)] == ["id1"]
        other.execute("ROLLBACK")
    memory.remember("shared", MemoryEntry("id2", "text"))


@pytest.mark.parametrize("held", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_file_that_another_process_makes_at_this_moment_is_waited_for(path: Path, held: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute(held)
        release = threading.Timer(0.1, other.execute, ["ROLLBACK"])
        release.start()
        SQLiteMemory(path, wait_s=30).remember("shared", MemoryEntry("id1", "tea"))
        release.join()
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_new_file_that_stays_held_is_refused_after_the_wait(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert reason_of(SQLiteMemory(path, wait_s=0.05)) == "locked"


def test_a_file_that_is_held_alone_cannot_be_read(path: Path, memory: SQLiteMemory) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        assert reason_of(memory) == "locked"


def test_a_folder_and_a_pipe_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert reason_of(SQLiteMemory(tmp_path / "pipe")) == "foreign"
    assert reason_of(SQLiteMemory(tmp_path)) == "foreign"


def test_a_path_too_long_for_the_system_is_refused(tmp_path: Path) -> None:
    assert reason_of(SQLiteMemory(tmp_path / ("x" * 5_000))) == "denied"


def test_damaged_bytes_give_entries_or_a_typed_error(path: Path, memory: SQLiteMemory) -> None:
    for number in range(10):
        memory.remember("shared", MemoryEntry(f"n{number}", f"tea number{number} 长城"))
    change(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    whole, chance, refused = path.read_bytes(), random.Random(7), 0
    for _ in range(effort(40, 2_000)):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 8, 60))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        end = chance.choice((len(data), len(data), chance.randrange(len(data))))
        path.write_bytes(bytes(data[:end]))
        try:
            found = memory.recall("shared", "tea 长城", 50)
            memory.remember("shared", MemoryEntry("new", "text"))
            memory.forget("shared", "n3")
            assert all(isinstance(one, MemoryEntry) for one in found)
        except MemoryFailed:
            refused += 1
    assert refused


def test_a_transaction_that_fails_leaves_nothing_of_it(path: Path, memory: SQLiteMemory) -> None:
    memory.remember("shared", MemoryEntry("id1", "tea"))

    def fail() -> None:
        with opened(path, wait_s=1, bytes_max=10_000_000) as file, transaction(file, writes=True):
            file.execute("DELETE FROM entries")
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fail()
    assert [one.id for one in memory.recall("shared", "", 10)] == ["id1"]
