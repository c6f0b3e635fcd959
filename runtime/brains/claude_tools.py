"""The tools of in-process MCP servers as tools of ours, and servers in front of them for the client.

The client calls a server of the same name with the same tools, whose calls are calls of the session. The
session calls the real server.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import mcp
import msgspec
from claude_agent_sdk import McpSdkServerConfig, SdkMcpTool, create_sdk_mcp_server

from callboard.actors.protocol.errors import InvalidAgent, ToolError
from callboard.actors.protocol.immutable import NULL, Json, JsonObject
from callboard.actors.protocol.prompts import changed_arguments, with_words_before
from callboard.runtime.brains.tool_terms import ToolTerms
from callboard.runtime.mcp.content import read_result
from callboard.runtime.programs.asks import Answer
from callboard.runtime.tools.output import Blocks
from callboard.runtime.tools.tool import Tool

Call = Callable[[str, JsonObject], Awaitable[Answer]]

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Served(NamedTuple):
    """A tool of a server. server: its name, and the object that serves it."""

    server: str
    instance: Any
    name: str
    description: str
    schema: JsonObject


def served_tools(servers: object) -> list[Served]:
    """Return the tools of the servers of a client. Raises InvalidAgent for one outside of this process."""
    if not isinstance(servers, Mapping):
        raise InvalidAgent(f"mcp_servers is {servers!r:.80}: give a dict of servers made in this process")
    for name, server in servers.items():
        if not isinstance(server, Mapping) or server.get("type") != "sdk":
            raise InvalidAgent(
                f"MCP server {name!r} is outside of this process, so its calls cannot be recorded; make it "
                "by `create_sdk_mcp_server`, or give it as `tools=[...]` of a host"
            )
    # On a thread of its own: an agent may be made where a loop runs.
    with ThreadPoolExecutor(1) as thread:
        found: list[Served] = thread.submit(lambda: asyncio.run(_listed(servers))).result()
    for place, tool in enumerate(found):
        if not _NAME.fullmatch(f"mcp__{tool.server}__{tool.name}"):
            raise InvalidAgent(
                f"tool {tool.name!r} of MCP server {tool.server!r} has a name that no model takes: together "
                "with `mcp__` and the server's, write at most 64 letters, digits, _ and -"
            )
        if any(tool.name == other.name for other in found[:place]):
            raise InvalidAgent(f"two tools of the client have the name {tool.name!r}; rename one")
    return found


async def _listed(servers: Mapping[str, Any]) -> list[Served]:
    found: list[Served] = []
    for server, config in servers.items():
        async with mcp.Client(config["instance"]) as client:
            for tool in (await client.list_tools()).tools:
                schema = dict(tool.input_schema)
                found.append(Served(server, config["instance"], tool.name, tool.description or "", schema))
    return found


def tools_of(served: Iterable[Served], terms: ToolTerms) -> list[Tool]:
    """Return the tools for the session. Raises InvalidAgent for terms of a tool that there is not."""
    known = {one.name: one for one in served}
    terms.check(known, "the client has")
    return [_tool(one, terms) for one in known.values()]


def _tool(one: Served, terms: ToolTerms) -> Tool:
    async def run(arguments: JsonObject) -> str | Blocks:
        async with mcp.Client(one.instance) as client:
            result = read_result((await client.call_tool(one.name, arguments)).model_dump(by_alias=True))
        if result.is_error:
            raise ToolError(result.text)
        return result.value

    effect, approval = terms.effect(one.name), terms.approval(one.name)
    return Tool(one.name, one.description, one.schema, run, effect, approval=approval)


def servers_of(served: Iterable[Served], call: Call) -> dict[str, McpSdkServerConfig]:
    """Return the servers for the client. call: calls a tool by the session."""
    tools: dict[str, list[SdkMcpTool[Any]]] = {}
    for one in served:
        tools.setdefault(one.server, []).append(_proxy(one, call))
    return {name: create_sdk_mcp_server(name, tools=found) for name, found in tools.items()}


def _proxy(one: Served, call: Call) -> SdkMcpTool[Any]:
    async def handle(arguments: JsonObject) -> JsonObject:
        answer = await call(one.name, arguments)
        content = answer.content
        if answer.changed != NULL:
            content = with_words_before(content, changed_arguments(answer.changed))
        return {"content": content_of(content), "is_error": answer.is_error}

    return SdkMcpTool(one.name, one.description, one.schema, handle)


def content_of(content: Json) -> list[JsonObject]:
    """Return the content of an answer as that of an MCP tool."""
    found = msgspec.json.decode(content)
    if not isinstance(found, list):
        return [{"type": "text", "text": "" if found is None else str(found)}]
    return [_part(block) for block in found]


def _part(block: JsonObject) -> JsonObject:
    source = block.get("source", {})
    if block["type"] == "image" and source.get("type") == "base64":
        return {"type": "image", "data": source["data"], "mimeType": source["media_type"]}
    text = block["text"] if block["type"] == "text" else msgspec.json.encode(block).decode()
    return {"type": "text", "text": text}
