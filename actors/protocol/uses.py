"""Uses of rights in a tool: the files, hosts, secrets and memories that it reached through its context.

Rules
  - The port checks each use before it happens, with the rights of the agent as they are in the log.
  - A use needs a capability, whether or not the tool declares it. So a rule for a label also holds for a
    label that the call itself has read.
  - A `ToolReturned` names every write, host, secret and memory, and each read that brought labels.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from callboard.actors.protocol.immutable import Part
from callboard.actors.protocol.labels import NO_LABELS, Labels, united
from callboard.actors.protocol.layers import Layers, refusal_of, refused_by
from callboard.actors.protocol.refusals import denied

CAPABILITY: Final[Mapping[str, str]] = MappingProxyType(
    {"read": "files", "write": "files", "hosts": "network", "secrets": "secrets", "memory": "memory"}
)
"""The capability that the use of an entry needs."""


class Use(Part, frozen=True):
    """A use of one name. entry: a key of `CAPABILITY`.

    digest: of the bytes of a file. labels: of that file, or those
    that the use brought.
    """

    entry: str
    name: str
    digest: str = ""
    labels: Labels = NO_LABELS


def use_refusal(layers: Layers, entry: str, name: str, labels: Labels) -> str:
    """Return the words of a refusal of one use; empty if every layer permits it.

    entry: a key of `CAPABILITY`. labels: of all that the agent and its call have read.
    """
    if not layers:
        return ""
    by = refused_by(layers, entry, name)
    return denied(entry, name, by) if by else capability_refusal(layers, entry, labels)


def capability_refusal(layers: Layers, entry: str, labels: Labels) -> str:
    """Return the words of a refusal of all uses of an entry; empty if the layers permit some."""
    capability = CAPABILITY[entry]
    found = refusal_of(layers, capability, labels)
    return denied("capabilities", capability, found.by, found.label) if found else ""


def refusal_among(layers: Layers, uses: Iterable[Use], labels: Labels) -> str:
    """Return the words of a refusal of the first of these uses that is not permitted; empty if all are.

    uses: of one call, in order: a label that one brings counts from the next one on. labels: of the call.
    """
    read = labels
    for use in uses:
        if refusal := use_refusal(layers, use.entry, use.name, read):
            return refusal
        read = united(read, use.labels)
    return ""
