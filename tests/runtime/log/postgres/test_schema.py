"""The tables: partitions by session numbers; servers that cannot keep a log."""

from typing import Any

import pytest

from callboard.actors.protocol.errors import StoreReadOnly, StoreUnreadable
from callboard.runtime.log.postgres import schema as schemas
from callboard.runtime.log.postgres.schema import (
    SERVER_MIN,
    check_age,
    check_server,
    make_partition,
    partition_of,
)
from tests.postgres_server import execute, shared
from tests.runtime.log.kit import added, events, large, run
from tests.runtime.log.postgres.places import OnServer
from tests.tables import table


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


class Answers:
    """A server that answers statements by their first words, and notes them."""

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = answers
        self.said: list[str] = []
        self.given: list[tuple[str, tuple[object, ...]]] = []

    def __call__(self, statement: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        self.said.append(statement)
        self.given.append((statement, parameters))
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


def test_a_server_that_is_too_old_is_refused() -> None:
    check_age(130_000, "here")
    with pytest.raises(StoreUnreadable, match="here is PostgreSQL 12: callboard needs 13 or later"):
        check_age(129_999, "here")
    with pytest.raises(StoreUnreadable, match="PostgreSQL 9"):
        check_server(Answers(server_encoding=[GOOD]), 90_600, "here")


def test_a_partition_has_the_events_of_65_536_sessions_and_is_made_once() -> None:
    assert [partition_of(number) for number in (0, 65_535, 65_536)] == [0, 0, 1]
    server, ready = Answers(), Answers(pg_class=[(1,)])
    make_partition(server, "s", 2)
    make_partition(ready, "s", 2)
    named = [(statement.split()[0], values) for statement, values in server.given]
    asked = ("SELECT", ("s", "events_2"))
    assert named == [asked, ("SELECT", ("callboard s events",)), asked, ("CREATE", ()), ("ALTER", ())]
    assert server.said[-2:] == [
        'CREATE TABLE "s".events_2 (LIKE "s".events INCLUDING ALL)',
        'ALTER TABLE "s".events ATTACH PARTITION "s".events_2 FOR VALUES FROM (131072) TO (196608)',
    ]
    assert len(ready.said) == 1, "it is there: nothing waits for the lock"


@table(
    "index, query",
    [
        ("sessions_by_age", "SELECT 1 FROM {s}.sessions ORDER BY created_ms DESC, id DESC LIMIT 1"),
        ("sessions_unfinished", "SELECT id FROM {s}.sessions WHERE status = 'unfinished'"),
        ("sessions_by_parent", "SELECT 1 FROM {s}.sessions WHERE parent = 'p' AND parent <> ''"),
        ("tags_by_session", "DELETE FROM {s}.tags WHERE session = 1"),
        ("reservations_by_session", "SELECT 1 FROM {s}.reservations WHERE session = 's' AND epoch < 2"),
        ("reserved_by_scope", "SELECT 1 FROM {s}.reserved WHERE scope = 'a' AND period = 'b'"),
        ("leases_by_worker", "UPDATE {s}.leases SET worker = NULL WHERE worker = 1"),
        ("commands_waiting", "SELECT 1 FROM {s}.commands WHERE session = 's' AND seq = 0 AND answer = ''"),
        ("followed_by_session", "SELECT 1 FROM {s}.followed WHERE session = 's'"),
        ("followed_by_follower", "DELETE FROM {s}.followed WHERE follower = 1"),
    ],
)
def test_what_is_asked_often_is_found_without_reading_a_whole_table(
    place: OnServer, index: str, query: str
) -> None:
    if execute(f"SELECT to_regclass('{place.schema}.meta')::text") == [(None,)]:
        run(place.log().open)
    with shared().connection() as connection:
        connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
        plan = connection.execute(f"EXPLAIN {query.replace('{s}', place.schema)}").fetchall()
    assert f"using {index} " in str(plan)
