"""The rights and the tools of each agent.

The rights are computed from the log alone: what the bundles above it and its own leave it.

In other words than the core's: no list is made narrower here. A name is permitted if every bundle permits it.

Profiles as the events of a log hold them, each read once: the runs of a campaign share most of theirs.

The tools that each agent has, and those that a request offers with the messages that change them.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec

from callboard.actors.protocol.addresses import HOST, parent_of
from callboard.actors.protocol.bundles import Allowed, Bundle, Rights
from callboard.actors.protocol.client_messages import SessionOpened, resumed_in
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.layers import Layer, Layers
from callboard.actors.protocol.messages import Begin, ToolsGiven
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.actors.protocol.profiles import ModelSpec, Profile, ToolSpec
from callboard.actors.protocol.prompts import RESERVED
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.wishes import wish_in


class RightsInForce:
    """The rights of all agents after the events heard so far. handed: the layers from above each agent."""

    def __init__(self) -> None:
        self.handed: dict[str, Layers] = {}
        self._session: list[tuple[int, Layers]] = []
        self._bundles: dict[str, tuple[str, Bundle]] = {}

    def hear(self, event: Event) -> None:
        """Take in the next event of the log."""
        body, who = event.body, event.recipient
        if isinstance(body, SessionOpened) and not self._session:
            self._session.append((event.seq, body.permissions))
        elif (resumed := resumed_in(body)) is not None and resumed.permissions:
            self._session.append((event.seq, resumed.permissions))
        elif isinstance(body, Begin):
            self.handed[who] = self._session_at(event.cause) if who == HOST else self.below(parent_of(who))
            profile = profile_of(bytes(body.profile))
            self._bundles[who] = profile.name, profile.permissions

    def _session_at(self, seq: int) -> Layers:
        """Return the layers of the session once the event of this seq was handled."""
        found = [layer for at, layers in self._session if at <= seq for layer in layers]
        return tuple(dict.fromkeys(found))

    def below(self, who: str) -> Layers:
        """Return the layers that an agent hands down."""
        name, bundle = self._bundles.get(who, ("", Bundle()))
        return _with(
            self.handed.get(who, ()), name, bundle.do if bundle.delegate is None else bundle.delegate, bundle
        )

    def of(self, who: str) -> Layers:
        """Return the layers of an agent that has begun."""
        name, bundle = self._bundles.get(who, ("", Bundle()))
        return _with(self.handed.get(who, ()), name, bundle.do, bundle)

    def of_child(self, parent: str, profile: Profile) -> Layers:
        """Return the layers of an agent of this profile that a parent begins."""
        return _with(self.below(parent), profile.name, profile.permissions.do, profile.permissions)


def _with(above: Layers, name: str, allowed: Allowed, bundle: Bundle) -> Layers:
    layer = Layer(f"agent {name}", Rights(allowed, bundle.deny, bundle.when))
    return above if layer.rights == Rights() or layer in above else (*above, layer)


def permitted(layers: Layers, entry: str, name: str) -> bool:
    """Return whether every layer permits a name of an entry whose names may end with a `*`."""
    for layer in layers:
        allowed, denied = getattr(layer.rights.allowed, entry), getattr(layer.rights.denied, entry)
        if (allowed is not None and not _is_listed(name, allowed)) or _is_listed(name, denied):
            return False
    return True


def use_permitted(layers: Layers, entry: str, name: str) -> bool:
    """Return whether every layer permits the use of a file, a host, a secret or a memory."""
    if entry in ("secrets", "memory"):
        return permitted(layers, entry, name)
    lists = (getattr(layer.rights.allowed, entry) for layer in layers)
    is_in = _is_host_in if entry == "hosts" else _is_below
    return all(allowed is None or any(is_in(name, one) for one in allowed) for allowed in lists)


def _is_below(path: str, prefix: str) -> bool:
    above = [] if prefix == "." else prefix.split("/")
    return path.split("/")[: len(above)] == above


def _is_host_in(place: str, entry: str) -> bool:
    start, _, host = entry.partition("*")
    return place == entry or ("*" in entry and place.startswith(start) and place.endswith(host))


def label_against(layers: Layers, capability: str, labels: Iterable[str]) -> str:
    """Return a label for which a layer denies a capability; empty for none."""
    rules = [rule for layer in layers for rule in layer.rights.rules if _is_listed(capability, (rule.deny,))]
    return next((rule.label for rule in rules if rule.label in labels), "")


def models_permitted(layers: Layers, model: ModelSpec) -> bool:
    """Return whether an agent with these layers may use a model and those that it falls back to."""
    names = [] if model.is_program else [model.name, *(one.name for one in model.fallback)]
    return all(permitted(layers, "models", name) for name in names)


def _is_listed(name: str, entries: Iterable[str]) -> bool:
    return any(
        name[: len(entry) - 1] == entry[:-1] if entry.endswith("*") else name == entry for entry in entries
    )


@lru_cache(maxsize=1_024)
def profile_of(raw: bytes) -> Profile:
    """Return the profile in these bytes."""
    return msgspec.json.decode(raw, type=Profile)


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
        elif isinstance(body, ModelReplied) and body.stop_reason in ("pause_turn", "compaction"):
            self._pauses.add((who, event.seq))
        elif (wish := wish_in(body)) is not None and wish.attempt == 1:
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


def offered(request: ModelRequest) -> dict[str, object]:
    """Return the definition of each tool that a model knows at the end of a request, by name."""
    changes = tuple(bytes(message) for message in request.messages if is_about_tools(message))
    return _offered(tuple(map(bytes, request.tools)), changes)


@lru_cache(maxsize=1_024)
def _offered(fixed: tuple[bytes, ...], changes: tuple[bytes, ...]) -> dict[str, object]:
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


def _definition(spec: ToolSpec) -> dict[str, object]:
    extra = {} if spec.extra == NULL else msgspec.json.decode(spec.extra)
    about = {"name": spec.name, "description": spec.description}
    return {**about, "input_schema": msgspec.json.decode(spec.input_schema), **extra}


def _names(tool: Mapping[str, object]) -> tuple[object, ...]:
    return tool.get("name"), tool.get("type")
