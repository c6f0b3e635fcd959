"""Workers that are fair by tag: many waiting sessions of one tag do not keep those of another waiting."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from callboard.actors.cluster import model_home
from callboard.actors.cluster.shares import Renewal
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.capacity import Capacity
from callboard.runtime.agent import Agent
from callboard.runtime.cluster import shared_capacity
from callboard.runtime.cluster.worker import ClusterWorker
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.leases import LeaseTables
from callboard.runtime.log.postgres.places import Report
from callboard.runtime.models.scripted import ScriptedModel, Step, call, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool
from tests.effort import effort
from tests.postgres_server import execute
from tests.runtime.cluster.kit import World, run
from tests.runtime.log.postgres.places import OnServer, on_server

CROWD = effort(60, 1_000)
BY_TAG = Capacity(4, fair_by="of:*")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_home, "CUT_MS", 60)
    monkeypatch.setattr(shared_capacity, "CUT_MS", 60)
    monkeypatch.setattr(model_home, "ASK_MS", 30)


def tag_of(session: str) -> str:
    return "x" if int(session[1:]) < CROWD else "y"


def submitted(name: str, tags: Sequence[str]) -> dict[str, Any]:
    return {"session": name, "host": "host", "request_id": name, "prompt": "go", "tags": tags}


class Crowd:
    """Sessions of two tags, each of which calls a model and a tool some times. done: the calls, in order."""

    def __init__(self, place: OnServer, calls: int, call_s: float) -> None:
        self.place, self.calls, self.call_s = place, calls, call_s
        self.done: list[str] = []
        self.now = self.most = 0

    def host(self) -> Agent:
        @tool
        def look() -> str:
            """Look."""
            return "seen"

        async def reply(request: ModelRequest) -> Step:
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                await asyncio.sleep(self.call_s)
            finally:
                self.now -= 1
            self.done.append(tag_of(request.session_id))
            return call("look") if request.turn < self.calls else say("done")

        return Agent("host", tools=[look], model=ScriptedModel(reply, name="m"))

    async def submit(self) -> None:
        """Submit a crowd of x, and then three of y."""
        async with Leases(self.place.url) as leases:
            for at in range(CROWD + 3):
                name = f"s{at}"
                tags = ("nightly", f"of:{tag_of(name)}")
                await leases.change(partial(LeaseTables.submit, **submitted(name, tags)))

    async def run(self, workers: int, slots: int, capacity: Capacity | None, fair_by: str | None) -> None:
        """Run workers until the sessions of y have ended."""
        stop = asyncio.Event()
        async with AsyncExitStack() as stack:
            tasks = []
            for at in range(workers):
                leases = await stack.enter_async_context(Leases(self.place.url))
                limits = {} if capacity is None else {"m": capacity}
                runtime = await stack.enter_async_context(Runtime(self.place.log(), capacity=limits))
                one = ClusterWorker(
                    runtime,
                    leases,
                    [self.host()],
                    slots=slots,
                    lease_ms=4_000,
                    name=f"w{at}",
                    fair_by=fair_by,
                    limits=Limits(model_timeout_s=1),
                )
                tasks.append(asyncio.create_task(one.run(stop)))
            while Counter(self.done)["y"] < 3 * self.calls:  # noqa: ASYNC110  # the model tells no one
                await asyncio.sleep(0.01)
            stop.set()
            await asyncio.gather(*tasks)


def test_a_few_sessions_get_slots_beside_a_crowd_of_another_tag(world: World) -> None:
    async def scene() -> None:
        crowd = Crowd(world.place, 2, 0.01)
        await crowd.submit()
        await crowd.run(1, 4, None, "of:*")
        assert Counter(crowd.done)["x"] <= CROWD // 2  # without it, y is last
        async with Runtime.connect(world.place.url) as client:
            tags = {row.tags async for row in client.sessions()}
        assert tags == {("nightly", "of:x"), ("nightly", "of:y")}

    run(scene)


def test_a_few_sessions_get_calls_beside_a_crowd_of_another_tag(place: OnServer) -> None:
    async def scene() -> None:
        crowd = Crowd(place, 5, 0.08)
        await crowd.submit()
        await crowd.run(2, CROWD + 3, BY_TAG, None)
        last = len(crowd.done) - 1 - crowd.done[::-1].index("y")
        first = crowd.done.index("y")
        between = Counter(crowd.done[first : last + 1])
        assert between["y"] == 15
        assert between["x"] <= 3 * between["y"], between  # twenty times as many, without it
        assert crowd.most <= 4

    run(scene)


def test_tags_of_an_encrypted_log_have_their_turns_and_are_not_readable_in_it() -> None:
    key = b"k" * 32

    async def scene(place: OnServer) -> None:
        async with Leases(place.url, encryption_key=key) as leases:
            for at in range(9):
                tags = ("of:y" if at == 8 else "of:x",)
                await leases.change(partial(LeaseTables.submit, **submitted(f"s{at}", tags)))
            number = await leases.change(lambda one: one.register("w", ["host"], 9, 60_000))
            found = await leases.change(lambda one: one.claim(number, 2, fair_by="of:*"))
            assert [(one.session, one.tags) for one in found] == [("s0", ("of:x",)), ("s8", ("of:y",))]
            renewal = Renewal(number, 1, 0, 0, 1, 0, tag="of:x")
            await leases.share(lambda one: one.report("m", [Report(renewal)], Capacity(1), 1_000))
        for table in ("leases", "places"):
            assert "of:" not in str(execute(f"SELECT row_to_json(t)::text FROM {place.schema}.{table} AS t"))

    with on_server(encryption_key=key) as place:
        asyncio.run(scene(place))


def test_a_pattern_that_names_no_tags_is_refused(world: World) -> None:
    async def scene() -> None:
        async with Leases(world.place.url) as leases, Runtime(world.place.log()) as runtime:
            with pytest.raises(MisuseError, match="ClusterWorker: fair_by='tenant'"):
                ClusterWorker(runtime, leases, [world.host()], fair_by="tenant")

    run(scene)
