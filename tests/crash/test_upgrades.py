"""Deploys over a new migration, with real processes: workers of both releases, and back again."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from callboard.cli.worker_command import leases_of
from callboard.runtime.log.postgres.schema import MIGRATIONS
from tests.crash.workers import ROOT, left, verdict
from tests.postgres_server import Server, started

OWN, SINCE = len(MIGRATIONS), MIGRATIONS[-1].since
CALLS = 6


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with started(Path("/tmp")) as server:  # a socket's name has at most 107 bytes
        yield server


class Deploy:
    """Workers of two releases on one log, which starts empty."""

    def __init__(self, server: Server, folder: Path) -> None:
        with server.connection() as connection:
            connection.execute("DROP SCHEMA IF EXISTS callboard CASCADE")
        self.server, self.folder, self.url = server, folder, server.url()
        self.deeds = folder / "deeds"
        self.submitted = 0

    def start(self, since: int = 0) -> "subprocess.Popen[str]":
        """Start a worker. since: of the migration that it has more; 0 for the earlier release."""
        module = "tests.crash.newer_worker" if since else "callboard"
        command = [sys.executable, "-m", module, "worker", "tests.crash.cluster_agents:host"]
        environment = {
            **os.environ,
            "CLUSTER_CALLS": str(CALLS),
            "CLUSTER_PAUSE_S": "0.05",
            "CLUSTER_DEEDS": str(self.deeds),
            "NEWER_SINCE": str(since),
        }
        return subprocess.Popen(
            [*command, "--log", self.url, "--slots", "4"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def submit(self, count: int) -> None:
        """Submit more sessions, as a client of the earlier release does."""

        async def work() -> None:
            async with leases_of(self.url) as leases:
                for at in range(self.submitted, self.submitted + count):
                    name = f"s{at}"
                    await leases.change(lambda one, name=name: one.submit(name, "host", name, "do it"))  # type: ignore[misc]  # a lambda's default

        asyncio.run(work())
        self.submitted += count

    def number(self) -> int:
        """Return the number of the last migration."""
        with self.server.connection() as connection:
            query = "SELECT value::int FROM callboard.meta WHERE key = 'schema'"
            return int(connection.execute(query).fetchone()[0])

    def workers(self) -> int:
        """Return the number of workers of the earlier release."""
        with self.server.connection() as connection:
            query = "SELECT count(*) FROM callboard.workers WHERE schema = %s"
            return int(connection.execute(query, (OWN,)).fetchone()[0])

    def effects(self) -> int:
        """Return the effects up to now."""
        return len(self.deeds.read_text().splitlines()) if self.deeds.exists() else 0

    def check(self) -> None:
        """Check that all sessions have ended, and that no effect has happened twice or got lost.

        A call that was cut off as its worker stopped may have had no effect yet: its agent is told.
        """
        found = verdict(self.url, self.deeds, self.submitted)
        assert (found.ended, found.twice) == (self.submitted, 0)
        assert found.effects <= self.submitted * CALLS <= found.effects + found.unknown


def until(is_so: Callable[[], bool]) -> None:
    """Wait for it. The limit of the test ends a wait in vain."""
    while not is_so():
        time.sleep(0.02)


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Stop a worker politely, if it runs. Return its exit code and its output."""
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    return process.returncode, said


@pytest.mark.slow
def test_workers_of_two_releases_run_beside_each_other_over_a_migration_that_adds(
    server: Server, tmp_path: Path
) -> None:
    deploy = Deploy(server, tmp_path)
    deploy.submit(6)
    old = deploy.start()
    until(lambda: deploy.effects() > 2)
    new = deploy.start(since=SINCE)
    until(lambda: deploy.number() == OWN + 1)
    again = deploy.start()  # as an old pod that is moved to another machine in the middle of the deploy
    until(lambda: deploy.workers() == 2)
    deploy.submit(6)
    until(lambda: deploy.effects() > 6 * CALLS)
    assert ended(old)[0] == 0
    assert ended(again)[0] == 0
    until(lambda: not left(server))
    assert ended(new)[0] == 0
    back = deploy.start()  # the deploy is rolled back
    deploy.submit(1)
    until(lambda: deploy.workers() == 1)
    until(lambda: not left(server))
    assert ended(back)[0] == 0
    deploy.check()


@pytest.mark.slow
def test_a_release_that_earlier_workers_cannot_follow_starts_once_they_have_stopped(
    server: Server, tmp_path: Path
) -> None:
    deploy = Deploy(server, tmp_path)
    deploy.submit(4)
    old = deploy.start()
    until(lambda: deploy.effects() > 2)
    early = deploy.start(since=OWN + 1)
    _, said = early.communicate(timeout=30)
    assert early.returncode != 0
    assert "stop them with SIGTERM" in said
    assert (deploy.number(), old.poll()) == (OWN, None)
    assert ended(old)[0] == 0
    new = deploy.start(since=OWN + 1)
    until(lambda: deploy.number() == OWN + 1 and not left(server))
    late = deploy.start()
    _, said = late.communicate(timeout=30)
    assert "use the newer callboard" in said
    assert ended(new)[0] == 0
    assert deploy.number() == OWN + 1
    with server.connection() as connection:  # this test has the earlier release, too
        connection.execute(f"UPDATE callboard.meta SET value = '{OWN}' WHERE key = 'since'")
    deploy.check()
