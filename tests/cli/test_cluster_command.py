"""`callboard cluster status` on the command line."""

import asyncio
import json
from collections.abc import Callable
from unittest.mock import ANY

import pytest
from click.testing import CliRunner

from callboard.actors.cluster.shares import Renewal
from callboard.actors.session.capacity import Capacity
from callboard.cli.cluster_command import place_row
from callboard.cli.errors import Failure
from callboard.cli.main import cli
from callboard.cli.options import parse_capacity
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.followers import FollowerTables
from callboard.runtime.log.postgres.leases import LeaseTables
from callboard.runtime.log.postgres.places import PlacesRow, Report
from tests.postgres_server import execute
from tests.runtime.log.postgres.places import on_server
from tests.tables import table


def test_status_lists_what_was_submitted_and_what_it_waits_for() -> None:
    with on_server() as place:
        for _ in range(2):  # the client got no answer and repeats itself
            done = CliRunner().invoke(cli, ["submit", "host", "hi", "--session", "s", "--log", place.url])
            assert (done.exit_code, done.stdout) == (0, "s\n")
        found = CliRunner().invoke(cli, ["cluster", "status", "--json", "--log", place.url])
        assert json.loads(found.stdout) == {
            "workers": [],
            "waiting": [{"session": "s", "for": "a worker with the agent 'host'", "refusal": ""}],
            "backlog": {"sessions": 1, "oldest_ms": ANY},
            "shares": [],
            "replicas": [],
            "followers": [],
            "warnings": [ANY, ANY, ANY],  # the tests' server keeps no promise about a loss of power
        }
        assert json.loads(found.stdout)["backlog"]["oldest_ms"] >= 0
        shown = CliRunner().invoke(cli, ["cluster", "status", "--log", place.url])
        assert "no worker is registered" in shown.stderr
        assert "a worker with the agent 'host'" in shown.stdout
        assert "1 session without a worker, the oldest since " in shown.stderr
        assert "warning: synchronous_commit is off: " in shown.stderr


def test_a_submitted_session_that_no_worker_can_run_is_withdrawn() -> None:
    with on_server() as place:
        log = ["--log", place.url]
        done = CliRunner().invoke(cli, ["submit", "hots", "hi", "--session", "s", *log])
        assert "no worker has an agent 'hots' now; the session waits for one" in done.stderr
        gone = CliRunner().invoke(cli, ["delete", "s", "--yes", *log])
        assert (gone.exit_code, gone.stderr) == (0, "session s withdrawn\n")
        assert (
            json.loads(CliRunner().invoke(cli, ["cluster", "status", "--json", *log]).stdout)["waiting"] == []
        )
        again = CliRunner().invoke(cli, ["delete", "s", "--yes", *log])
        assert again.exit_code == 3
        for words in (["cancel", "s"], ["tell", "s", "host", "hi"]):
            said = CliRunner().invoke(cli, [*words, *log])
            assert said.exit_code == 3
            assert "no worker and no program runs session s, so " in said.stderr


async def changed(url: str, work: Callable[[LeaseTables], None]) -> None:
    async with Leases(url) as leases:
        await leases.change(work)


def test_status_says_in_full_why_a_worker_refuses_a_session() -> None:
    why = "InvalidAgent: " + "a long reason " * 20
    with on_server() as place:
        assert (
            CliRunner().invoke(cli, ["submit", "host", "hi", "--session", "s", "--log", place.url]).exit_code
            == 0
        )

        def refuse(tables: LeaseTables) -> None:
            worker = tables.register("w", ["host"], 1, 10_000)
            assert [one.session for one in tables.claim(worker, 1)] == ["s"]
            tables.refuse(worker, "s", why)

        asyncio.run(changed(place.url, refuse))
        shown = CliRunner().invoke(cli, ["cluster", "status", "--log", place.url])
        assert f"a worker cannot run s: {why.strip()}" in shown.stderr


def test_status_lists_the_clients_that_follow_sessions_and_a_queue_that_fills_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with on_server() as place:
        assert CliRunner().invoke(cli, ["submit", "host", "hi", "--log", place.url]).exit_code == 0
        execute(
            f"INSERT INTO {place.schema}.followers(name, ends_ms) "
            "VALUES ('web:7', 4000000000000000), ('gone', 0); "
            f"INSERT INTO {place.schema}.followed(follower, session, wish) "
            f"SELECT id, 's' || n, n - 1 FROM {place.schema}.followers, generate_series(1, 2) AS g(n)"
        )
        monkeypatch.setattr(FollowerTables, "queue_usage", lambda self: 0.25)
        found = json.loads(
            CliRunner().invoke(cli, ["cluster", "status", "--json", "--log", place.url]).stdout
        )
        assert found["followers"] == [{"client": "web:7", "follows": "2", "with text": "1", "lease": ANY}]
        assert "queue of notifications is 25% full" in found["warnings"][-1]
        shown = CliRunner().invoke(cli, ["cluster", "status", "--log", place.url])
        assert "web:7" in shown.stdout
        assert "gone" not in shown.stdout
        assert "pg_terminate_backend" in shown.stderr


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
