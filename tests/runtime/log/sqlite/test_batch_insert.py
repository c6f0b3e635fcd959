"""A batch in one statement: all of it, or nothing where something is not as it was thought to be."""

import json
import sqlite3
from pathlib import Path

import pytest

from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.protocol import GENESIS
from callboard.runtime.log.sqlite.batch import BLOB, TEXT, Chunk, Rows, insert_batch, make_batch_view
from callboard.runtime.log.sqlite.meta import prepare
from callboard.runtime.log.sqlite.schema import SEQ_BITS, pragma
from tests.runtime.log.kit import events

ONE = json.dumps([[1, 1, 0, 3]])
"""Session 1, under epoch 1, goes on from event 0 to event 3."""


@pytest.fixture(autouse=True)
def two_sessions(connection: sqlite3.Connection, path: Path) -> None:
    prepare(connection, path, "process", HashChain())
    for name in "ab":
        connection.execute(
            "INSERT INTO sessions(session_id, epoch, head, created_ms, title, origin) "
            "VALUES (?, 1, 0, 1, '', ?)",
            (name, GENESIS),
        )


def chunk(kind: str = TEXT, count: int = 3) -> Chunk:
    rows = Rows(kind)
    given = events(1, count)
    rows.add(1 << SEQ_BITS, given, HashChain().seal_all("a", GENESIS, given))
    made = rows.only_chunk()
    assert made is not None
    return made


def stored(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    heads = connection.execute("SELECT head, epoch FROM sessions ORDER BY id").fetchall()
    return [
        *heads,
        *connection.execute("SELECT id & 0xffffffff, typeof(body) FROM events ORDER BY id").fetchall(),
    ]


UNTOUCHED = [(0, 1), (0, 1)]


@pytest.mark.parametrize(("kind", "stored_as"), [(TEXT, "text"), (BLOB, "blob")])
def test_rows_and_heads_go_in_together(connection: sqlite3.Connection, kind: str, stored_as: str) -> None:
    make_batch_view(connection, kind)
    assert insert_batch(connection, pragma(connection, "data_version"), ONE, "[]", chunk(kind))
    assert stored(connection) == [(3, 1), (0, 1), *[(seq, stored_as) for seq in (1, 2, 3)]]
    assert not connection.in_transaction


@pytest.mark.parametrize(
    "moves",
    [
        [[1, 1, 1, 3]],
        [[1, 2, 0, 3]],
        [[9, 1, 0, 3]],
        [[1, 1, 0, 3], [2, 1, 5, 6]],
        [[1, 1, 0, 3], [2, 2, 0, 0]],
    ],
    ids=["another head", "another epoch", "no session", "one of two", "the epoch of one of two"],
)
def test_a_session_that_is_elsewhere_keeps_everybody_out(
    connection: sqlite3.Connection, moves: list[list[int]]
) -> None:
    make_batch_view(connection, TEXT)
    assert not insert_batch(connection, pragma(connection, "data_version"), json.dumps(moves), "[]", chunk())
    assert stored(connection) == UNTOUCHED
    assert not connection.in_transaction


def test_any_change_by_another_connection_refuses_the_batch(
    connection: sqlite3.Connection, path: Path
) -> None:
    make_batch_view(connection, TEXT)
    version = pragma(connection, "data_version")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("UPDATE meta SET value = 'somebody else' WHERE key = 'owner'")
    other.close()
    assert not insert_batch(connection, version, ONE, "[]", chunk())
    assert stored(connection) == UNTOUCHED
    assert insert_batch(connection, pragma(connection, "data_version"), ONE, "[]", chunk()), "asked again"


def test_a_row_that_is_there_already_keeps_its_place(connection: sqlite3.Connection) -> None:
    make_batch_view(connection, TEXT)
    version = pragma(connection, "data_version")
    assert insert_batch(connection, version, ONE, "[]", chunk())
    connection.execute("UPDATE sessions SET head = 0")
    before = connection.execute("SELECT * FROM events").fetchall()
    assert not insert_batch(connection, version, ONE, "[]", chunk(count=2))
    assert connection.execute("SELECT * FROM events").fetchall() == before


def test_nothing_of_it_is_in_the_file(connection: sqlite3.Connection, path: Path) -> None:
    make_batch_view(connection, TEXT)
    other = sqlite3.connect(path)
    names = {name for (name,) in other.execute("SELECT name FROM sqlite_master")}
    other.close()
    assert not names & {"batch", "insert_batch"}
