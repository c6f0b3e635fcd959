"""The rights of each agent, computed from the log alone: what the bundles above it and its own leave it.

In other words than the core's: no list is made narrower here. A name is permitted if every bundle permits it.

Profiles as the events of a log hold them, each read once: the runs of a campaign share most of theirs.
"""

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from callboard.actors.protocol.addresses import HOST, parent_of
from callboard.actors.protocol.bundles import Allowed, Bundle, Rights
from callboard.actors.protocol.client_messages import SessionOpened, resumed_in
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.layers import Layer, Layers
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.profiles import ModelSpec, Profile


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
