"""The removal of sessions: large values go with the last session that has them, also in a race."""

import threading
from collections.abc import Iterator
from time import sleep

import pytest

from callboard.runtime.log.postgres import deletion, schema
from callboard.runtime.log.postgres.deletion import vacuum
from callboard.runtime.log.postgres.store import PostgresStore
from callboard.runtime.log.protocol import GENESIS, Append
from tests.postgres_server import execute, shared
from tests.runtime.log.kit import added, events, large, run, same
from tests.runtime.log.postgres.places import OnServer, store_of


@pytest.fixture
def store(place: OnServer) -> Iterator[PostgresStore]:
    made = store_of(place)
    yield made
    made.link.close()


def counts(place: OnServer) -> list[int]:
    """Return the numbers of events, large values, uses and pending removals."""
    tables = ("events", "blobs", "uses", "removals")
    return [execute(f"SELECT count(*) FROM {place.schema}.{name}")[0][0] for name in tables]


def test_a_removal_in_steps_leaves_nothing_of_its_session_and_all_of_the_others(
    place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "EVENTS_MAX", 3)

    async def work() -> None:
        log = place.log()
        await log.open()
        for name in "ab":
            await log.create(name, 1, "")
            await added(log, name, 1, [*events(1, 5), large(6), large(7, 4_000, name), *events(8, 9)])
        assert counts(place) == [18, 3, 4, 0]
        await log.delete("a")
        assert counts(place) == [18, 3, 4, 1]
        steps = [await log.purge() for _ in range(4)]
        assert steps == [True, True, True, False]
        assert counts(place) == [9, 2, 2, 0]
        await log.close()

    run(work)


def test_a_hidden_session_keeps_what_its_forks_share_and_goes_with_the_last_of_them(
    place: OnServer, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "EVENTS_MAX", 2)
    given = [*events(1, 3), large(4), large(5, 4_000, "y"), *events(6, 7), large(8), large(9, 4_000, "z")]
    store.create("s", 1, "title", GENESIS)
    store.append([Append("s", 0, 1, given)])
    for name, base in (("f", 6), ("g", 4)):
        store.fork(name, 1, "", "s", base, [])
    store.append([Append("g", 4, 1, events(5, 6))])
    store.fork("h", 1, "", "g", 5, [])
    execute(f"INSERT INTO {place.schema}.tags SELECT 'red', id FROM {place.schema}.sessions")

    def emptied() -> list[int]:
        """Purge. Return the events that are left after each step."""
        left = []
        while store.purge():
            left.append(counts(place)[0])
        return left

    assert not store.purge(), "nothing is deleted yet"
    assert store.delete("s", keep_forks=True) == 3
    hidden = f"SELECT status, title, head, session_id FROM {place.schema}.sessions WHERE status = 'hidden'"
    assert execute(hidden) == [("hidden", "", 6, "s")]
    assert execute(f"SELECT count(*) FROM {place.schema}.tags") == [(3,)], "those of the others"
    assert emptied() == [9]
    assert counts(place) == [8, 2, 2, 0], "a value that an earlier, shared event has stays"
    assert same(store.read("f", 1, 99), given[:6])
    assert store.head("f") == store.tables.entry("s", hidden=True).head
    assert store.delete("f", keep_forks=False) == 2, "the events that it alone has shared"
    assert store.delete("g", keep_forks=True) == 1
    assert emptied() == [6, 6, 6], "of the hidden one two, then none; of the first fork none"
    assert counts(place) == [5, 1, 1, 0]
    assert same(store.read("h", 1, 99), [*given[:4], *events(5, 5)])
    assert store.delete("h", keep_forks=False) == 1 + 4
    assert emptied() == [3, 1, 1, 0]
    assert counts(place) == [0, 0, 0, 0]
    assert execute(f"SELECT count(*) FROM {place.schema}.sessions") == [(0,)]


def test_a_value_that_an_append_uses_during_the_step_stays(place: OnServer, store: PostgresStore) -> None:
    """Commit the new use while the step waits for the lock of the value."""
    for name in "ab":
        store.create(name, 1, "", GENESIS)
    store.append([Append("a", 0, 1, [large(1, 4_000), large(2, 4_000, "y")])])
    store.delete("a", keep_forks=False)
    blob = f"SELECT digest FROM {place.schema}.blobs ORDER BY digest LIMIT 1"
    with shared().connection() as other:
        other.execute("BEGIN")
        other.execute(f"SELECT 1 FROM {place.schema}.blobs WHERE digest = ({blob}) FOR KEY SHARE")
        other.execute(f"INSERT INTO {place.schema}.uses SELECT ({blob}), 99")
        step = threading.Thread(target=store.purge)
        step.start()
        while not execute("SELECT 1 FROM pg_locks WHERE NOT granted"):
            sleep(0.005)
        other.execute("COMMIT")
        step.join()
    assert counts(place) == [0, 1, 1, 0]


def test_a_value_that_is_gone_is_sent_again(place: OnServer) -> None:
    posted = [large(1, 4_000)]

    async def work() -> None:
        log = place.log()
        await log.open()
        await log.create("b", 1, "")
        log._held.memory.blobs.update({b"x" * 32})  # type: ignore[union-attr]  # it is open
        await added(log, "b", 1, posted)
        execute(f"DELETE FROM {place.schema}.uses; DELETE FROM {place.schema}.blobs")
        await added(log, "b", 1, [large(2, 4_000)])
        assert counts(place) == [2, 1, 1, 0]
        await log.close()

    run(work)


def test_a_full_vacuum_rewrites_every_table_that_changes_and_another_one_none(
    place: OnServer, store: PostgresStore
) -> None:
    def files() -> dict[str, int]:
        query = "SELECT relname, relfilenode FROM pg_class WHERE relkind = 'r' AND relnamespace = "
        return dict(execute(f"{query}'{place.schema}'::regnamespace"))

    store.create("s", 1, "", GENESIS)
    before = files()
    vacuum(store.link, is_full=False)
    assert files() == before
    vacuum(store.link, is_full=True)
    assert [name for name, file in files().items() if file == before[name]] == ["meta"]


def test_a_partition_is_dropped_once_its_sessions_are_removed_and_no_new_one_can_be_in_it(
    place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (deletion, schema):
        monkeypatch.setattr(module, "PARTITION_SESSIONS", 2)

    def partitions() -> str:
        query = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'events\\_%' AND "
        found = execute(f"{query}relnamespace = '{place.schema}'::regnamespace ORDER BY relname")
        return "".join(name.removeprefix("events_") for (name,) in found)

    place.is_changed = True  # its partitions are not those of other tests
    execute(f"DROP SCHEMA IF EXISTS {place.schema} CASCADE")
    store, left = store_of(place), {}
    for name in "abcdefgh":  # their numbers are 1 to 8
        store.create(name, 1, "", GENESIS)
        store.append([Append(name, 0, 1, events(1, 1))])
    for deleted, purges in (("a", 1), ("ce", 2), ("bd", 1), ("f", 1), ("h", 1), ("g", 2)):
        for name in deleted:
            store.delete(name, keep_forks=False)
        for _ in range(purges):
            store.purge()
        vacuum(store.link, is_full=False)
        left[deleted] = partitions()
    store.link.close()
    assert left == {"a": "1234", "ce": "1234", "bd": "234", "f": "34", "h": "34", "g": "34"}
