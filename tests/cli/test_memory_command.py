"""`callboard memory`."""

import json
from pathlib import Path

import pytest

from callboard.memory import MemoryEntry, SQLiteMemory
from tests.cli.conftest import Callboard


@pytest.fixture
def file(tmp_path: Path) -> str:
    store = SQLiteMemory(tmp_path / "memory.db")
    store.remember("shared", MemoryEntry("id1", "the tea\x1b[31m is hot", ("untrusted",), "reader", "s1", 5))
    store.remember("shared", MemoryEntry("id2", "the wall", (), "reader", "s1", 6))
    store.remember("agent:reader", MemoryEntry("id3", "mine"))
    return str(tmp_path / "memory.db")


def test_memories_are_listed_with_their_entries(callboard: Callboard, file: str) -> None:
    listed = callboard("memory", file).stdout.splitlines()
    assert [line.split() for line in listed] == [
        ["MEMORY", "ENTRIES"],
        ["agent:reader", "1"],
        ["shared", "2"],
    ]
    assert json.loads(callboard("memory", file, "--json").stdout) == {
        "memories": {"agent:reader": 1, "shared": 2}
    }
    newest = callboard("memory", file, "shared").stdout
    assert newest.index("id2") < newest.index("id1")
    found = callboard("memory", file, "shared", "tea").stdout
    assert "untrusted" in found
    assert "id2" not in found
    assert "\x1b" not in found
    (entry,) = json.loads(callboard("memory", file, "shared", "wall", "--json").stdout)["entries"]
    assert entry == {
        "id": "id2", "text": "the wall", "labels": [], "by": "reader", "session": "s1",
        "at": "1970-01-01T00:00:00.006Z",
    }  # fmt: skip
    assert "no entry matches" in callboard("memory", file, "shared", "coffee").stderr


def test_an_entry_is_forgotten_once(callboard: Callboard, file: str) -> None:
    done = callboard("memory", file, "shared", "--forget", "id1")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "forgot id1" in done.stderr
    again = callboard("memory", file, "shared", "--forget", "id1")
    assert again.exit_code == 3
    assert "has no entry 'id1'" in again.stderr


def test_a_missing_file_is_not_made_and_a_damaged_one_is_told(callboard: Callboard, tmp_path: Path) -> None:
    missing = tmp_path / "no.db"
    assert callboard("memory", str(missing)).exit_code == 3
    assert not missing.exists()
    missing.write_text("no database " * 100)
    damaged = callboard("memory", str(missing), "shared")
    assert damaged.exit_code == 4
    assert "is damaged" in damaged.stderr
    missing.write_bytes(b"")
    assert "has no entries" in callboard("memory", str(missing)).stderr
