"""Sessions with tools of MCP servers, and what became of their calls."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from callboard import Agent, MCPServer, ModelRequest, Reply, Runtime, ScriptedModel, call, say
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.log import MemoryLog
from callboard.runtime.log.protocol import EventLog, event_of

RAW = Path(__file__).with_name("raw_server.py")
NAME = "one"


def raw(notes: Path, mode: str = "", **options: Any) -> MCPServer:
    """Return the server of raw_server.py. notes: the file of its calls."""
    return MCPServer([sys.executable, str(RAW), str(notes), mode], **options)


def calls_of(notes: Path) -> list[str]:
    return notes.read_text().split() if notes.exists() else []


def asking(*asked: str | tuple[str, dict[str, object]] | None) -> ScriptedModel:
    """Return a model that makes these calls, one a turn, and then ends. None ends an ask between them."""

    def policy(request: ModelRequest) -> Reply:
        done = sum(message["role"] == "assistant" for message in request.conversation)
        one = asked[done] if done < len(asked) else None
        if one is None:
            return say("done")
        name, arguments = (one, {}) if isinstance(one, str) else one
        return Reply(calls=[call(name, **arguments)])

    return ScriptedModel(policy)


async def events_of(log: EventLog, name: str = NAME) -> list[Event]:
    return [event_of(name, row) for row in await log.read(name, 1, 10_000)]


async def returned(log: EventLog, name: str = NAME) -> list[tuple[str, Any]]:
    """Return the status and the output of each tool call."""
    bodies = [event.body for event in await events_of(log, name)]
    return [
        (body.status, json.loads(bytes(body.output))) for body in bodies if isinstance(body, ToolReturned)
    ]


def played(
    scene: Callable[[Runtime, MemoryLog], Awaitable[None]], model: ScriptedModel, **options: Any
) -> None:
    """Play a scene with a runtime on a log in memory."""

    async def main() -> None:
        log = MemoryLog()
        async with asyncio.timeout(60), Runtime(log, model=model, **options) as runtime:
            await scene(runtime, log)

    asyncio.run(main())


def outputs(server: MCPServer, *asked: Any, **limits: Any) -> list[tuple[str, Any]]:
    """Return what these calls of an agent with this server came to."""
    found: list[tuple[str, Any]] = []

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        outcome = await runtime.run(Agent("host", tools=[server]), "go", session_id=NAME, **limits)
        assert outcome.text == "done", outcome
        found.extend(await returned(log))

    played(scene, asking(*asked))
    return found


def is_alive(pid: int) -> bool:
    """Return True for a process that is there and has not ended. A zombie has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # before the file is opened, or between that and reading
        return False
    return "\nState:\tZ" not in status
