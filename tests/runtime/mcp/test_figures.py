"""What a call and a list cost: CPU time, the least of many, beside the SDK's own."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from typing import Any

import mcp.types as types
import pytest
from mcp import Client
from mcp.server import MCPServer as SdkServer

from callboard import MCPServer, ToolContext
from callboard.actors.protocol.immutable import Json
from callboard.runtime.mcp.live import LiveServer
from callboard.runtime.mcp.specs import specs_of
from callboard.runtime.tools.sources import Scope


def adder() -> SdkServer:
    server = SdkServer("adder")

    @server.tool()
    def add(a: int, b: int) -> str:
        """Add."""
        return str(a + b)

    return server


async def least(call: Callable[[], Awaitable[object]], times: int = 200) -> float:
    found = []
    for _ in range(times):
        begun = time.process_time_ns()
        await call()
        found.append(time.process_time_ns() - begun)
    return min(found) / 1e6


async def ratio() -> float:
    """Return the cost of a tool's function to that of the SDK's call."""
    server = adder()
    live = LiveServer(MCPServer(server))
    (tool,) = await live.listed(Scope())
    call: Any = tool.bind(Json(b'{"a":1,"b":2}'), ToolContext())
    async with Client(server) as client:
        await client.list_tools()
        theirs = await least(lambda: client.session.call_tool("add", {"a": 1, "b": 2}))
        ours = await least(call)
        theirs = min(theirs, await least(lambda: client.session.call_tool("add", {"a": 1, "b": 2})))
    await live.aclose()
    return ours / theirs


@pytest.mark.slow
def test_a_call_costs_at_most_1_3_times_the_sdks() -> None:
    assert min(asyncio.run(ratio()) for _ in range(3)) <= 1.3


@pytest.mark.slow
def test_a_thousand_tools_become_specs_in_50_ms() -> None:
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
    assert min(found) <= 0.05


if __name__ == "__main__":
    print([round(asyncio.run(ratio()), 2) for _ in range(5)])
