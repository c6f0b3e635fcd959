"""Migrations: in order, once, by one process at a time, and beside workers of an earlier release."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from callboard.actors.protocol.errors import StoreLocked, StoreTooNew, StoreUnreadable
from callboard.runtime.log.postgres import migrating
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.leases import LeaseTables
from callboard.runtime.log.postgres.migrating import Version, check_version, migrate, version
from callboard.runtime.log.postgres.schema import MIGRATIONS, Migration
from tests.postgres_server import execute, shared
from tests.runtime.log.kit import run
from tests.runtime.log.postgres.places import OnServer
from tests.runtime.log.postgres.test_schema import Answers
from tests.tables import table

OWN, SINCE = len(MIGRATIONS), MIGRATIONS[-1].since


def open_once(place: OnServer) -> None:
    async def work() -> None:
        log = place.log()
        await log.open()
        await log.close()

    run(work)


def newer(monkeypatch: pytest.MonkeyPatch, *statements: str, since: int) -> None:
    """Be a callboard with one more migration."""
    monkeypatch.setattr(migrating, "MIGRATIONS", (*MIGRATIONS, Migration(statements, since)))


def meta(place: OnServer) -> dict[str, str]:
    rows = execute(f"SELECT key, value FROM {place.schema}.meta WHERE key IN ('schema', 'since')")
    return dict(rows)


def change(place: OnServer, work: Callable[[LeaseTables], Any]) -> Any:
    async def scene() -> Any:
        async with Leases(place.url) as leases:
            return await leases.change(work)

    return asyncio.run(scene())


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
    open_once(place)
    place.is_changed = True
    newer(monkeypatch, "CREATE TABLE {s}.more(n int)", "INSERT INTO {s}.more VALUES (1)", since=SINCE)
    for _ in range(2):
        open_once(place)
        assert execute(f"SELECT n FROM {place.schema}.more") == [(1,)]
    assert meta(place) == {"schema": str(OWN + 1), "since": str(SINCE)}


def test_a_failed_migration_leaves_the_log_as_it_was(
    place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_once(place)
    place.is_changed = True
    newer(monkeypatch, "CREATE TABLE {s}.more(n int)", "SELECT 1 / 0", since=SINCE)
    with pytest.raises(Exception, match="division by zero"):
        open_once(place)
    assert execute(f"SELECT to_regclass('{place.schema}.more')::text") == [(None,)]


def test_an_earlier_callboard_uses_tables_to_which_a_migration_only_adds(
    place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_once(place)
    place.is_changed = True
    old = change(place, lambda one: one.register("old", ["host"], 1, 60_000))
    with monkeypatch.context() as patched:
        newer(patched, "ALTER TABLE {s}.leases ADD COLUMN more text NOT NULL DEFAULT ''", since=SINCE)
        open_once(place)
        new = change(place, lambda one: one.register("new", ["host"], 1, 60_000))
    assert change(place, lambda one: one.renew(old, 0, is_draining=False))
    later = change(place, lambda one: one.register("later", ["host"], 1, 60_000))
    open_once(place)
    place.reader().close()
    rows = execute(f"SELECT id, schema FROM {place.schema}.workers ORDER BY id")
    assert rows == [(old, OWN), (new, OWN + 1), (later, OWN)]
    assert meta(place) == {"schema": str(OWN + 1), "since": str(SINCE)}


def test_a_migration_that_earlier_workers_cannot_use_waits_until_none_runs(
    place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_once(place)
    place.is_changed = True
    old = change(place, lambda one: one.register("old", ["host"], 1, 60_000))
    with monkeypatch.context() as patched:
        newer(patched, "ALTER TABLE {s}.leases RENAME COLUMN why TO reason", since=OWN + 1)
        with pytest.raises(StoreLocked, match="some run: old; stop them with SIGTERM"):
            open_once(place)
        assert meta(place) == {"schema": str(OWN), "since": str(SINCE)}
        execute(f"ALTER TABLE {place.schema}.workers DROP COLUMN schema")
        with pytest.raises(StoreLocked):  # as before the fifth migration
            open_once(place)
        execute(f"ALTER TABLE {place.schema}.workers ADD COLUMN schema bigint NOT NULL DEFAULT 4")
        execute(f"UPDATE {place.schema}.workers SET ends_ms = 0 WHERE id = {old}")
        open_once(place)
        assert meta(place) == {"schema": str(OWN + 1), "since": str(OWN + 1)}
    with pytest.raises(StoreTooNew, match=f"needs a callboard that knows schema {OWN + 1}"):
        open_once(place)
    with pytest.raises(StoreTooNew):
        place.reader()


def test_a_worker_that_lost_its_lease_before_such_a_migration_does_not_come_back(
    place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_once(place)
    place.is_changed = True

    async def scene() -> None:
        async with Leases(place.url) as leases:
            await leases.change(lambda one: one.register("old", ["host"], 1, 60_000))
            execute(f"UPDATE {place.schema}.workers SET ends_ms = 0")
            with monkeypatch.context() as patched:
                newer(patched, since=OWN + 1)
                async with Leases(place.url):
                    pass
            with pytest.raises(StoreTooNew):
                await leases.change(lambda one: one.register("old", ["host"], 1, 60_000))

    asyncio.run(scene())


def test_no_migration_overlooks_a_worker_that_registers_meanwhile(
    place: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_once(place)
    place.is_changed = True

    async def scene() -> None:
        registered, may_end = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def register(tables: LeaseTables) -> None:
            tables.register("old", ["host"], 1, 60_000)
            loop.call_soon_threadsafe(registered.set)
            asyncio.run_coroutine_threadsafe(may_end.wait(), loop).result()

        async with Leases(place.url) as leases:
            registering = asyncio.create_task(leases.change(register))
            await registered.wait()
            newer(monkeypatch, since=OWN + 1)
            migrating_ = asyncio.create_task(Leases(place.url).__aenter__())
            query = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            while not execute(query):  # noqa: ASYNC110  # the server tells no one
                await asyncio.sleep(0.01)
            may_end.set()
            await registering
            with pytest.raises(StoreLocked, match="some run: old"):
                await migrating_

    asyncio.run(scene())


def test_a_log_that_only_a_newer_callboard_can_use_is_refused() -> None:
    check_version(Version(OWN + 1, OWN), "here")
    with pytest.raises(StoreTooNew, match=f"here has schema {OWN + 2}, .* up to {OWN}; use"):
        check_version(Version(OWN + 2, OWN + 1), "here")
    with pytest.raises(StoreTooNew):
        migrate(Answers(pg_class=[(1,)], value=[("schema", str(OWN + 1))]), "s", lambda: None, "here")


@table(
    ("rows", "found"),
    [
        ([("schema", "3")], Version(3, 3)),
        ([("schema", "3"), ("since", "2")], Version(3, 2)),
        ([], None),
        ([("schema", "x")], None),
    ],
)
def test_the_version_of_a_log_is_in_its_own_table_of_that_name(
    rows: list[tuple[object, ...]], found: Version | None
) -> None:
    assert version(Answers(), "s") == Version(0, 0), "there is no such table"
    if found is not None:
        assert version(Answers(pg_class=[(1,)], value=rows), "s") == found
        return
    with pytest.raises(StoreUnreadable, match="has a table `meta` that is not callboard's"):
        version(Answers(pg_class=[(1,)], value=rows), "s")


def test_a_schema_is_made_only_where_there_is_neither_a_log_nor_a_schema() -> None:
    made = []
    of_schema = Answers()
    of_schema.answers["WHERE nspname"] = [(1,)]
    for answers in (
        Answers(),
        Answers(pg_namespace=[(1,)], value=[("schema", "1")]),
        of_schema,
    ):
        begun: list[int] = []
        migrate(answers, "s", partial(begun.append, 1), "here")
        made.append(('CREATE SCHEMA "s"' in answers.said, len(begun)))
    assert made == [(True, 1), (False, 0), (False, 1)]
