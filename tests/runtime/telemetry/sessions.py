"""Sessions for tests of telemetry: a host with a sub-agent, tools that fail, a program and a race."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from callboard import Agent, Limits, ProgramContext, Runtime, ScriptedModel, call, calls, program, say, tool
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.profiles import Prices
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.log import MemoryLog
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.log.telemetry.span_fold import spans_of
from callboard.runtime.log.telemetry.spans import Span
from callboard.runtime.models.scripted import Step

SECRET_WORDS = "the patient is called Jane"
USED = Usage(input_tokens=30, output_tokens=4, cache_read_tokens=100)


@tool(effect="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="write")
def boom(a: int) -> int:
    """Fail."""
    raise ValueError(SECRET_WORDS)


def policy(request: ModelRequest) -> Step:
    if request.profile == "kid":
        turns: list[Step] = [call("add", a=1, b=2), call("boom", a=1), say("three")]
        return turns[request.turn - 1]
    if request.profile == "ask_model":
        return say("seven")
    if request.profile == "racer":
        return say("here")
    first = calls(
        call("task", agent="kid", prompt=SECRET_WORDS),
        call("task", agent="asks", prompt="go"),
        call("task", agents=["racer", "racer"], prompt="race"),
        call("task", agent="nobody", prompt="x"),
    )
    return first if request.turn == 1 else say("done")


@program
async def asks(ctx: ProgramContext, prompt: str) -> str:
    """Ask a model."""
    return await ctx.ask_model("How many?")


KID = Agent("kid", description="Adds.", tools=[add, boom])
RACER = Agent("racer", description="Races.")
HOST = Agent("host", agents=[KID, asks, RACER])


def model() -> ScriptedModel:
    return ScriptedModel(policy, usage=USED, prices=Prices(3, 15, cache_read_usd=0.3))


@cache
def recording_of_host() -> Recording:
    """Run the host once, in a session `one`."""
    log = MemoryLog()

    async def main() -> None:
        async with Runtime(log, model=model()) as runtime:
            await runtime.run(HOST, "Begin.", session_id="one", tags=["user:1"])

    asyncio.run(main())
    return Recording.open(MemoryReader(log), "one")


def events_of_host() -> list[Event]:
    return list(recording_of_host().events)


def spans_of_host() -> list[Span]:
    return list(spans_of(events_of_host()))


def run(body: Callable[[Runtime], Awaitable[None]], log: MemoryLog | None = None, **settings: Any) -> None:
    """Run a test in a runtime."""

    async def main() -> None:
        given = {"model": model(), "limits": Limits(max_model_attempts=1), **settings}
        async with Runtime(log or MemoryLog(), **given) as runtime:
            await body(runtime)

    asyncio.run(main())
