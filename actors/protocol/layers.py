"""The rights of an agent as the log holds them: one layer for each bundle above it, outermost first.

Rules
  - An agent may do what every layer permits. So a refusal names the bundle that denies, and every entry of
    the effective rights has a known origin.
  - A child's layers are those that its parent hands down, then its own. An equal layer is there once.
"""

from functools import reduce
from typing import NamedTuple, TypeAlias

from callboard.actors.protocol.bundles import FULL, NO_BUNDLE, Bundle, Names, Rights, narrow
from callboard.actors.protocol.immutable import Part

RUNTIME = "the runtime"
SESSION = "the session"


class Layer(Part, frozen=True):
    """The rights that one bundle leaves. by: the runtime, the session, or an agent by its name."""

    by: str
    rights: Rights = FULL


Layers: TypeAlias = tuple[Layer, ...]


class FilePrefixes(NamedTuple):
    """The paths below which an agent may read and write, from the session's root; None for no bound."""

    read: Names | None = None
    write: Names | None = None


class Refusal(NamedTuple):
    """A refusal. by: the holder of the bundle that denies. label: for which it denies, or empty."""

    by: str
    label: str = ""


def added(layers: Layers, by: str, rights: Rights) -> Layers:
    """Return layers with one more below them; the same if it bounds nothing or is there already."""
    layer = Layer(by, rights)
    return layers if rights == FULL or layer in layers else (*layers, layer)


def all_added(layers: Layers, more: Layers) -> Layers:
    """Return layers with more of them below, each that is not there already."""
    return reduce(lambda held, one: added(held, one.by, one.rights), more, layers)


def own_layers(handed: Layers, name: str, bundle: Bundle) -> Layers:
    """Return the layers of an agent. handed: those from above. name: of its profile."""
    return handed if bundle is NO_BUNDLE else added(handed, f"agent {name}", bundle.own)


def layers_below(handed: Layers, name: str, bundle: Bundle) -> Layers:
    """Return the layers that an agent hands down. handed: those from above. name: of its profile."""
    return handed if bundle is NO_BUNDLE else added(handed, f"agent {name}", bundle.below)


def effective(layers: Layers) -> Rights:
    """Return the rights that all layers leave together."""
    return reduce(narrow, (layer.rights for layer in layers), FULL)


def refused_by(layers: Layers, entry: str, name: str) -> str:
    """Return the holder of the first layer that does not permit a name; empty if all permit it."""
    for layer in layers:
        if not layer.rights.permits(entry, name):
            return layer.by
    return ""


def refusal_of(layers: Layers, capability: str, labels: Names) -> Refusal | None:
    """Return the refusal of a capability to an agent that has read these labels; None if it may use it."""
    if by := refused_by(layers, "capabilities", capability):
        return Refusal(by)
    if labels:
        for layer in layers:
            if label := layer.rights.label_against(capability, labels):
                return Refusal(layer.by, label)
    return None


def file_prefixes(layers: Layers) -> FilePrefixes:
    """Return the paths below which an agent with these layers may read and write."""
    allowed = effective(layers).allowed
    return FilePrefixes(allowed.read, allowed.write)
