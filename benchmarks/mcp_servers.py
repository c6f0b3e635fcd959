"""Tools of MCP servers beside the SDK's own client.

    python benchmarks/mcp_servers.py [call] [specs] [sessions] [images]

Prints a row of JSON for each: the cost of a call, of a long list of tools, of 50 sessions on one server, and
of an answer of 200 MB that is held up to its limit.
"""

import asyncio
import gc
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import mcp.types as types
from mcp import Client, StdioServerParameters
from mcp.server import MCPServer as SdkServer

from callboard import Agent, Limits, MCPServer, ModelRequest, Reply, Runtime, ScriptedModel, call, say
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.log import MemoryLog
from callboard.runtime.log.protocol import event_of
from callboard.runtime.mcp.live import LiveServer
from callboard.runtime.mcp.specs import specs_of
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.sources import Scope
from tests.runtime.mcp.test_large_images import LARGE, over_http, over_stdio

SESSIONS, CALLS = 50, 20
SLOW = """
import asyncio
from mcp.server import MCPServer
server = MCPServer("slow")

@server.tool()
async def nap(name: str) -> str:
    "Sleep for 20 ms."
    await asyncio.sleep(0.02)
    return name

server.run("stdio")
"""


async def least(call: Callable[[], Awaitable[object]], times: int = 200) -> float:
    """Return the least CPU milliseconds of a call."""
    found = []
    for _ in range(times):
        begun = time.process_time_ns()
        await call()
        found.append(time.process_time_ns() - begun)
    return min(found) / 1e6


async def one_call() -> dict[str, float]:
    """Compare a call, from entering the tool's function to its return, with `session.call_tool`."""
    server = SdkServer("adder")

    @server.tool()
    def add(a: int, b: int) -> str:
        """Add."""
        return str(a + b)

    live = LiveServer(MCPServer(server))
    (tool,) = await live.listed(Scope())
    ours_of: Any = tool.bind(Json(b'{"a":1,"b":2}'), ToolContext())
    async with Client(server) as client:
        await client.list_tools()
        theirs = await least(lambda: client.session.call_tool("add", {"a": 1, "b": 2}))
        ours = await least(ours_of)
        theirs = min(theirs, await least(lambda: client.session.call_tool("add", {"a": 1, "b": 2})))
    await live.aclose()
    return {"ours_ms": ours, "sdk_ms": theirs, "ratio": ours / theirs}


def list_of_tools() -> dict[str, float]:
    """Measure the way from 1,000 listed tools to specs."""
    properties = {f"field{n}": {"type": "string", "description": "A field."} for n in range(4)}
    schema = {"type": "object", "properties": properties, "required": ["field0"]}
    tools = [types.Tool(name=f"tool.{n}", description="Does it.", input_schema=schema) for n in range(1_000)]
    server = MCPServer("http://127.0.0.1:9/", effects={"tool.1*": "read"})
    found = []
    gc.collect()
    for _ in range(5):
        begun = time.process_time()
        assert len(specs_of(server, tools)) == 1_000
        found.append(time.process_time() - begun)
    return {"ms": min(found) * 1e3}


# --- many sessions ----------------------------------------------------------------


def asking(request: ModelRequest) -> Reply:
    """Make the calls of a session in one reply."""
    if len(request.conversation) > 1:
        return say("done")
    name: Any = request.conversation[0]["content"]
    return Reply(calls=[call("nap", name=f"{name} {n}") for n in range(CALLS)])


async def in_sessions() -> tuple[float, int]:
    """Return the seconds of the calls of all sessions on one server, and the wrong answers."""
    server = MCPServer([sys.executable, "-c", SLOW], share="runtime")
    host, log = Agent("host", tools=[server]), MemoryLog()
    async with Runtime(log, model=ScriptedModel(asking), limits=Limits(max_parallel_tools=CALLS)) as runtime:
        names = [f"s{n}" for n in range(SESSIONS)]
        sessions = [await runtime.open(host, session_id=name) for name in names]
        begun = time.perf_counter()
        await asyncio.gather(*(one.ask(one.session_id) for one in sessions))
        took = time.perf_counter() - begun
        return took, sum([await wrong_in(log, name) for name in names])


async def wrong_in(log: MemoryLog, name: str) -> int:
    """Count the answers of a session that are missing, errors, or for another session."""
    bodies = [event_of(name, row).body for row in await log.read(name, 1, 10_000)]
    wanted = {(n, "ok", f"{name} {n}") for n in range(CALLS)}
    got = [body for body in bodies if isinstance(body, ToolReturned)]
    return len(wanted ^ {(body.call, body.status, json.loads(bytes(body.output))) for body in got})


async def by_the_sdk() -> float:
    """Return the seconds of the same calls by one client of the SDK."""
    async with Client(StdioServerParameters(command=sys.executable, args=["-c", SLOW])) as client:
        await client.list_tools()
        names = [f"s{s} {n}" for s in range(SESSIONS) for n in range(CALLS)]
        begun = time.perf_counter()
        await asyncio.gather(*(client.session.call_tool("nap", {"name": name}) for name in names))
        return time.perf_counter() - begun


def sessions() -> dict[str, float]:
    """Compare 1,000 calls of 50 sessions with the same calls by one client: the better of three each."""
    ours, theirs, wrong = [], [], 0
    for _ in range(3):
        took, errors = asyncio.run(in_sessions())
        ours.append(took)
        wrong += errors
        theirs.append(asyncio.run(by_the_sdk()))
    return {"ours_s": min(ours), "sdk_s": min(theirs), "ratio": min(ours) / min(theirs), "wrong": wrong}


def images() -> dict[str, float]:
    """Measure the CPU seconds until an image of 200 MB is refused, over a process and over HTTP."""
    with tempfile.TemporaryDirectory() as temp:
        works: dict[str, Callable[[], object]] = {
            "stdio_s": lambda: over_stdio(Path(temp) / "notes", LARGE),
            "http_json_s": lambda: over_http(LARGE, is_json=True),
            "http_events_s": lambda: over_http(LARGE, is_json=False),
        }
        found = {}
        for name, work in works.items():
            begun = time.process_time()
            work()
            found[name] = time.process_time() - begun
    return found


PARTS: dict[str, Callable[[], dict[str, float]]] = {
    "call": lambda: asyncio.run(one_call()),
    "specs": list_of_tools,
    "sessions": sessions,
    "images": images,
}


def main() -> None:
    for name in sys.argv[1:] or PARTS:
        row = {key: round(value, 3) for key, value in PARTS[name]().items()}
        print(json.dumps({"part": name, **row}), flush=True)


if __name__ == "__main__":
    main()
