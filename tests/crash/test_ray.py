"""Shards and tools on a real Ray cluster, of which a process is killed and a node is removed.

`make ray-tests` runs these; elsewhere they are skipped, because a cluster takes 6 s to start.
"""

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.replay.recording import Recording
from callboard.runtime.cluster.ray_shards import start_shards
from callboard.runtime.runtime import Runtime
from tests.crash.ray_cluster import SKIP, SWITCH
from tests.crash.ray_cluster import started as ray_started
from tests.crash.ray_shards import campaign
from tests.postgres_server import Server, started

pytestmark = [
    pytest.mark.skipif(not os.environ.get(SWITCH), reason=SKIP),
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # Ray leaves sockets and files to the collector
]


class World(NamedTuple):
    """The servers of these tests, and the file in which the nodes count effects."""

    server: Server
    cluster: Any
    deeds: Path


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    base = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir())
    with tempfile.TemporaryDirectory() as folder, started(base) as server:
        deeds = Path(folder) / "deeds"
        environment = {"CLUSTER_DEEDS": str(deeds), "CLUSTER_CALLS": "6", "CLUSTER_PAUSE_S": "0.8"}
        with ray_started(**environment) as cluster:
            yield World(server, cluster, deeds)


def test_tools_on_nodes_return_fail_die_and_are_cancelled_as_others_do(world: World) -> None:
    from tests.crash.ray_tools import FIRST, SECOND, host

    async def scene() -> str:
        async with Runtime(world.server.url("tools")) as runtime:
            return (await runtime.run(host, "go", session_id="s")).text

    assert asyncio.run(scene()) == "all done"
    with Recording.open(world.server.url("tools"), "s") as recording:
        recording.verify().check()
        returned = [one.body for one in recording.events_after(0) if isinstance(one.body, ToolReturned)]
    found = {(one.turn, one.call): (one.status, bytes(one.output).decode()) for one in returned}
    names = {(turn, at): one.tool for turn, made in ((1, FIRST), (2, SECOND)) for at, one in enumerate(made)}
    by_name = {names[key]: value for key, value in found.items()}
    assert by_name["add"][0] == "ok"
    assert '\\"sum\\":3' in by_name["add"][1]
    assert "s/host/1/0" in by_name["add"][1]  # the idempotency key
    assert by_name["later"] == ("ok", '"2"')
    assert by_name["fails"] == ("error", '"the disk of the node is full"')
    assert by_name["breaks"] == ("error", "\"KeyError: 'nothing here'\"")
    assert by_name["awkward"] == ("error", '"Awkward: status 7"')
    assert by_name["dies"][0] == "interrupted"
    for name in ("sleeps", "holds_on"):
        assert by_name[name][0] == "error"
        assert "timed out after 1 s; whether it had its effect is not known" in by_name[name][1]
    begun = [line.split()[0] for line in world.deeds.read_text().splitlines()]
    assert begun.count("dies") == 1  # Ray does not run it again
    assert "woke" not in begun
    world.deeds.unlink()


@pytest.mark.parametrize(
    ("agents", "runtime", "words"),
    [
        (["tests.crash.cluster_agents:nobody"], "", "cannot be imported on this node"),
        (["tests.crash.cluster_agents:CALLS"], "", "is not an Agent, but int"),
        (["tests.crash.cluster_agents:host"], "builtins:str", "returns no Runtime on the PostgreSQL server"),
    ],
)
def test_a_shard_that_cannot_start_says_why_and_is_gone(
    world: World, agents: list[str], runtime: str, words: str
) -> None:
    async def scene() -> None:
        with pytest.raises(MisuseError, match=words):
            await start_shards(world.server.url(), agents, shards=1, name="wrong", runtime=runtime)
        right = ["tests.crash.cluster_agents:host"]
        shards = await start_shards(world.server.url(), right, shards=1, name="wrong", num_cpus=0)
        await shards.stop()

    asyncio.run(scene())


def test_sessions_of_a_killed_shard_and_of_a_removed_node_end_elsewhere_with_no_effect_twice(
    world: World,
) -> None:
    losses, found = campaign(world.server, world.cluster, world.deeds, 20)
    assert [one.sessions > 0 for one in losses] == [True, True]
    assert (found.ended, found.twice) == (20, 0)
    # Not all of the lost ones: some had no event yet, and some had ended.
    assert found.resumed > 0
