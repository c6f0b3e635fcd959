"""Sessions of programs that sleep and time out while their process ends, and comes back later."""

import asyncio
import datetime
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from callboard.actors.protocol.client_messages import RULES, Resumed
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.sessions.faults import faults
from callboard.runtime.models.scripted import Reply, say
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program
from callboard.runtime.tools.tool import tool
from callboard.testing import Scenario
from tests.mutants.downtime import PHASES, Downtime, Wait

_MS: Final = datetime.timedelta(milliseconds=1)


@tool(effect="read")
async def look(item: int) -> str:
    """Look."""
    return f"seen {item}"


async def _over(ctx: ProgramContext, wait: Wait, began: datetime.datetime) -> int:
    """Wait, and return the milliseconds since the run began, by the clock."""
    match wait.kind:
        case "sleep":
            await ctx.sleep(wait.ms / 1_000)
        case "until":
            await ctx.sleep_until(began + wait.ms * _MS)
        case "timeout":
            with suppress(TimeoutError):
                async with asyncio.timeout(wait.ms / 1_000):
                    await asyncio.Event().wait()
    return (ctx.now() - began) // _MS


async def _through(ctx: ProgramContext, name: str) -> list[int]:
    """Go through the phases of a program, and return when each wait was over."""
    began, told = ctx.now(), list[int]()
    for phase in PHASES[name]:
        # In the order in which they end, as the rule counts them.
        told += sorted(await asyncio.gather(*(_over(ctx, wait, began) for wait in phase)))
    return told


def waiting(left_out_ms: int, *kinds: str, below: bool = False) -> Downtime:
    """Build a session of programs that wait. left_out_ms: by each resume. kinds: of faults."""

    @program(name="below", description="Waits.", tools=[look])
    async def inner(ctx: ProgramContext, prompt: str) -> Any:
        beside = asyncio.gather(*(ctx.call(look, item=at) for at in range(2)), return_exceptions=True)
        told = await _through(ctx, "below")
        await beside
        return told

    @program(name="host", tools=[look], agents=[inner])
    async def host(ctx: ProgramContext, prompt: str) -> Any:
        asks: list[Awaitable[str]] = [ctx.call(look, item=at) for at in range(3)]
        if below:
            asks.append(ctx.delegate(inner, "go"))
        beside = asyncio.gather(*asks, return_exceptions=True)
        told = await _through(ctx, "host")
        await beside
        return told

    scenario = Scenario(host, _nothing, "go").pure
    resumed = Resumed(RULES, extend_ms=left_out_ms, left_out_ms=left_out_ms)
    return Downtime(replace(scenario, resumed=resumed, faults=faults(*kinds, most=4, fault_mixes=5, seed=7)))


def _nothing(request: ModelRequest) -> Reply:
    return say("nothing")


DOWNTIME: Final[Mapping[str, Downtime]] = {
    "short stops": waiting(300, "crash", "detach", "slow", "jump"),
    "long stops": waiting(5_000, "crash", "detach", "slow"),
    "stops above and below": waiting(650, "crash", "detach", "slow", "jump", below=True),
    "nothing left out": waiting(0, "crash", "detach", "jump", below=True),
}
"""The sessions in which mutants of downtime are hunted."""
