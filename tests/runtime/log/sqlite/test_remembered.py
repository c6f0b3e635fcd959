"""The memory of a log's owner: bounded, and dropped without harm."""

import sqlite3
from pathlib import Path

import pytest

from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.protocol import GENESIS, Append, Head
from callboard.runtime.log.sqlite import remembered
from callboard.runtime.log.sqlite.batch import KnownHead
from callboard.runtime.log.sqlite.meta import prepare
from callboard.runtime.log.sqlite.store import SQLiteStore
from tests.runtime.log.kit import large


def test_heads_and_values_are_forgotten_together_once_either_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remembered, "REMEMBERED_MAX", 3)
    head = KnownHead(1, 1, 0, GENESIS, False)
    for heads, blobs in ((("c", "d"), ()), ((), (b"3", b"4"))):
        memory = remembered.Remembered()
        memory.add({"a": head, "b": head}, [b"1", b"2"])
        memory.add({"b": head}, [b"2"])
        assert (list(memory.heads), memory.blobs) == (["a", "b"], {b"1", b"2"})
        memory.add(dict.fromkeys(heads, head), blobs)
        assert (tuple(memory.heads), memory.blobs) == (heads, set(blobs))


def test_the_memory_of_the_store_is_bounded(
    connection: sqlite3.Connection, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SQLiteStore(connection, path, HashChain(), prepare(connection, path, "process", HashChain()))
    monkeypatch.setattr(remembered, "REMEMBERED_MAX", 3)
    for at in range(10):
        store.create(f"s{at}", 1, "", GENESIS)
        store.append([Append(f"s{at}", 0, 1, [large(1, 2_000 + at), large(2, 3_000 + at)])])
        assert len(store._remembered.heads) <= 3
        assert len(store._remembered.blobs) <= 3
    for at in range(10):
        (head,) = store.append([Append(f"s{at}", 2, 1, [large(3, 2_000 + at)])])
        assert isinstance(head, Head)
