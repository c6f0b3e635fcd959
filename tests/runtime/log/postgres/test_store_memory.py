"""The memory of a store on a server: sessions and large values, and the questions that it saves."""

from typing import Any

import psycopg
import pytest

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.errors import (
    CorruptLog,
    Fenced,
    SessionExists,
    SessionNotFound,
    StoreFailed,
    WrongHead,
)
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.postgres import link as links
from callboard.runtime.log.postgres import schema
from callboard.runtime.log.postgres import store as stores
from callboard.runtime.log.postgres.link import Link
from callboard.runtime.log.postgres.meta import prepare
from callboard.runtime.log.postgres.store import Memory, PostgresStore
from callboard.runtime.log.protocol import GENESIS, Append, Head
from callboard.runtime.log.session_rows import EVERY_SESSION
from tests.postgres_server import execute
from tests.runtime.log.kit import event, events, large, same
from tests.runtime.log.postgres.places import OnServer, on_server, taken
from tests.runtime.log.postgres.test_store import batch, cut_append


@pytest.fixture
def said(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the questions and the values that the store sends, in a list that grows."""
    found: list[str] = []
    real, ask = store.link.execute, store._ask_for

    def execute(query: str, values: Any = (), doing: str = "writing") -> list[Any]:
        if doing == "append":
            found.append("values" if "INSERT INTO" in query.partition("kept AS")[2] else "append")
        return real(query, values, doing)

    def asked(names: Any) -> Any:
        found.append(f"ask {''.join(sorted(names))}")
        return ask(names)

    monkeypatch.setattr(store.link, "execute", execute)
    monkeypatch.setattr(store, "_ask_for", asked)
    return found


def test_a_store_asks_only_for_sessions_that_it_has_not_written(
    store: PostgresStore, other: PostgresStore, said: list[str]
) -> None:
    other.create("d", 1, "", GENESIS)
    steps = [
        (batch(), ["append"]),
        (batch(4, 5), ["append"]),
        ([*batch(6, 6, "a"), *batch(1, 1, "d")], ["ask ad", "append"]),
        ([*batch(7, 7, "a"), *batch(2, 2, "d")], ["append"]),
        ([*batch(8, 8, "a"), *batch(1, 1, "x")], ["ask ax", "append"]),
        (batch(4, 5, "b"), ["ask b"]),  # its head is another one
    ]
    for parts, wanted in steps:
        said.clear()
        store.append(parts)
        assert said == wanted
    assert [store.head(name).seq for name in "abcd"] == [8, 5, 5, 2]


def test_a_store_forgets_all_but_the_last_batch_when_it_remembers_too_much(
    store: PostgresStore, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "REMEMBERED_MAX", 2)
    store.append(batch(names="a"))
    said.clear()
    store.append(batch(4, 4, "a"))
    store.append(batch(names="b"))
    assert said == ["append", "ask b", "append"]
    values = [large(seq, 4_000, text) for seq, text in ((5, "x"), (6, "y"), (7, "z"))]
    store.append([Append("a", 4, 1, values)])
    assert len(store._memory.blobs) == 3
    store.append(batch(4, 4, "b"))
    assert store._memory.blobs == set()
    assert list(store._memory.known) == ["b"]


def test_a_large_value_is_sent_once(store: PostgresStore, said: list[str]) -> None:
    posted = [large(1, 4_000)]
    for name in "ab":
        store.append([Append(name, 0, 1, posted)])
    store.append([Append("c", 0, 1, [*events(1, 1), large(2, 4_000)])])
    assert len(store._memory.blobs) == 1
    store.purge()
    assert store._memory.blobs == set(), "a purge may have removed it"


def test_the_bytes_since_the_last_measurement_are_counted(store: PostgresStore) -> None:
    assert Memory().written == 0
    store.measure()
    store.append([Append("a", 0, 1, [large(1, 4_000)])])
    assert 4_000 < store._memory.written < 4_500
    store.append([Append("a", 1, 1, [*events(2, 3), large(4, 4_000)])])
    assert 4_600 < store._memory.written < 5_500, "the value is there already"
    assert store.measure() > 0
    assert store._memory.written == 0


def test_a_session_that_was_made_again_is_not_written_beside_one_that_is_asked_for(
    store: PostgresStore, other: PostgresStore
) -> None:
    """Both have epoch 1 and no event, so only the number tells the old one from the new one."""
    other.delete("b", keep_forks=False)
    for name in "bd":
        other.create(name, 1, "", GENESIS)
    assert [type(one) for one in store.append(batch(names="bd"))] == [Fenced, Head]
    assert store.head("b").seq == 0


def test_a_fork_sends_every_value_of_its_own_events(store: PostgresStore, place: OnServer) -> None:
    store.append([Append("a", 0, 1, [large(1, 4_000)]), *batch(names="b")])
    execute(f"DELETE FROM {place.schema}.uses; DELETE FROM {place.schema}.blobs")
    store.fork("f", 1, "", "b", 2, [large(3, 4_000)])
    assert same(store.read("f", 3, 1), [large(3, 4_000)])


def test_a_fork_that_meets_a_deadlock_is_made_again_and_another_fault_is_reported(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append(batch(names="a"))
    real, left = store._send, [psycopg.errors.DeadlockDetected("words"), psycopg.errors.CheckViolation("no")]

    def send(*given: Any) -> set[int]:
        if len(left) == 2 or store.tables.rows("SELECT 1 FROM {s}.sessions WHERE session_id = 'g'"):
            raise left.pop(0)
        return real(*given)

    monkeypatch.setattr(store, "_send", send)
    assert store.fork("f", 1, "", "a", 2, events(3, 3)).seq == 3
    with pytest.raises(StoreFailed, match="fork failed: no"):
        store.fork("g", 1, "", "a", 2, events(3, 3))
    assert [row.session_id for row in store.sessions(EVERY_SESSION)][:1] == ["f"]


def test_a_fork_of_a_damaged_session_is_refused(store: PostgresStore, place: OnServer) -> None:
    store.append(batch(names="a"))
    execute(f"UPDATE {place.schema}.events SET at = at + 1 WHERE seq = 1")
    with pytest.raises(CorruptLog):
        store.fork("f", 1, "", "a", 2, [])


def test_a_fork_begins_behind_an_event_of_its_parent(store: PostgresStore) -> None:
    store.append(batch(names="a"))
    for base in (0, 4):
        with pytest.raises(WrongHead, match="cannot be forked"):
            store.fork("f", 1, "", "a", base, [])
    with pytest.raises(StoreFailed, match="an event cannot be written"):
        store.fork("f", 1, "", "a", 2, [event(3, Cancel("\ud800"))])
    assert len(store.sessions(EVERY_SESSION)) == 3, "nothing is left of it"
    for base in (1, 3):
        assert store.fork(f"f{base}", 1, "", "a", base, []).seq == base


def test_nobody_deletes_the_parent_of_a_fork_while_it_is_made(
    store: PostgresStore, place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append(batch(names="a"))
    store.fork("f", 1, "", "a", 2, events(3, 4))
    store.delete("a", keep_forks=True)
    assert [type(one) for one in store.take_over(["a"])] == [SessionNotFound], (
        "it is there for its forks only"
    )
    real, locked = store._make, list[str]()

    def make(*given: Any) -> int:
        for name in "afb":
            try:
                execute(
                    f"SELECT 1 FROM {place.schema}.sessions WHERE session_id = '{name}' FOR UPDATE NOWAIT"
                )
            except psycopg.errors.LockNotAvailable:
                locked.append(name)
        return real(*given)

    monkeypatch.setattr(store, "_make", make)
    assert store.fork("g", 1, "", "f", 2, []).seq == 2
    assert locked == ["a", "f"]
    assert store.tables.entry("g").parent == "a"


def test_a_session_is_locked_and_checked_while_it_is_taken_over(
    store: PostgresStore, place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append(batch())
    real, locked = store.tables.verify_tails, list[str]()

    def verify(*given: Any) -> None:
        query = f"SELECT 1 FROM {place.schema}.sessions WHERE session_id = 'a' FOR NO KEY UPDATE NOWAIT"
        with pytest.raises(psycopg.errors.LockNotAvailable):
            execute(query)
        locked.append("a")
        real(*given)

    monkeypatch.setattr(store.tables, "verify_tails", verify)
    assert store.take_over(["a"]) == [(2, store.head("a"))]
    assert locked == ["a"]
    execute(f"UPDATE {place.schema}.events SET at = at + 1 WHERE seq = 3")
    with pytest.raises(CorruptLog):
        store.take_over(["b", "a"])
    assert store.tables.entry("b").epoch == 1


def test_an_append_without_events_is_sent_once_whatever_is_cut(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its head does not say whether it was stored, and to charge it twice would be worse."""
    store.append(batch(names="a"))
    for is_before in (True, False):
        with monkeypatch.context() as patched:
            sent = cut_append(store, patched, before=is_before)
            assert store.append([Append("a", 3, 1, [])]) == [store.head("a")]
        assert len(sent) == 1


def test_a_session_that_is_taken_over_between_two_attempts_is_fenced(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = store._settle

    def settle(left: Any) -> set[str]:
        found = real(left)
        epoch, _ = taken(other, "b")
        other.append([Append("b", 0, epoch, [event(seq, Cancel("other")) for seq in range(1, 10)])])
        return found

    monkeypatch.setattr(store, "_settle", settle)
    cut_append(store, monkeypatch, before=True)
    assert [type(one) for one in store.append(batch())] == [Head, Fenced, Head]


def test_an_append_that_is_in_the_way_each_time_waits_longer_and_longer(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def send(*_: object) -> set[int]:
        raise errors[len(pauses) % 2]

    errors = [psycopg.errors.DeadlockDetected("words"), psycopg.errors.ForeignKeyViolation("words")]
    monkeypatch.setattr(store, "_send", send)
    monkeypatch.setattr(store.link, "pause", pauses.append)
    with pytest.raises(StoreFailed, match="in the way of others each time"):
        store.append(batch())
    assert pauses == [links.PAUSE_S * attempt for attempt in range(links.ATTEMPTS_MAX)]


def test_a_name_that_is_taken_or_unknown_is_refused(store: PostgresStore) -> None:
    with pytest.raises(SessionExists):
        store.create("a", 1, "", GENESIS)
    (unknown, known) = store.take_over(["x", "a"])
    assert isinstance(unknown, SessionNotFound)
    assert known == (2, store.head("a"))


def test_the_first_session_of_a_partition_makes_it(
    place: OnServer, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "PARTITION_SESSIONS", 100_000)
    store.append(batch(names="a"))
    execute(f"SELECT setval('{place.schema}.sessions_id_seq', 199999)")
    place.is_changed = True
    with pytest.raises(WrongHead):  # its partition goes with the transaction
        store.fork("y", 1, "", "a", 1, events(7, 7))
    store.create("z", 1, "", GENESIS)
    assert [type(one) for one in store.append(batch(names="z"))] == [Head]
    assert store._memory.partitions == {0, 2}


def test_the_title_of_an_encrypted_session_is_read_again() -> None:
    with on_server(b"k" * 32) as place:
        link, chain = Link(place.log().address), HashChain()
        store = PostgresStore(link, chain, prepare(link, chain, b"k" * 32), Memory())
        store.create("a", 1, "a title", GENESIS)
        assert store.sessions(EVERY_SESSION)[0].title == "a title"
        link.close()
