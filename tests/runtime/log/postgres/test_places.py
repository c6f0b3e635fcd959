"""The home of capacity in the tables of a log: reports, leases that were renewed since, and late ones."""

import asyncio
from collections.abc import Callable

import pytest

from callboard.actors.cluster.model_home import Grant
from callboard.actors.cluster.shares import Renewal
from callboard.actors.protocol.errors import StoreLocked
from callboard.actors.session.capacity import Capacity
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.link import Row
from callboard.runtime.log.postgres.places import (
    PlaceTables,
    Report,
)
from tests.postgres_server import execute
from tests.runtime.log.postgres.places import OnServer

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
        async with Leases(place.url) as leases:
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
