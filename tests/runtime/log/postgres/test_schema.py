"""The tables: migrations in order, once, by one process at a time; partitions by session numbers."""

import asyncio

import pytest

from callboard.runtime.log.postgres import schema as schemas
from callboard.runtime.log.postgres.schema import (
    MIGRATIONS,
    PARTITION_SESSIONS,
    SERVER_MIN,
)
from tests.postgres_server import execute, shared
from tests.runtime.log.kit import added, events, large, run
from tests.runtime.log.postgres.places import OnServer


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
