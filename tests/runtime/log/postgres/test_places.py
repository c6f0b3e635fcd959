"""The home of capacity in the tables of a log: reports, leases that were renewed since, and late ones."""

import asyncio
from collections.abc import Callable

import pytest

from callboard.actors.cluster.model_home import Grant
from callboard.actors.cluster.shares import Holding, Renewal
from callboard.actors.protocol.errors import StoreLocked
from callboard.actors.session.capacity import Capacity
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.link import Row
from callboard.runtime.log.postgres.places import (
    PlaceTables,
    Report,
    _holding,
)
from tests.postgres_server import execute
from tests.runtime.log.postgres.places import OnServer, on_server

FOUR = Capacity(4, 600)


def report(worker: int, number: int, share: int, in_flight: int, waiting: int, lacks: int = 0) -> Renewal:
    return Renewal(worker, number, share, in_flight, waiting, 0, 1, lacks)


def said(tables: PlaceTables, renewal: Renewal, unused: int, limits: Capacity, timeout_ms: int) -> Grant:
    """Report for one tag."""
    (grant,) = tables.report("m", [Report(renewal, unused)], limits, timeout_ms)
    return grant


def on_places(place: OnServer, work: Callable[[PlaceTables, list[int]], None]) -> None:
    """Run a function on the capacity of a log with two workers."""

    async def run() -> None:
        async with Leases(place.url, encryption_key=place._encryption_key) as leases:
            workers = [
                await leases.change(lambda one, name=name: one.register(name, ["host"], 5, 60_000))  # type: ignore[misc]  # a lambda's default
                for name in ("one", "two")
            ]
            await leases.share(lambda one: work(one, workers))

    asyncio.run(run())


def test_reports_are_answered_by_the_rules_and_kept_between_connections(place: OnServer) -> None:
    known: list[int] = []

    def first(tables: PlaceTables, workers: list[int]) -> None:
        known.extend(workers)
        assert said(tables, report(known[0], 1, 0, 0, 9, 100), 0, FOUR, 1_000) == Grant(4, 100)

    def second(tables: PlaceTables, workers: list[int]) -> None:
        one, two = known
        found = said(tables, report(two, 1, 0, 0, 9, 9_999), 0, FOUR, 1_000)
        assert (found.share, found.is_call_by_call) == (0, False)
        assert 400 <= found.tokens <= 450  # the first lacks a hundred; and some have flowed in
        assert [(row.worker, row.held, row.limit) for row in tables.places()] == [(one, 4, 4), (two, 0, 4)]
        tables.leave("m", one)
        assert said(tables, report(two, 2, 0, 0, 9), 0, Capacity(3), 1_000).share == 3

    on_places(place, first)
    on_places(place, second)


def test_a_lease_that_was_renewed_or_has_ended_since_the_report_counts_as_it_is(place: OnServer) -> None:
    def work(tables: PlaceTables, workers: list[int]) -> None:
        one, two = workers
        assert said(tables, report(one, 1, 0, 0, 9), 0, FOUR, 0).share == 4
        execute(f"UPDATE {place.schema}.places SET ends_ms = 0")  # long ago; but its lease goes on
        assert said(tables, report(two, 1, 0, 0, 9), 0, FOUR, 0).share == 0
        execute(f"UPDATE {place.schema}.workers SET ends_ms = 0 WHERE id = {one}")
        assert said(tables, report(one, 2, 4, 4, 9), 0, FOUR, 0) == Grant()
        assert said(tables, report(two, 2, 0, 0, 9), 0, FOUR, 0).share == 4
        assert [row.worker for row in tables.places()] == [two]

    on_places(place, work)


def test_a_report_behind_a_faster_one_reads_again(place: OnServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(tables: PlaceTables, workers: list[int]) -> None:
        one, two = workers
        run, faster = tables._run, [True]

        def interrupted(statement: str, values: object = ()) -> list[Row]:
            if statement.startswith("WITH moved") and faster.pop():
                tables._run = run  # type: ignore[method-assign]  # the other worker is not interrupted
                assert said(tables, report(two, 1, 0, 0, 3), 0, FOUR, 0).share == 3
            return run(statement, values)  # type: ignore[arg-type]  # as they were given

        monkeypatch.setattr(tables, "_run", interrupted)
        assert said(tables, report(one, 1, 0, 0, 9), 0, FOUR, 0).share == 1
        monkeypatch.setattr(tables, "_run", lambda s, v=(): [] if s.startswith("WITH moved") else run(s, v))
        with pytest.raises(StoreLocked, match="capacity of m is in use"):
            said(tables, report(one, 2, 1, 1, 9), 0, FOUR, 0)

    on_places(place, work)


def test_the_strictest_limit_and_the_longest_timeout_of_all_workers_count(place: OnServer) -> None:
    def work(tables: PlaceTables, workers: list[int]) -> None:
        one, two = workers
        assert said(tables, report(one, 1, 0, 0, 1), 0, Capacity(4, 600), 60_000).share == 1
        assert said(tables, report(two, 1, 0, 0, 9), 0, Capacity(9, 9_000), 0).share == 3
        lost = tables._run("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 5000")[0][0]
        execute(f"UPDATE {place.schema}.workers SET ends_ms = {lost} WHERE id = {one}")
        execute(f"UPDATE {place.schema}.places SET ends_ms = {lost} WHERE worker = {one}")
        assert said(tables, report(two, 2, 3, 0, 9), 0, Capacity(9, 9_000), 0).share == 3, "it may still call"
        execute(f"UPDATE {place.schema}.places SET timeout_ms = 4000")
        assert said(tables, report(two, 3, 3, 0, 9), 0, Capacity(9, 9_000), 0).share == 4, "no more"

    on_places(place, work)


def test_a_worker_without_a_lease_gets_nothing_and_writes_only_the_end_of_others(place: OnServer) -> None:
    def version() -> object:
        return execute(f"SELECT version FROM {place.schema}.capacity")

    def work(tables: PlaceTables, workers: list[int]) -> None:
        one, unknown = workers[0], 99
        assert said(tables, report(one, 1, 0, 0, 9), 0, FOUR, 0).share == 4
        before = version()
        assert said(tables, report(unknown, 1, 0, 0, 9), 0, FOUR, 0) == Grant()
        assert version() == before
        for name in ("workers", "places"):
            execute(f"UPDATE {place.schema}.{name} SET ends_ms = 1")
        assert said(tables, report(unknown, 2, 0, 0, 9), 0, FOUR, 0) == Grant()
        assert tables.places() == []

    on_places(place, work)


def test_places_of_tags_are_kept_and_freed_for_each_and_the_log_has_no_tag_in_words() -> None:
    def work(tables: PlaceTables, workers: list[int]) -> None:
        one, tags = workers[0], ("", "of:a", "of:b")
        for number in (1, 2):
            asked = [
                Report(Renewal(one, number, number - 1, 0, 1, 0, 1, 0, tag=tag)) for tag in tags[: number + 1]
            ]
            grants = tables.report("m", asked, FOUR, 0)
            assert [grant.share for grant in grants] == [1] * (number + 1)
        kept = ["", *sorted(map(tables._tables.stored_tag, tags[1:]))]
        assert [row.tag for row in tables.places()] == kept
        assert not any("of:" in tag for tag in kept)
        tables.leave("m", one, ["of:a", "of:b"])
        assert [row.tag for row in tables.places()] == [""]
        tables.leave("m", one)
        assert tables.places() == []

    with on_server(b"k" * 32) as place:
        on_places(place, work)


def test_a_row_is_read_as_the_holding_that_was_written() -> None:
    row = (1, 2, 3, 4, 5, 6, 7, 8, "t", 9, 10, 11, 12, None, None, 0)
    assert _holding(row) == Holding(Renewal(1, 2, 3, 4, 5, 6, 7, 8, "t"), 9, 10, 11, 12)
