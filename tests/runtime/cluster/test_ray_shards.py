"""Answers of shards: an old process, whose node Ray has given up, is not believed."""

import asyncio
from typing import Any

import pytest

from callboard.actors.protocol.client_messages import SessionClosed
from callboard.actors.protocol.errors import MisuseError, WrongKey
from callboard.runtime.cluster.ray_shard import SessionAnswer, ShardAnswer, ShardSpec
from callboard.runtime.cluster.ray_shards import RayShards, start_shards
from callboard.runtime.log.opening import open_log
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.runtime import Runtime
from tests.crash.cluster_agents import host
from tests.postgres_server import execute
from tests.runtime.log.postgres.places import OnServer

AGENTS = ("tests.crash.cluster_agents:host",)


class Answering(RayShards):
    """Shards whose answers a test gives."""

    answers: dict[str, Any]

    async def _asked(self, name: str, method: str, *values: object, timeout_s: float = 0) -> Any:
        return self.answers[name]


def shards_on(place: OnServer, **answers: Any) -> Answering:
    made = Answering(ShardSpec(place.url, AGENTS), list(answers))
    made.answers = answers
    return made


def test_figures_count_only_under_a_live_lease(place: OnServer) -> None:
    async def scene() -> None:
        async with Leases(place.url) as leases:
            live = await leases.change(lambda one: one.register("a", ["host"], 9, 60_000))
            ended = await leases.change(lambda one: one.register("b", ["host"], 9, 0))
            left = await leases.change(lambda one: one.register("c", ["host"], 9, 60_000))
            await leases.change(lambda one: one.leave(left))
        found = {
            name: ShardAnswer(name, worker, "node", 1, 2, 9, 0.5)
            for name, worker in {"a": live, "b": ended, "c": left, "d": 0}.items()
        }
        shards = shards_on(place, **found, e=None)  # e does not answer
        assert await shards.stats() == [found["a"]]

    asyncio.run(scene())


def test_an_answer_about_a_session_counts_only_under_its_present_epoch(place: OnServer) -> None:
    async def scene() -> None:
        async with Runtime(place.url) as runtime:
            await runtime.open(host, session_id="s")
        async with Runtime(place.url) as runtime:
            await runtime.resume("s", host)
        async with Leases(place.url) as leases:
            epoch = await leases.change(lambda one: one.epoch("s"))
            assert await leases.change(lambda one: one.epoch("unknown")) == 0
        old, new = (SessionAnswer("a", 1, one, 9, "running") for one in (epoch - 1, epoch))
        assert await shards_on(place, a=old, b=None).session("s") is None
        assert await shards_on(place, a=old, b=new).session("s") == new

    asyncio.run(scene())


ENCRYPTION_KEY = b"e" * 32
DIGEST_KEY = b"d" * 32


def with_keys(log: str) -> Runtime:
    """Return the runtime of shards whose log is encrypted and keyed."""
    return Runtime(open_log(log, key=DIGEST_KEY, encryption_key=ENCRYPTION_KEY))


def test_the_client_of_shards_has_the_log_and_the_keys_of_their_runtime(place: OnServer) -> None:
    execute(f"DROP SCHEMA IF EXISTS {place.schema} CASCADE")  # another test made it without keys
    place.is_changed = True

    async def scene() -> None:
        async with with_keys(place.url) as runtime:
            await (await runtime.open(host, session_id="s")).close()
        spec = ShardSpec(place.url, AGENTS, f"{__name__}:with_keys")
        async with RayShards(spec, ["a"]).connect() as client:
            assert [row.session_id async for row in client.sessions()] == ["s"]
            assert isinstance([one.body async for one in client.events("s")][-1], SessionClosed)
        with pytest.raises(WrongKey, match="digest key"):
            async with RayShards(ShardSpec(place.url, AGENTS), ["a"]).connect():
                pass

    asyncio.run(scene())


@pytest.mark.parametrize("shards", [0, 1_000_000])
def test_the_number_of_shards_is_checked_first(shards: int) -> None:
    with pytest.raises(MisuseError, match="from 1 to 10,000"):
        asyncio.run(start_shards("postgresql://app@db/agents", AGENTS, shards=shards))


def test_the_handle_shows_no_password() -> None:
    spec = ShardSpec("postgresql://app:secret@db/agents", AGENTS)
    assert repr(RayShards(spec, ["a", "b"])) == f"RayShards(2 of {AGENTS[0]})"
