"""Shares of capacity on the command line: the option of workers, and the list of `cluster status`."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from callboard.actors.cluster.shares import Renewal
from callboard.actors.session.capacity import Capacity
from callboard.cli.amounts import parse_capacity
from callboard.cli.cluster_shares import place_row
from callboard.cli.errors import Failure
from callboard.cli.main import cli
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.places import PlacesRow, Report
from tests.runtime.log.postgres.places import on_server
from tests.tables import table


def test_the_places_of_a_lost_worker_say_when_they_are_free() -> None:
    row = PlacesRow("m", 7, "", 2, 1, 3, 4, -500, 60_000)
    assert place_row(row) == ("m", "", "number 7", "2/4", "1", "3", "in 59.5 s")
    alive = row._replace(name="w", limit=None, left_ms=1, tag="tenant:a")
    assert place_row(alive) == ("m", "tenant:a", "w", "no limit", "1", "3", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("m=8", Capacity(8)), ("m=8,400k", Capacity(8, 400_000)), ("m=, 2m", Capacity(None, 2_000_000))],
)
def test_a_capacity_is_parsed(text: str, expected: Capacity) -> None:
    assert parse_capacity([text]) == {"m": expected}


@table("text", ["8", "=8", "m=", "m=,", "m=1,2,3", "m=x", "m=0", "m=8.5", "m=-1"])
def test_a_capacity_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(Failure, match="--capacity"):
        parse_capacity([text])


def test_a_model_has_one_capacity() -> None:
    with pytest.raises(Failure, match="already"):
        parse_capacity(["m=1", "m=2"])


def test_status_lists_shares() -> None:
    async def report(url: str) -> None:
        async with Leases(url) as leases:
            number = await leases.change(lambda one: one.register("w", ["host"], 5, 60_000))
            renewal = Renewal(number, 1, 0, 0, 3, 0)
            await leases.share(lambda one: one.report("m", [Report(renewal)], Capacity(2), 1_000))

    with on_server() as place:
        asyncio.run(report(place.url))
        found = CliRunner().invoke(cli, ["cluster", "status", "--json", "--log", place.url])
        assert json.loads(found.stdout)["shares"] == [
            {
                "model": "m",
                "tag": "",
                "worker": "w",
                "places": "2/2",
                "in flight": "0",
                "waiting": "3",
                "free": "",
            }
        ]
        shown = CliRunner().invoke(cli, ["cluster", "status", "--log", place.url])
        assert "2/2" in shown.stdout
