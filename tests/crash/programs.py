"""The program of the killed sessions, a host or a sub-agent. It tells how each of its asks ended.

Its draws come from `ctx.random()`, so a process that executes it again asks the same. Its result names each
call of a tool by the label of that call, with the end that the program saw; the verdict compares these ends
with the log. After a kill a write may end as `Interrupted`, and in no other way that the log does not have.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from random import Random
from typing import Final

from callboard import Agent, ProgramContext, program
from callboard.errors import AskFailed, Interrupted, NotApproved
from callboard.runtime.models.protocol import Model
from callboard.runtime.tools.tool import Tool

NAME: Final = "pipeline"
GIVEN_UP: Final = "given up"
"""The end of a call that the program gave up; the log may have any end of it."""

Ends = dict[str, str]
"""The ends of asks, by label."""


def program_of(tools: Sequence[Tool], agents: Sequence[Agent], model: Model) -> Agent:
    """Create the program. agents: it delegates to the first, and lets all race."""

    @program(
        name=NAME, description="Works in a fixed order.", tools=tools, agents=list(agents), models=[model]
    )
    async def pipeline(ctx: ProgramContext, prompt: str) -> dict[str, object]:
        ends: Ends = {}
        for _ in range(ctx.random().randint(1, 2)):
            asks = [_ask(ctx, agents, model) for _ in range(ctx.random().randint(1, 4))]
            noted = [_noted(label, ask, ends) for label, ask in asks]
            if ctx.random().random() < 0.5:
                await asyncio.gather(*noted)
            else:
                for one in noted:
                    await _in_time(one, ctx.random())
            await ctx.sleep(ctx.random().uniform(0, 0.005))
        return {"n": len(ends), "ends": ends}

    return pipeline


def _ask(ctx: ProgramContext, agents: Sequence[Agent], model: Model) -> tuple[str, Awaitable[object]]:
    """Draw an ask, and return its label with it."""
    chance = ctx.random()
    label = f"{NAME}/{chance.getrandbits(64):x}"
    match chance.randint(0, 9):  # the rest are calls of tools
        case 0:
            return label, ctx.delegate(agents[0], "work")
        case 1:
            return label, ctx.delegate(list(agents), "race", copies=1)
        case 2:
            return label, ctx.ask_model("how?", model=model)
        case _:
            pass
    name = chance.choice(["look", "put", "save", "save", "stamp", "pay"])
    return label, ctx.call(name, label=label, ms=chance.randint(0, 5))


async def _noted(label: str, ask: Awaitable[object], ends: Ends) -> None:
    ends[label] = GIVEN_UP
    try:
        await ask
        ends[label] = "ok"
    except Interrupted:
        ends[label] = "interrupted"
    except NotApproved:
        ends[label] = "denied"
    except AskFailed:
        ends[label] = "failed"


async def _in_time(work: Awaitable[None], chance: Random) -> None:
    """Wait for work, in some cases only for some milliseconds."""
    limit_s = chance.choice([None, None, 0.002, 0.01])
    with contextlib.suppress(TimeoutError):  # the program goes on without the work, as many do
        async with asyncio.timeout(limit_s):
            await work
