"""A program that ends the process: it has not failed, and every session of the process can be resumed."""

import asyncio
from collections.abc import Callable

import pytest

from callboard import ProgramContext, Runtime, Session, program, tool
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.log import MemoryLog
from callboard.replay import Recording
from callboard.runtime.log.memory import MemoryReader

EXITS: list[Callable[[], BaseException]] = [lambda: SystemExit(3), KeyboardInterrupt]


class _World:
    """Two programs: one ends the process in its second step, and the other waits meanwhile."""

    def __init__(self, error: Callable[[], BaseException]) -> None:
        self.is_over = False
        self.cleaned = 0
        waits = asyncio.Event()

        @tool(effect="read")
        async def hold() -> str:
            """Wait until the process has ended."""
            if not self.is_over:
                await waits.wait()
            return "held"

        @tool(effect="read")
        async def double(n: int) -> int:
            """Return twice the number."""
            return 2 * n

        @program(tools=[double])
        async def leaving(ctx: ProgramContext, prompt: str) -> int:
            try:
                found = await ctx.call(double, n=2)
                if not self.is_over:
                    raise error()
                return found
            finally:
                self.cleaned += 1

        @program(tools=[hold])
        async def holding(ctx: ProgramContext, prompt: str) -> str:
            return await ctx.call(hold)

        self.leaving, self.holding = leaving, holding


@pytest.mark.parametrize("error", EXITS, ids=["SystemExit", "KeyboardInterrupt"])
def test_an_exit_in_a_program_is_no_failure_and_every_session_goes_on_later(
    error: Callable[[], BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    world, log = _World(error), MemoryLog()

    async def first() -> None:
        async with Runtime(log) as runtime:
            await (await runtime.open(world.holding, session_id="other")).submit("go")
            session = await runtime.open(world.leaving, session_id="leaving")
            await session.submit("go")
            await asyncio.sleep(60)

    with pytest.raises(type(error())):
        asyncio.run(first())
    assert (world.leaving.model.parked, world.holding.model.parked, world.cleaned) == (0, 0, 1)
    assert "in a step of program 'leaving' ends the event loop of this process" in caplog.text
    replies = [
        event.body
        for event in Recording.open(MemoryReader(log), "leaving").events
        if isinstance(event.body, ModelReplied)
    ]
    assert [reply.status for reply in replies] == ["ok"], "the step that ended the process has no answer"

    world.is_over = True

    async def again() -> None:
        async with Runtime(log) as runtime:
            sessions: list[Session] = []
            for name, host in (("leaving", world.leaving), ("other", world.holding)):
                sessions.append(await runtime.resume(name, host))
            assert [(await one.outcome).text for one in sessions] == ["4", "held"]

    asyncio.run(again())
    for name in ("leaving", "other"):
        assert Recording.open(MemoryReader(log), name).verify().is_ok
