"""The tools that a request offers: those of its `tools`, and the messages that change them."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.profiles import Profile, ToolSpec
from callboard.actors.protocol.prompts import RESERVED
from callboard.actors.protocol.request import ModelRequest


def offered(request: ModelRequest) -> dict[str, Any]:
    """Return the definition of each tool that a model knows at the end of a request, by name."""
    changes = tuple(bytes(message) for message in request.messages if is_about_tools(message))
    return _offered(tuple(map(bytes, request.tools)), changes)


@lru_cache(maxsize=1_024)
def _offered(fixed: tuple[bytes, ...], changes: tuple[bytes, ...]) -> dict[str, Any]:
    tools = {}
    for raw in fixed:
        tool = msgspec.json.decode(raw)
        tools[tool.get("name", tool.get("type"))] = tool
    for message in changes:
        for block in msgspec.json.decode(message)["content"]:
            if block["type"] == "tool_removal":
                del tools[block["tool"]["name"]]
            else:
                definition = block["tool"]["definition"]
                tools[definition["name"]] = definition
    return tools


def why_other_tools(request: ModelRequest, profile: Profile | None) -> str:
    """Return how the offered tools differ from the agent's own, or an empty text."""
    try:
        known = offered(request)
    except KeyError as missing:
        return f"a tool is removed that was not offered: {missing}"
    if profile is None:
        return ""
    servers = {name for raw in profile.server_tools for name in _names(msgspec.json.decode(raw))}
    wanted = {spec.name: _definition(spec) for spec in profile.tools}
    agents = {name for name in profile.agents if name not in wanted}  # those with a contract are tools, too
    others = RESERVED | servers | agents
    own = {name: tool for name, tool in known.items() if name not in others}
    if own == wanted:
        return ""
    return f"it offers {', '.join(own) or 'no tool'}, and the agent has {', '.join(wanted) or 'none'}"


def not_about_tools(request: ModelRequest) -> tuple[Json, ...]:
    """Return the messages of a request without those that change its tools."""
    return tuple(message for message in request.messages if not is_about_tools(message))


def is_about_tools(message: Json) -> bool:
    """Return whether a message changes the tools."""
    return bytes(message).startswith(b'{"role":"system"')


def _definition(spec: ToolSpec) -> dict[str, Any]:
    extra = {} if spec.extra == NULL else msgspec.json.decode(spec.extra)
    about = {"name": spec.name, "description": spec.description}
    return {**about, "input_schema": msgspec.json.decode(spec.input_schema), **extra}


def _names(tool: Mapping[str, Any]) -> tuple[Any, ...]:
    return tool.get("name"), tool.get("type")
