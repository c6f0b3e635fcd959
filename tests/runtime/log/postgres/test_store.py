"""PostgresStore: appends that are cut, fenced or in each other's way are stored once or not at all."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.errors import Fenced, MisuseError, StoreFailed, StoreLocked
from callboard.runtime.log.postgres import link as links
from callboard.runtime.log.postgres.link import Cut, Link
from callboard.runtime.log.postgres.store import (
    PostgresStore,
)
from callboard.runtime.log.protocol import GENESIS, Append, Head
from callboard.runtime.log.session_rows import EVERY_SESSION
from tests.postgres_server import execute
from tests.runtime.log.kit import event, events, large, same
from tests.runtime.log.postgres.places import OnServer, taken

Disturb = Callable[[], object]


def batch(first: int = 1, last: int = 3, names: str = "abc") -> list[Append]:
    return [Append(name, first - 1, 1, events(first, last)) for name in names]


def cut_append(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, *, before: bool, then: Disturb = lambda: None
) -> list[int]:
    """Cut the connection at the first append, before or after the server has it. Return the appends sent."""
    sent: list[int] = []
    real: Callable[..., Any] = store.link.execute

    def cutting(query: str, values: Any = (), doing: str = "") -> list[Any]:
        if doing != "append":
            done: list[Any] = real(query, values, doing)
            return done
        sent.append(1)
        done = [] if before and len(sent) == 1 else real(query, values, doing)
        if len(sent) == 1:
            store.link.drop()
            then()
            raise Cut
        return done

    monkeypatch.setattr(store.link, "execute", cutting)
    return sent


@pytest.mark.parametrize("before", [True, False])
def test_an_append_that_was_cut_is_stored_once(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    sent = cut_append(store, monkeypatch, before=before)
    answers = store.append(batch())
    assert answers == [store.head(name) for name in "abc"]
    assert len(sent) == (2 if before else 1)
    assert all(same(store.read(name, 1, 99), events(1, 3)) for name in "abc")
    assert [type(answer) for answer in store.append(batch(4, 5))] == [Head] * 3


def test_a_session_that_was_taken_over_during_the_cut_is_fenced_and_the_others_go_on(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def then() -> None:
        epoch, _ = taken(other, "b")
        other.append([Append("b", 0, epoch, [event(seq, Cancel("other")) for seq in range(1, 10)])])

    cut_append(store, monkeypatch, before=True, then=then)
    assert [type(answer) for answer in store.append(batch())] == [Head, Fenced, Head]
    assert [store.head(name).seq for name in "abc"] == [3, 9, 3]


def test_an_append_that_was_stored_is_ours_also_where_another_owner_has_gone_on(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def then() -> None:
        epoch, head = taken(other, "b")
        other.append([Append("b", head.seq, epoch, events(4, 6))])

    sent = cut_append(store, monkeypatch, before=False, then=then)
    answers = store.append(batch())
    assert [answer.seq for answer in answers if isinstance(answer, Head)] == [3, 3, 3]
    assert len(sent) == 1
    assert store.head("b").seq == 6
    assert isinstance(store.append(batch(4, 4, "b"))[0], Fenced)


def test_a_statement_that_arrives_late_is_known_as_ours(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let the old statement come after the question for its outcome, and before the new one."""
    real, asked = store._settle, list[int]()

    def settled_and_late(left: Any) -> set[str]:
        found = real(left)
        if not asked:
            other.append(batch(names="b"))  # the same events, as the old statement has them
        asked.append(1)
        return found

    monkeypatch.setattr(store, "_settle", settled_and_late)
    sent = cut_append(store, monkeypatch, before=True)
    assert [type(answer) for answer in store.append(batch())] == [Head, Head, Head]
    assert len(sent) == 2
    assert all(same(store.read(name, 1, 99), events(1, 3)) for name in "abc")


def test_a_cut_in_a_fork_makes_it_once(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.append(batch())
    sent = cut_append(store, monkeypatch, before=False)
    head = store.fork("f", 2, "", "a", 2, events(3, 4))
    assert head == store.head("f")
    assert len(sent) == 2  # the transaction of the first was undone
    assert same(store.read("f", 1, 9), events(1, 4))


def test_an_owner_whose_memory_is_old_asks_and_stores_nothing_twice(
    store: PostgresStore, other: PostgresStore
) -> None:
    store.append(batch())
    other.append(batch(4, 6))  # the same owner, by another object
    assert [type(answer).__name__ for answer in store.append(batch(4, 6))] == ["WrongHead"] * 3
    assert [type(answer) for answer in store.append(batch(7, 8))] == [Head] * 3
    epoch, _ = taken(other, "a")
    assert isinstance(store.append([Append("a", 8, epoch, events(9, 9))])[0], Head)


def test_a_session_that_another_process_has_made_again_is_not_the_one_that_was_written(
    store: PostgresStore, other: PostgresStore
) -> None:
    other.delete("b", keep_forks=False)
    other.create("b", 1, "", GENESIS)
    assert [type(answer) for answer in store.append(batch())] == [Head, Fenced, Head]
    other.delete("c", keep_forks=False)
    assert [type(one).__name__ for one in store.append(batch(4, 4))] == [
        "Head",
        "Fenced",
        "SessionNotFound",
    ]


def test_a_large_value_that_is_gone_is_sent_again(store: PostgresStore, place: OnServer) -> None:
    store.append([Append("a", 0, 1, [large(1)])])
    execute(f"DELETE FROM {place.schema}.uses; DELETE FROM {place.schema}.blobs")
    store.append([Append("b", 0, 1, [large(1)])])
    assert same(store.read("b", 1, 9), [large(1)])


def test_an_event_that_stands_where_the_next_one_belongs_is_an_error(
    store: PostgresStore, place: OnServer
) -> None:
    store.append(batch())
    execute(f"UPDATE {place.schema}.events SET seq = 4 WHERE session = 1 AND seq = 2")
    with pytest.raises(StoreFailed, match="duplicate key"):
        store.append(batch(4, 4))
    assert store.head("b").seq == 3


def held(place: OnServer, statement: str) -> tuple[threading.Event, threading.Thread]:
    """Hold locks as another process does, until the event is set."""
    link, ready, release = Link(place.log().address), threading.Event(), threading.Event()

    def work() -> None:
        link.execute("BEGIN")
        link.execute(statement)
        ready.set()
        release.wait(20)
        link.execute("COMMIT")
        link.close()

    thread = threading.Thread(target=work)
    thread.start()
    assert ready.wait(20)
    return release, thread


def test_a_take_over_waits_only_so_long_for_a_writer_that_is_stopped(
    store: PostgresStore, place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "_BEGIN", links._BEGIN.replace("'5000'", "'40'"))
    release, thread = held(place, f"UPDATE {place.schema}.sessions SET epoch = epoch + 1 WHERE id = 2")
    with pytest.raises(StoreLocked, match="in the middle of a write"):
        taken(store, "b")
    assert taken(store, "a")[0] == 2
    release.set()
    thread.join()
    assert taken(store, "b")[0] == 3


def test_an_append_behind_a_take_over_is_refused_once_that_is_committed(
    store: PostgresStore, place: OnServer
) -> None:
    release, thread = held(place, f"UPDATE {place.schema}.sessions SET epoch = epoch + 1 WHERE id = 2")
    threading.Timer(0.05, release.set).start()
    assert [type(answer) for answer in store.append(batch())] == [Head, Fenced, Head]
    thread.join()


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_an_id_that_the_server_cannot_hold_is_refused_as_it_is_made(store: PostgresStore, name: str) -> None:
    with pytest.raises(MisuseError, match="cannot be the id"):
        store.create(name, 1, "", GENESIS)
    assert [type(one).__name__ for one in store.append([Append(name, 0, 1, events(1, 1))])] == [
        "SessionNotFound"
    ]


def test_a_title_with_nul_is_kept_without_it(store: PostgresStore) -> None:
    store.create("t", 5, "a\0b", GENESIS)
    assert store.sessions(EVERY_SESSION)[0].title == "a\N{REPLACEMENT CHARACTER}b"
