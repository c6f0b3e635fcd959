"""The agents of a recording as they are now, for a replay of it with them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import Forked, Resumed, SessionOpened
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.shared_state import StateKey

Accepts: TypeAlias = Callable[[str, str, Json], str]
"""Returns why a tool of today refuses arguments, given profile, tool and arguments; '' if it takes them."""

Check: TypeAlias = Callable[[CheckSchema], SchemaChecked]
"""Checks a schema, or a value against one."""

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


def _accept_all(profile: str, tool: str, arguments: Json) -> str:
    """Return no objection to any call."""
    return ""


@dataclass(frozen=True)
class AgentsNow:
    """The agents as they are now.

    host, profiles: as in `SessionOpened`. model: of agents without one of their own; None for the recorded.
    state: the keys of the shared state. accepts: asked about each tool whose description has changed.
    check: asked about each schema that has changed; None if it cannot be checked.
    steps: the steps that a program does not repeat, by the seq of the recorded reply: both sides as a text.
    """

    host: str
    profiles: tuple[Json, ...]
    model: ModelSpec | None = None
    state: tuple[StateKey, ...] = ()
    accepts: Accepts = _accept_all
    check: Check | None = None
    steps: Mapping[int, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def recorded(cls, opened: SessionOpened) -> "AgentsNow":
        """Return the agents that a session was opened with."""
        return cls(opened.host, opened.profiles, state=opened.state)

    @cached_property
    def by_name(self) -> Mapping[str, Json]:
        """Return the profiles by their names."""
        return {_decode(one)["name"]: one for one in self.profiles}

    @cached_property
    def tools(self) -> Mapping[tuple[str, str], object]:
        """Return the descriptions of tools, by profile and name."""
        return tools_of(self.profiles)

    def put_into(self, body: AnyMessage) -> AnyMessage:
        """Return a client's message with these agents in place of the recorded ones."""
        if isinstance(body, Forked):
            return replace(body, resumed=self._resumed(body.resumed))
        if isinstance(body, Resumed):
            return self._resumed(body)
        return self._opened(body) if isinstance(body, SessionOpened) else body

    def _opened(self, body: SessionOpened) -> SessionOpened:
        known = {one.name for one in body.state}
        state = (*body.state, *(one for one in self.state if one.name not in known))
        mine = {"host": self.host, "profiles": self.profiles, "model": self.model or body.model}
        return replace(body, **mine, state=state)

    def _resumed(self, body: Resumed) -> Resumed:
        if not body.profiles:
            return body
        return replace(body, host=self.host, profiles=self.profiles, model=self.model or body.model)


def tools_of(profiles: tuple[Json, ...]) -> dict[tuple[str, str], object]:
    """Return the descriptions of the tools of profiles, by profile and name."""
    found = map(_decode, profiles)
    return {(one["name"], tool["name"]): tool for one in found for tool in one.get("tools", ())}
