"""The tools that each agent has, and those that a request offers with the messages that change them."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import Begin, ToolsGiven, TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.actors.protocol.profiles import Profile, ToolSpec
from callboard.actors.protocol.prompts import RESERVED
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.rules.rights_in_force import profile_of


class ToolsInForce:
    """The tools of all agents after the events heard so far."""

    def __init__(self) -> None:
        self._profiles: dict[str, Profile] = {}
        self._changes: dict[str, list[tuple[int, Sequence[ToolSpec]]]] = {}
        self._pauses: set[tuple[str, int]] = set()

    def of(self, who: str) -> dict[str, ToolSpec]:
        """Return the tools of an agent as of its latest new request, by name."""
        profile = self._profiles.get(who)
        return {spec.name: spec for spec in profile.tools} if profile else {}

    def profile(self, who: str) -> Profile | None:
        """Return the profile of an agent, with those tools."""
        return self._profiles.get(who)

    def hear(self, event: Event) -> None:
        """Take in the next event of the log."""
        body, who = event.body, event.recipient
        if isinstance(body, Begin):
            self._profiles[who] = profile_of(bytes(body.profile))
            self._changes.pop(who, None)
        elif isinstance(body, ToolsGiven):
            self._changes.setdefault(who, []).append((event.seq, body.tools))
        elif isinstance(body, ToolReturned):
            self._take_own(event, body)
        elif isinstance(body, ModelReplied) and body.stop_reason == "pause_turn":
            self._pauses.add((who, event.seq))
        elif isinstance(body, TurnRequested) and body.attempt == 1:
            self._form(event.sender, event.cause)

    def _take_own(self, event: Event, returned: ToolReturned) -> None:
        """Take the tools that a tool has set for its own agent."""
        change, who = returned.tools, event.recipient
        profile = self._profiles.get(who)
        if change is None or profile is None or returned.status != "ok":
            return
        if change.address == who or change.profile == profile.name:
            self._changes.setdefault(who, []).append((event.seq, change.tools))

    def _form(self, who: str, cause: int) -> None:
        """Apply the changes that an agent had heard when it formed a new request."""
        if (who, cause) in self._pauses:  # the continuation repeats the earlier request
            return
        heard = [tools for seq, tools in self._changes.get(who, ()) if seq <= cause]
        if heard:
            self._changes[who] = self._changes[who][len(heard) :]
            profile = self._profiles[who]
            self._profiles[who] = msgspec.structs.replace(profile, tools=tuple(heard[-1]))


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


def changes_tools(before: ModelRequest | None, request: ModelRequest) -> bool:
    """Return whether a request offers other tools than the one before."""
    if before is None or (before.tools == request.tools and _told(before) == _told(request)):
        return False
    return offered(before) != offered(request)


def _told(request: ModelRequest) -> int:
    return request.length - len(not_about_tools(request))


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
