"""The contexts port with a board that only records: one answer a request, and what it holds meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from callboard.actors.protocol.port_messages import MakeContext
from callboard.runtime.agent import Agent
from callboard.runtime.ports.context_port import ContextPort
from callboard.runtime.secrets.registry import NO_SECRETS

WANTED = MakeContext("host", 1, "kid", 3, timeout_ms=5)


class Desk:
    """A port, and its answers as (status, reason)."""

    def __init__(self) -> None:
        self.given: list[tuple[str, str]] = []
        self.made: list[tuple[str, str]] = []
        board: Any = SimpleNamespace(
            answer=lambda request, post: self.given.append((post.body.status, post.body.detail)),
            gate=SimpleNamespace(request=lambda seq: None), secrets=NO_SECRETS,
        )  # fmt: skip
        instances: Any = SimpleNamespace(factory=self._factory, keep=lambda *kept: None)
        self.port = ContextPort(board, {"kid": Agent("kid")}, instances)

    def _factory(self, address: str, profile: str) -> None:
        self.made.append((address, profile))


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(20):
            await work()

    asyncio.run(main())


def test_no_stop_of_an_agent_ends_a_context() -> None:
    assert Desk().port.abort(None) is True  # type: ignore[arg-type]  # a stand-in


def test_an_instance_is_made_for_its_address() -> None:
    async def work() -> None:
        desk = Desk()
        view: Any = SimpleNamespace(profile="kid")
        assert await desk.port._prepared("host.1", None, view) is None
        assert desk.made == [("host.1", "kid")]

    run(work)


def test_a_function_over_its_time_is_answered_once_and_held_until_it_ends() -> None:
    async def work() -> None:
        desk = Desk()
        go = asyncio.Event()

        async def stubborn() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await go.wait()

        waiting = asyncio.ensure_future(desk.port._wait(None, WANTED, stubborn()))  # type: ignore[arg-type]  # a stand-in
        await asyncio.sleep(0)
        (function,) = desk.port._functions
        await waiting
        assert desk.given == [("failed", "it took longer than 0.005 s")]
        assert desk.port._functions == {function}
        go.set()
        await asyncio.wait([function])
        await asyncio.sleep(0)
        assert desk.port._functions == set()
        go.clear()
        waiting = asyncio.ensure_future(desk.port._wait(None, WANTED, stubborn()))  # type: ignore[arg-type]  # a stand-in
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert len(desk.port._functions) == 1, "one that was given up is held as well"
        go.set()
        await asyncio.wait(desk.port._functions)
        await asyncio.sleep(0)
        assert desk.port._functions == set()
        desk.port._lost(9, ValueError("late"))
        assert len(desk.given) == 1

    run(work)
