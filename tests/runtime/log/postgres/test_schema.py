"""The tables: migrations in order, once, by one process at a time; partitions by session numbers."""

import asyncio
from typing import Any

import pytest

from callboard.actors.protocol.errors import StoreReadOnly, StoreTooNew, StoreUnreadable
from callboard.runtime.log.postgres import schema as schemas
from callboard.runtime.log.postgres.schema import (
    MIGRATIONS,
    NEWEST,
    PARTITION_SESSIONS,
    SERVER_MIN,
    check_age,
    check_server,
    check_version,
    make_partition,
    migrate,
    partition_of,
    version,
)
from tests.postgres_server import execute, shared
from tests.runtime.log.kit import added, events, large, run
from tests.runtime.log.postgres.places import OnServer
from tests.tables import table


def test_many_processes_that_open_a_new_log_at_once_make_it_once() -> None:
    place = OnServer(shared().url("made_at_once"))

    async def work() -> None:
        logs = [place.log() for _ in range(4)]
        await asyncio.gather(*(log.open() for log in logs))
        await logs[0].create("s", 1, "")
        assert [len(await log.sessions()) for log in logs] == [1] * 4
        for log in logs:
            await log.close()

    execute("DROP SCHEMA IF EXISTS made_at_once CASCADE")
    run(work)
    execute("DROP SCHEMA made_at_once CASCADE")


def test_a_log_of_an_earlier_schema_gets_the_migrations_that_it_lacks(
    place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        log = place.log()
        await log.open()
        await log.close()

    run(work)
    place.is_changed = True
    later = (*MIGRATIONS, ("CREATE TABLE {s}.more(n int)", "INSERT INTO {s}.more VALUES (1)"))
    monkeypatch.setattr(schemas, "MIGRATIONS", later)
    monkeypatch.setattr(schemas, "NEWEST", len(later))
    monkeypatch.setattr("callboard.runtime.log.postgres.meta.NEWEST", len(later))
    for _ in range(2):
        run(work)
        assert execute(f"SELECT n FROM {place.schema}.more") == [(1,)]
    assert execute(f"SELECT value FROM {place.schema}.meta WHERE key = 'schema'") == [(str(len(later)),)]


def test_a_failed_migration_leaves_the_log_as_it_was(
    place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        log = place.log()
        await log.open()
        await log.close()

    run(work)
    place.is_changed = True
    later = (*MIGRATIONS, ("CREATE TABLE {s}.more(n int)", "SELECT 1 / 0"))
    monkeypatch.setattr(schemas, "MIGRATIONS", later)
    monkeypatch.setattr("callboard.runtime.log.postgres.meta.NEWEST", len(later))
    with pytest.raises(Exception, match="division by zero"):
        run(work)
    assert execute(f"SELECT to_regclass('{place.schema}.more')::text") == [(None,)]


def test_events_lie_in_the_partition_of_their_session_and_an_empty_one_is_dropped(
    place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas, "PARTITION_SESSIONS", 2)
    monkeypatch.setattr("callboard.runtime.log.postgres.deletion.PARTITION_SESSIONS", 2)
    place.is_changed = True

    def partitions() -> list[str]:
        query = (
            "SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid "
            f"WHERE i.inhparent = '{place.schema}.events'::regclass ORDER BY 1"
        )
        return [name for (name,) in execute(query)]

    async def work() -> None:
        execute(f"DROP SCHEMA IF EXISTS {place.schema} CASCADE")
        first, second = place.log(), place.log()
        await first.open()
        await second.open()
        for name in "abcdef":  # of the numbers 1 to 6
            await (first if name in "ace" else second).create(name, 1, "")
            await added(first, name, 1, [*events(1, 3), large(4)])
        assert partitions() == ["events_0", "events_1", "events_2", "events_3"]
        assert execute(f"SELECT count(*) FROM {place.schema}.events_1") == [(8,)]
        for name in "ce":
            await second.delete(name)
        while await first.purge():
            pass
        await first.vacuum(1)
        assert partitions() == ["events_0", "events_1", "events_2", "events_3"]
        await second.delete("b")
        assert await first.purge() is False
        await first.vacuum(1)
        assert partitions() == ["events_0", "events_2", "events_3"]
        assert len(await second.read("f")) == 4
        await first.close()
        await second.close()

    run(work)


def test_limits_and_sizes_change_only_on_purpose() -> None:
    assert SERVER_MIN == 130_000
    assert PARTITION_SESSIONS == 65_536


class Answers:
    """A server that answers statements by their first words, and notes them."""

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = answers
        self.said: list[str] = []

    def __call__(self, statement: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        self.said.append(statement)
        return next((rows for word, rows in self.answers.items() if word in statement), [])


GOOD = ("UTF8", False, "off", "read committed")


@table(
    ("row", "error", "said"),
    [
        (GOOD, None, ""),
        (("LATIN1", *GOOD[1:]), StoreUnreadable, "has the encoding LATIN1"),
        (("UTF8", True, *GOOD[2:]), StoreReadOnly, "is a read-only replica"),
        (("UTF8", False, "on", GOOD[3]), StoreReadOnly, "transactions of this role are read-only"),
        ((*GOOD[:3], "serializable"), StoreUnreadable, "are serializable, and callboard needs"),
    ],
)
def test_a_server_that_cannot_keep_a_log_is_refused_with_the_reason(
    row: tuple[object, ...], error: type[Exception] | None, said: str
) -> None:
    server = Answers(server_encoding=[row])
    if error is None:
        check_server(server, SERVER_MIN, "here")
        return
    with pytest.raises(error, match=f"^here.*{said}"):
        check_server(server, SERVER_MIN, "here")


def test_a_server_that_is_too_old_and_a_log_that_is_too_new_are_refused() -> None:
    check_age(130_000, "here")
    with pytest.raises(StoreUnreadable, match="here is PostgreSQL 12: callboard needs 13 or later"):
        check_age(129_999, "here")
    with pytest.raises(StoreUnreadable, match="PostgreSQL 9"):
        check_server(Answers(server_encoding=[GOOD]), 90_600, "here")
    check_version(NEWEST, "here")
    with pytest.raises(StoreTooNew, match=f"here has schema {NEWEST + 1}, .* up to {NEWEST}; use"):
        check_version(NEWEST + 1, "here")
    with pytest.raises(StoreTooNew):
        migrate(Answers(pg_class=[(1,)], value=[(str(NEWEST + 1),)]), "s", lambda: None, "here")


@table(
    ("rows", "found"), [([("3",)], 3), ([], None), ([("x",)], None)], ids=["a number", "nothing", "a text"]
)
def test_the_version_of_a_log_is_in_its_own_table_of_that_name(
    rows: list[tuple[object, ...]], found: int | None
) -> None:
    assert version(Answers(), "s") == 0, "there is no such table"
    if found is not None:
        assert version(Answers(pg_class=[(1,)], value=rows), "s") == found
        return
    with pytest.raises(StoreUnreadable, match="has a table `meta` that is not callboard's"):
        version(Answers(pg_class=[(1,)], value=rows), "s")


def test_a_schema_is_made_only_where_there_is_neither_a_log_nor_a_schema() -> None:
    made = []
    for answers in (
        Answers(),
        Answers(pg_namespace=[(1,)], value=[("1",)]),
        Answers(**{"WHERE nspname": [(1,)]}),
    ):
        begun: list[int] = []
        migrate(answers, "s", lambda begun=begun: begun.append(1), "here")  # type: ignore[misc]  # of this round
        made.append(('CREATE SCHEMA "s"' in answers.said, len(begun)))
    assert made == [(True, 1), (False, 0), (False, 1)]


def test_a_partition_has_the_events_of_65_536_sessions_and_is_made_once() -> None:
    assert [partition_of(number) for number in (0, 65_535, 65_536)] == [0, 0, 1]
    server, ready = Answers(), Answers(pg_class=[(1,)])
    make_partition(server, "s", 2)
    make_partition(ready, "s", 2)
    assert server.said[-2:] == [
        'CREATE TABLE "s".events_2 (LIKE "s".events INCLUDING ALL)',
        'ALTER TABLE "s".events ATTACH PARTITION "s".events_2 FOR VALUES FROM (131072) TO (196608)',
    ]
    assert len(ready.said) == 1, "it is there: nothing waits for the lock"
