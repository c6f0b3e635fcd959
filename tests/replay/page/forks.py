"""A session and its fork: one tool result of one child is another."""

import asyncio
from functools import cache

from callboard.actors.protocol.profiles import Prices
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import ScriptedModel, Step, call, calls, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool

SCHEMA = {"type": "object", "properties": {"degrees": {"type": "integer"}}}
CHILDREN = 4
CHANGED = 3
"""The child whose tool gives another result in the fork."""


@tool(effect="read")
def measure(place: int) -> str:
    """Measure a place."""
    return f"{place * 10} degrees"


def _policy(request: ModelRequest) -> Step:
    told = b"".join(bytes(one) for one in request.messages).decode()
    if request.profile == "host":
        if request.turn == 1:
            return calls(
                *(
                    call("task", agent="child", prompt=f"Place {n}", output_schema=SCHEMA)
                    for n in range(1, CHILDREN + 1)
                )
            )
        return say("It is hot." if "999" in told else "It is mild.")
    place = int(request.address.rpartition(".")[2])
    if request.turn == 1:
        return call("measure", place=place)
    return call("report_back", degrees=999 if "999" in told else place * 10)


@cache
def fork_log() -> tuple[MemoryLog, str]:
    """Record a session named origin and a fork of it; return the log and the id of the fork."""
    child = Agent("child", description="Measures.", tools=[measure])
    host = Agent("host", agents=[child])
    model = ScriptedModel(_policy, usage=Usage(input_tokens=300, output_tokens=40), prices=Prices(3, 15))

    async def main() -> tuple[MemoryLog, str]:
        log = MemoryLog()
        async with Runtime(log, model=model) as runtime:
            await runtime.run(host, "How warm is it?", session_id="origin")
            changes: dict[tuple[str, int, int] | int, object] = {(f"host.{CHANGED}", 1, 0): "999 degrees"}
            session = await runtime.fork("origin", host, changes=changes)
            await session.outcome
            await session.close()
            return log, session.session_id

    return asyncio.run(main())


def origin_and_fork() -> tuple[Recording, Recording]:
    """Return the recordings of both."""
    log, name = fork_log()
    return Recording.open(MemoryReader(log), "origin"), Recording.open(MemoryReader(log), name)
