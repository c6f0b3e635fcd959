"""Workers for tests: a place on a server, the effects of all workers, and a tool that can be held."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.runtime.agent import Agent
from callboard.runtime.cluster.worker import ClusterWorker
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.leases import LeaseTables
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.models.scripted import ScriptedModel, call, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.sanitize import to_json
from callboard.runtime.tools.tool import tool
from tests.runtime.log.postgres.places import OnServer
from tests.waiting import LIMIT_S

LEASE_MS = 800
NUMBERS = itertools.count()


class World:
    """A place, the effects of all workers, and the tool that waits until it is let go."""

    def __init__(self, place: OnServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place, self.monkeypatch = place, monkeypatch
        self.deeds = Counter[str]()
        self.holds = asyncio.Event()

    def host(self, name: str = "host", tools: int = 1) -> Agent:
        """Return an agent with one write tool, which it calls once."""

        @tool(effect="write")
        async def put(n: int) -> str:
            """Do it."""
            self.deeds[f"put {n}"] += 1
            await self.holds.wait()
            return "done"

        @tool
        def other() -> str:
            """Not called."""
            return ""

        model = ScriptedModel(lambda request: call("put", n=1) if request.turn == 1 else say("all done"))
        return Agent(name, tools=[put, *[other][: tools - 1]], model=model)

    @asynccontextmanager
    async def worker(
        self, host: Agent
    ) -> AsyncIterator[tuple[ClusterWorker, Callable[[], Coroutine[Any, Any, None]]]]:
        """Run a worker. Yield it, and the function that stops it."""
        stop = asyncio.Event()
        async with Leases(self.place.url) as leases, Runtime(self.place.log()) as runtime:
            one = ClusterWorker(runtime, leases, [host], lease_ms=LEASE_MS, name=f"w{next(NUMBERS)}")
            task = asyncio.create_task(one.run(stop))

            async def end() -> None:
                stop.set()
                await task

            try:
                yield one, end
            finally:
                await end()

    async def change(self, work: Callable[[LeaseTables], Any]) -> Any:
        async with Leases(self.place.url) as leases:
            return await leases.change(work)

    async def until(self, is_so: Callable[[LeaseTables], bool]) -> None:
        """Wait until the tables say so."""
        async with Leases(self.place.url) as leases:
            while not await leases.change(is_so):  # noqa: ASYNC110  # the server tells no one
                await asyncio.sleep(0.02)


def run(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), LIMIT_S))


def is_empty(tables: LeaseTables) -> bool:
    return not tables._run("SELECT 1 FROM {s}.leases")


class Typist:
    """A model whose reply a test types: each piece at once, and its end."""

    spec = ModelSpec("typist", 1_000)

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[str | None] = asyncio.Queue()
        self.is_called = asyncio.Event()

    def type(self, *pieces: str | None) -> None:
        """Add pieces of the reply. None is its end."""
        for piece in pieces:
            self._pieces.put_nowait(piece)

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        self.is_called.set()
        text = ""
        while (piece := await self._pieces.get()) is not None:
            text += piece
            on_text(piece)
        self.is_called.clear()
        return ModelAnswer(to_json([{"type": "text", "text": text}]), "end_turn", Usage(1, 1, calls=1))

    async def aclose(self) -> None:
        """Nothing is held."""
