"""The removal of sessions in steps: bounded, complete, and continued after any of them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from callboard.actors.protocol.client_messages import Cancel
from callboard.replay.testing.stores.events import event, events, large, same
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.protocol import GENESIS, Append
from callboard.runtime.log.session_rows import Details
from callboard.runtime.log.sqlite.deletion import (
    _LAST,
    _NEXT,
    BYTES_MAX,
    EVENTS_MAX,
    Step,
    is_pending,
    last_removed,
    remove_some,
    take_out,
)
from callboard.runtime.log.sqlite.meta import prepare
from callboard.runtime.log.sqlite.schema import PAGE_BYTES, make_tables
from callboard.runtime.log.sqlite.store import SQLiteStore
from callboard.runtime.log.sqlite.tables import Tables

COUNTED = ("events", "blobs", "uses", "tags", "meta WHERE key LIKE 'removal%'")


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        yield made


@pytest.fixture
def store(connection: sqlite3.Connection, path: Path) -> SQLiteStore:
    owner = prepare(connection, path, "process", HashChain())
    return SQLiteStore(connection, path, HashChain(), owner)


def counts(connection: sqlite3.Connection) -> list[int]:
    return [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in COUNTED]


def test_a_step_removes_so_many_events_and_no_more(
    store: SQLiteStore, connection: sqlite3.Connection
) -> None:
    store.create("s", 1, "", GENESIS)
    store.append([Append("s", 0, 1, events(1, 2 * EVENTS_MAX + 10))])
    store.delete("s", False)
    left = []
    while is_pending(connection):
        assert store.purge() == is_pending(connection)
        left.append(counts(connection)[0])
    assert left == [EVENTS_MAX + 10, 10, 0]
    assert counts(connection) == [0] * 5


def test_a_step_with_large_values_ends_earlier(store: SQLiteStore, connection: sqlite3.Connection) -> None:
    store.create("s", 1, "", GENESIS)
    half = BYTES_MAX // 2 + 1
    store.append([Append("s", 0, 1, [large(seq, half + seq) for seq in range(1, 6)])])
    store.append([Append("s", 5, 1, [event(6, Cancel("r" * BYTES_MAX)), *events(7, 8)])])
    store.delete("s", False)
    left = []
    while store.purge():
        left.append(counts(connection)[:2])
    assert left == [[6, 3], [4, 1], [2, 0]]
    assert counts(connection) == [0] * 5


def test_a_value_that_is_as_large_as_ten_steps_is_removed(
    store: SQLiteStore, connection: sqlite3.Connection
) -> None:
    store.create("s", 1, "", GENESIS)
    store.append([Append("s", 0, 1, [large(1, 10 * BYTES_MAX), *events(2, 3)])])
    store.delete("s", False)
    while store.purge():
        pass
    assert counts(connection) == [0] * 5


def test_a_session_without_events_is_removed_too(store: SQLiteStore, connection: sqlite3.Connection) -> None:
    store.create("s", 1, "", GENESIS)
    assert store.delete("s", False) == 0
    assert not store.purge()
    assert counts(connection) == [0] * 5


def test_the_number_of_a_session_is_free_only_once_its_events_are_gone(
    store: SQLiteStore, connection: sqlite3.Connection
) -> None:
    for name in "ab":
        store.create(name, 1, "", GENESIS)
        store.append([Append(name, 0, 1, events(1, 3))])
    store.delete("b", False)  # it has the highest number
    store.create("c", 1, "", GENESIS)
    assert store.read("c", 1, 10) == []
    store.append([Append("c", 0, 1, events(1, 5))])
    while store.purge():
        pass
    assert same(store.read("c", 1, 10), events(1, 5))
    assert same(store.read("a", 1, 10), events(1, 3))


def test_the_notes_of_removals_are_in_the_order_of_their_numbers(
    store: SQLiteStore, connection: sqlite3.Connection
) -> None:
    names = [f"s{number}" for number in range(1, 13)]
    for name in names:
        store.create(name, 1, "", GENESIS)
        store.append([Append(name, 0, 1, events(1, 2))])
    for name in (names[1], names[-1], names[8]):
        store.delete(name, False)
    assert last_removed(connection) == len(names)
    assert store.purge()
    left = connection.execute("SELECT DISTINCT id >> 32 FROM events").fetchall()
    assert (2,) not in left
    assert {(9,), (12,)} <= set(left)
    while store.purge():
        pass
    assert last_removed(connection) == 0


def test_the_first_and_the_last_note_are_found_without_a_search(connection: sqlite3.Connection) -> None:
    make_tables(connection)
    for query in (_NEXT, _LAST):
        (plan,) = connection.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
        assert "key>? AND key<?" in plan[-1]


def test_every_step_can_be_the_last_of_a_process(store: SQLiteStore, path: Path) -> None:
    """Undo each step in the middle; another connection then removes the rest."""
    for name in "ab":
        store.create(name, 1, "", GENESIS)
        store.append(
            [Append(name, 0, 1, [*events(1, 600), *(large(seq, 3_000 + seq) for seq in range(601, 700))])]
        )
    store.delete("a", False)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        while is_pending(other):
            before = counts(other)
            other.execute("BEGIN IMMEDIATE")
            remove_some(other)
            other.execute("ROLLBACK")
            assert counts(other) == before
            other.execute("BEGIN IMMEDIATE")
            remove_some(other)
            other.execute("COMMIT")
            assert len(Tables(other).events("b", 1, 1_000)) == 699
        assert counts(other)[:2] == [699, 99]


def test_events_behind_the_head_of_a_damaged_session_are_removed_too(
    store: SQLiteStore, connection: sqlite3.Connection
) -> None:
    store.create("s", 1, "", GENESIS)
    store.append([Append("s", 0, 1, events(1, 9))])
    connection.execute("UPDATE sessions SET head = 4")
    store.delete("s", False)
    while store.purge():
        pass
    assert counts(connection) == [0] * 5


def test_a_value_that_a_fork_shares_outlives_the_later_events_that_have_it_too(store: SQLiteStore) -> None:
    store.create("s", 1, "", GENESIS)
    given = [large(1, 9_000), large(2, 8_000), large(3, 9_000), large(4, 7_000)]
    store.append([Append("s", 0, 1, given)])
    store.fork("f", 1, "", "s", 2, [])
    assert store.delete("s", True) == 2
    while store.purge():
        pass
    assert same(store.read("f", 1, 10), given[:2])


def test_a_step_tells_how_much_it_has_written_and_whether_it_was_the_last(
    store: SQLiteStore, connection: sqlite3.Connection
) -> None:
    assert remove_some(connection) == Step(0, True)
    for name in "ab":
        store.create(name, 1, "", GENESIS)
        store.append([Append(name, 0, 1, [large(1, 10 * PAGE_BYTES, name), large(2, 5 * PAGE_BYTES, name)])])
        store.delete(name, False)
    assert remove_some(connection) == Step(2 + 2 + 15, False, 2)
    assert remove_some(connection) == Step(2 + 2 + 15, True, 2)


def test_values_of_an_event_whose_cuts_are_damaged_are_removed_with_those_of_its_session(
    store: SQLiteStore, connection: sqlite3.Connection
) -> None:
    for name in "ab":
        store.create(name, 1, "", GENESIS)
        store.append([Append(name, 0, 1, [large(1, 9_000), large(2, 8_000, name)])])
    for damage in ("'[['", "CAST(x'ff' AS TEXT)"):
        connection.execute(f"UPDATE events SET cuts = {damage} WHERE id = (1 << 32) | 1")
        connection.execute("BEGIN")
        take_out(connection, Tables(connection), Tables(connection).entry("a"))
        while is_pending(connection):
            remove_some(connection)
        assert counts(connection)[:3] == [2, 2, 2], "those of the other session are left"
        connection.execute("ROLLBACK")


def test_the_tags_of_a_session_go_with_it_and_those_of_others_stay(
    store: SQLiteStore, connection: sqlite3.Connection
) -> None:
    tables = Tables(connection)
    for name in "ab":
        store.create(name, 1, "", GENESIS)
        tables.write_details(tables.entry(name), Details(tags=("red", "blue")))
    store.delete("a", False)
    left = connection.execute("SELECT tag, session FROM tags ORDER BY tag").fetchall()
    assert left == [("blue", 2), ("red", 2)]


def test_a_hidden_session_goes_with_the_last_of_its_forks(
    store: SQLiteStore, connection: sqlite3.Connection
) -> None:
    store.create("s", 1, "", GENESIS)
    store.append([Append("s", 0, 1, events(1, 9))])
    store.fork("f", 1, "", "s", 6, [])
    store.fork("g", 1, "", "s", 4, [])
    store.append([Append("g", 4, 1, events(5, 6))])
    assert store.delete("s", True) == 3
    assert store.delete("f", False) == 2, "those that it alone has shared"
    assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (2,)
    assert store.delete("g", False) == 2 + 4
    assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (0,)
    while store.purge():
        pass
    assert counts(connection) == [0] * 5


def test_a_step_of_one_event_behind_the_shared_ones_leaves_the_shared_ones(store: SQLiteStore) -> None:
    store.create("s", 1, "", GENESIS)
    store.append([Append("s", 0, 1, [*events(1, 2), *(large(seq, 2 * BYTES_MAX + seq) for seq in (3, 4))])])
    store.fork("f", 1, "", "s", 2, [])
    store.delete("s", True)
    while store.purge():
        assert same(store.read("f", 1, 10), events(1, 2))
    assert same(store.read("f", 1, 10), events(1, 2))
