"""Kill a shard of a Ray cluster and remove a node, while shards run sessions with `write` tools.

    python -m tests.crash.ray_shards --sessions 40 --calls 12

A head and two nodes start on loopback, with a shard on each node. The process of one shard is killed, then
the node of another one is removed. The program prints after how long the sessions of the lost shard run
again, counts effects, and checks that no answer of an old process is believed. It starts a private server.
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from callboard.runtime.cluster.ray_shard import ShardAnswer
from callboard.runtime.cluster.ray_shards import RayShards, start_shards
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.leases import LeaseTables
from tests.crash.ray_cluster import started as ray_started
from tests.crash.workers import Verdict, left, verdict
from tests.postgres_server import Server, started

AGENTS = ["tests.crash.cluster_agents:host"]
PATIENCE_S = 60.0


class Loss(NamedTuple):
    """A lost shard. sessions: that it had. back_s: until all of them ran elsewhere, or had ended.

    stale: answers of a process that no longer owned its session, each of which was dropped.
    """

    sessions: int
    back_s: float
    stale: int


def running(server: Server, worker: int) -> dict[str, int]:
    """Return the sessions that a worker has and has opened, with their epochs."""
    with server.connection() as connection:
        rows: list[Any] = connection.execute(
            "SELECT l.session, s.epoch FROM callboard.leases AS l "
            "JOIN callboard.sessions AS s ON s.session_id = l.session WHERE l.worker = %s",
            (worker,),
        ).fetchall()
    return dict(rows)


def behind(server: Server, had: dict[str, int]) -> list[str]:
    """Return those of the sessions that no other process has taken over, and that have not ended."""
    with server.connection() as connection:
        rows: list[Any] = connection.execute(
            "SELECT s.session_id, s.epoch FROM callboard.sessions AS s "
            "JOIN callboard.leases AS l ON l.session = s.session_id WHERE s.session_id = ANY(%s)",
            (list(had),),
        ).fetchall()
    return [name for name, epoch in rows if epoch <= had[name]]


async def lose(server: Server, shards: RayShards, one: ShardAnswer, how: Any) -> Loss:
    """Lose a shard, and wait until its sessions run again. how: the function that loses it."""
    had, stale = running(server, one.worker), 0
    assert had, "the shard had no session"
    begun = time.monotonic()
    await asyncio.to_thread(how)
    while behind(server, had):
        if time.monotonic() - begun > PATIENCE_S:
            raise AssertionError(f"still behind: {behind(server, had)}")
        await asyncio.sleep(0.02)
    back_s = time.monotonic() - begun
    names = list(had)  # at once: Ray lets calls of a shard that it starts again wait
    answers = await asyncio.gather(*(shards._asked(one.shard, "session", name) for name in names))
    believed = await asyncio.gather(*(shards.session(name) for name in names))
    for name, old, told in zip(names, answers, believed, strict=True):
        stale += old is not None and old.epoch <= had[name]
        assert told is None or told.epoch > had[name], (told, had[name])
    return Loss(len(had), back_s, stale)


async def scenario(server: Server, cluster: Any, sessions: int) -> list[Loss]:
    """Run it: kill the process of a shard, then remove the node of a shard."""
    shards = await start_shards(server.url(), AGENTS, shards=2, slots=200)
    again = await start_shards(server.url(), AGENTS, shards=2, slots=200)  # they stay as they are
    assert [one.worker for one in await again.stats()] == [one.worker for one in await shards.stats()]
    await submit_some(server.url(), range(sessions // 2))
    found: list[Loss] = []
    first = await busiest(server, shards)
    found.append(await lose(server, shards, first, lambda: os.kill(first.process, signal.SIGKILL)))
    await live_shards(shards)  # Ray has started it again, perhaps after all sessions have ended
    await submit_some(server.url(), range(sessions // 2, sessions))
    second = await busiest(server, shards)
    node = next(one for one in cluster.worker_nodes if one.node_id == second.node)
    found.append(await lose(server, shards, second, lambda: cluster.remove_node(node, allow_graceful=False)))
    async with asyncio.timeout(PATIENCE_S):
        while left(server):  # noqa: ASYNC110  # the server tells no one
            await asyncio.sleep(0.1)
    await shards.replace(shards.spec)
    assert len(await shards.stats()) == 2
    await shards.stop()
    assert await shards.stats() == []
    async with Leases(server.url()) as leases:
        assert [one for one in await leases.change(lambda one: one.workers()) if one.left_ms > 0] == []
    return found


async def submit_some(url: str, numbers: range) -> None:
    """Submit sessions, each named by its number."""
    async with Leases(url) as leases:
        for at in numbers:
            await leases.change(
                partial(
                    LeaseTables.submit, session=f"s{at}", host="host", request_id=f"s{at}", prompt="do it"
                )
            )


async def live_shards(shards: RayShards) -> list[ShardAnswer]:
    """Wait until both shards are workers."""
    async with asyncio.timeout(PATIENCE_S):
        while len(found := await shards.stats()) < 2:  # noqa: ASYNC110  # Ray tells no one
            await asyncio.sleep(0.05)
    return found


async def busiest(server: Server, shards: RayShards) -> ShardAnswer:
    """Wait until a shard has opened sessions. Return the one that has most."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            live = await live_shards(shards)
            counts = {one: len(running(server, one.worker)) for one in live}
            if any(counts.values()):
                return max(counts, key=lambda one: counts[one])
            await asyncio.sleep(0.05)


def campaign(server: Server, cluster: Any, deeds: Path, sessions: int) -> tuple[list[Loss], Verdict]:
    """Run the scenario. deeds: the file of effects, as the nodes know it. Raises AssertionError."""
    found = asyncio.run(scenario(server, cluster, sessions))
    return found, verdict(server.url(), deeds, sessions)


def main() -> int:
    """Run a campaign. Return 1 if an effect happened twice or a session did not end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, kind, default in (("sessions", int, 40), ("calls", int, 12), ("pause-s", float, 0.8)):
        parser.add_argument(f"--{name}", type=kind, default=default)
    given = parser.parse_args()
    base = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir())
    with tempfile.TemporaryDirectory() as folder, started(base) as server:
        deeds = Path(folder) / "deeds"
        pauses = {"CLUSTER_CALLS": str(given.calls), "CLUSTER_PAUSE_S": str(given.pause_s)}
        with ray_started(CLUSTER_DEEDS=str(deeds), **pauses) as cluster:
            losses, found = campaign(server, cluster, deeds, given.sessions)
    for what, one in zip(("a killed shard", "a removed node"), losses, strict=True):
        print(
            f"{one.sessions} sessions of {what} ran again after {one.back_s:.1f} s; {one.stale} stale answers"
        )
    print(
        f"{found.ended} of {given.sessions} sessions ended, their chains verified; {found.effects:,} effects"
    )
    print(f"{found.twice} effects happened twice; {found.unknown} are unknown to their agents")
    return int(found.twice > 0 or found.ended < given.sessions)


if __name__ == "__main__":
    sys.exit(main())
