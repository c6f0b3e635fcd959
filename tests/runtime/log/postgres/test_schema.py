"""The tables: partitions by session numbers."""

import pytest

from callboard.runtime.log.postgres import schema as schemas
from callboard.runtime.log.postgres.schema import (
    PARTITION_SESSIONS,
    SERVER_MIN,
)
from tests.postgres_server import execute
from tests.runtime.log.kit import added, events, large, run
from tests.runtime.log.postgres.places import OnServer


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
