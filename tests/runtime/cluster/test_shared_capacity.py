"""Capacity over several workers on a real server: never more calls than places."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from callboard.actors.cluster import model_home
from callboard.actors.cluster.shares import Renewal
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.actors.session.capacity import Capacity
from callboard.runtime.agent import Agent
from callboard.runtime.cluster import shared_capacity
from callboard.runtime.cluster.worker import ClusterWorker
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.places import PlacesRow, PlaceTables, Report
from callboard.runtime.models.scripted import ScriptedModel, Step, say
from callboard.runtime.runtime import Runtime
from tests.runtime.log.postgres.places import OnServer

LEASE_MS = 800


class Service:
    """A model service that counts the calls in flight of all workers."""

    def __init__(self, pause_s: float = 0.02) -> None:
        self.pause_s = pause_s
        self.now = self.most = 0
        self.calls = Counter[str]()

    def host(self, worker: str, usage: Usage | None = None) -> Agent:
        async def reply(request: ModelRequest) -> Step:
            self.calls[worker] += 1
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                await asyncio.sleep(self.pause_s)
            finally:
                self.now -= 1
            return say("done")

        given: dict[str, Any] = {} if usage is None else {"usage": usage, "max_tokens": usage.output_tokens}
        return Agent("host", model=ScriptedModel(reply, name="m", **given))


@asynccontextmanager
async def worker(
    place: OnServer, host: Agent, capacity: Capacity, name: str, slots: int = 20
) -> AsyncIterator[ClusterWorker]:
    """Run a worker until the block ends."""
    stop = asyncio.Event()
    async with Leases(place.url) as leases, Runtime(place.log(), capacity={"m": capacity}) as runtime:
        limits = Limits(model_timeout_s=1)
        one = ClusterWorker(runtime, leases, [host], slots=slots, lease_ms=LEASE_MS, name=name, limits=limits)
        task = asyncio.create_task(one.run(stop))
        try:
            yield one
        finally:
            stop.set()
            await task


async def submit(place: OnServer, sessions: int, first: int = 0) -> None:
    async with Leases(place.url) as leases:
        for at in range(first, first + sessions):
            await leases.change(lambda one, name=f"s{at}": one.submit(name, "host", name, "go"))  # type: ignore[misc]  # a lambda's default


async def until_done(place: OnServer) -> None:
    async with Leases(place.url) as leases:
        while await leases.change(lambda one: one._run("SELECT 1 FROM {s}.leases LIMIT 1")):  # noqa: ASYNC110  # the server tells no one
            await asyncio.sleep(0.02)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_home, "CUT_MS", 60)
    monkeypatch.setattr(shared_capacity, "CUT_MS", 60)
    monkeypatch.setattr(model_home, "ASK_MS", 30)


@pytest.mark.parametrize("calls", [6, 2, 1])
def test_workers_share_the_places_of_a_model(place: OnServer, calls: int) -> None:
    service = Service()

    async def scene() -> None:
        await submit(place, 18)
        async with AsyncExitStack() as stack:
            for name in ("a", "b", "c"):
                await stack.enter_async_context(worker(place, service.host(name), Capacity(calls), name, 6))
            await asyncio.wait_for(until_done(place), 60)

    asyncio.run(scene())
    assert service.calls.total() == 18
    assert min(calls, 2) <= service.most <= calls  # on a busy machine calls end before all places are used
    assert set(service.calls) == {"a", "b", "c"}


def test_a_worker_that_comes_later_gets_its_part(place: OnServer) -> None:
    service = Service(0.03)

    async def scene() -> None:
        await submit(place, 40)
        async with worker(place, service.host("a"), Capacity(4), "a", 20):
            while service.calls.total() < 4:  # noqa: ASYNC110  # the model tells no one
                await asyncio.sleep(0.005)
            async with worker(place, service.host("b"), Capacity(4), "b", 20), asyncio.timeout(60):
                submitted = 40
                while service.calls["b"] < 10:  # a busy machine starts it late
                    if service.calls.total() > submitted - 20:
                        await submit(place, 20, submitted)
                        submitted += 20
                    await asyncio.sleep(0.005)
                await until_done(place)

    asyncio.run(scene())
    assert service.most == 4


async def places(place: OnServer) -> list[PlacesRow]:
    async with Leases(place.url) as leases:
        return await leases.share(PlaceTables.places)


def test_a_worker_that_leaves_frees_its_places_and_one_that_dies_holds_them(place: OnServer) -> None:
    service = Service(30)

    async def scene() -> None:
        await submit(place, 4)
        async with worker(place, service.host("a"), Capacity(2), "a", 4):
            while service.now < 2:  # noqa: ASYNC110  # the model tells no one
                await asyncio.sleep(0.005)
            (row,) = await places(place)
            assert (row.model, row.name, row.held, row.limit, row.timeout_ms) == ("m", "a", 2, 2, 1_000)
        assert await places(place) == []
        service.pause_s = 0.01
        async with Leases(place.url) as leases:  # one that reports and is never heard of again
            dead = await leases.change(lambda one: one.register("dead", ["other"], 1, 400))
            renewal = Renewal(dead, 1, 0, 0, 2, 0)
            (given,) = await leases.share(lambda one: one.report("m", [Report(renewal)], Capacity(2), 300))
            assert given.share == 2
            async with worker(place, service.host("b"), Capacity(2), "b", 4):
                done = asyncio.create_task(until_done(place))
                seen = []
                while not done.done():
                    seen.append({row.name: row.held for row in await places(place)})
                    await asyncio.wait({done}, timeout=0.02)
        assert {"dead": 2, "b": 0} in seen  # until its lease has ended, and its last call
        assert all(sum(one.values()) <= 2 for one in seen)
        assert [row.name for row in await places(place)] == []

    asyncio.run(scene())
    assert service.most == 2


def test_tokens_that_workers_are_given_are_spent(place: OnServer) -> None:
    service, each = Service(0.001), Usage(input_tokens=10, output_tokens=90)
    minute = Capacity(tokens_per_minute=1_000)

    async def scene() -> None:
        await submit(place, 30)
        async with AsyncExitStack() as stack:
            for name in ("a", "b"):
                await stack.enter_async_context(worker(place, service.host(name, each), minute, name, 15))
            while service.calls.total() < 5:  # noqa: ASYNC110  # the model tells no one
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.3)

    asyncio.run(scene())
    assert 5 <= service.calls.total() <= 11  # of a full bucket, and of what flowed in meanwhile
