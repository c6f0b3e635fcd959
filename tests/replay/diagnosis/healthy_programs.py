"""Healthy sessions of programs, recorded by the real runtime: they call, delegate, race, ask and wait."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import Call, Reply, ScriptedModel, call, calls, say
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool

SIZES = {"a.py": 9, "b.py": 3, "c.py": 7}


@dataclass
class Finding:
    file: str
    risk: int


@tool(effect="read")
def list_files() -> list[str]:
    """List the files."""
    return list(SIZES)


@tool(effect="write")
def open_ticket(file: str, risk: int) -> str:
    """Open a ticket."""
    return f"ticket of {file}: {risk}"


first = Agent("first", description="Reviews a file.")
second = Agent("second", description="Reviews a file, too.")


@program(agents=[first, second], tools=[list_files, open_ticket])
async def pipeline(ctx: ProgramContext, prompt: str) -> dict[str, Any]:
    """Let two agents race for each file, and open tickets."""

    async def review(file: str) -> str:
        async with asyncio.timeout(60):
            found = await ctx.delegate([first, second], f"Review {file}.", schema=Finding)
        return await ctx.call(open_ticket, file=file, risk=found.risk) if found.risk > 5 else file

    files = await ctx.call(list_files)
    reviewed = await asyncio.gather(*map(review, files))
    await ctx.sleep(0.001)
    worst = await ctx.ask_model(f"Which is the worst of {', '.join(reviewed)}?", schema=Finding)
    return {"worst": worst.file, "share": 1.0}


@program(tools=[list_files])
async def watch(ctx: ProgramContext, prompt: str) -> str:
    """Look for a new file five times, in vain."""
    for _ in range(5):
        await ctx.call(list_files)
        await ctx.sleep(0.001)
    return "There is no new file."


TOOL = {"name": "list_files", "description": "List the files.", "input_schema": {"type": "object"}}


@program(tools=[list_files])
async def conversation(ctx: ProgramContext, prompt: str) -> str:
    """Write the conversation with the model itself."""
    said: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    while True:
        reply = await ctx.ask_model(messages=said, tools=[TOOL], max_tokens=500)
        said.append(reply.message)
        if not reply.calls:
            return reply.text
        results = [
            {"type": "tool_result", "tool_use_id": one["id"], "content": str(await ctx.call(list_files))}
            for one in reply.calls
        ]
        said.append({"role": "user", "content": results})


HOST = Agent("host", agents=[pipeline, conversation])


def _answer(request: ModelRequest) -> Reply | Call:
    text = str(request.messages)
    match request.profile:
        case "host":
            if request.turn > 1:
                return say("Both have answered.")
            return calls(*(call("task", agent=name, prompt="Go.") for name in ("pipeline", "conversation")))
        case "first" | "second":
            file = next(name for name in SIZES if name in text)
            return call("report_back", file=file, risk=SIZES[file])
        case _ if "worst" in text:
            return call("report_back", file="a.py", risk=9)
        case _:
            return calls(call("list_files")) if request.length == 1 else say("There are 3 files.")


def _recorded(host: Agent) -> Recording:
    async def main() -> MemoryLog:
        log = MemoryLog()
        async with Runtime(log, model=ScriptedModel(_answer)) as runtime:
            await runtime.run(host, "Go.", session_id="one")
        return log

    return Recording.open(MemoryReader(asyncio.run(main())), "one")


def healthy_programs() -> Iterator[tuple[str, Recording]]:
    """Yield the name of each session, and the session: a program as host, and both below a model."""
    for host in (pipeline, conversation, watch, HOST):
        yield f"program {host.name}", _recorded(host)
