"""Who can send and receive. A child's address extends its parent's by its ordinal: `host.1.2`.

Addresses never depend on chance: the ordinal is taken when the supervisor handles the delegation.
"""

from functools import lru_cache
from typing import Final

SUPERVISOR: Final = "supervisor"
HOST: Final = "host"
BELOW_HOST: Final = "host."
"""What every sub-agent's address begins with."""

MODEL: Final = "model"
TOOLS: Final = "tools"
SCHEMA: Final = "schema"
CLOCK: Final = "clock"
APPROVALS: Final = "approvals"
CLIENT: Final = "client"

PORTS: Final = frozenset({MODEL, TOOLS, SCHEMA, CLOCK, APPROVALS, CLIENT})
"""The edges to the world: what they post is an input, never the output of a decider."""


def is_agent(address: str) -> bool:
    """Whether the address is the host's or a sub-agent's."""
    return address == HOST or address.startswith(BELOW_HOST)


def is_decider(address: str) -> bool:
    """Whether what this address posts is computed by a decider (and so checked by replay)."""
    return address not in PORTS


def child_of(parent: str, ordinal: int) -> str:
    """The address of a parent's child."""
    return f"{parent}.{ordinal}"


def parent_of(address: str) -> str:
    """The address that delegated to this one; the host's is the client's."""
    return address.rpartition(".")[0] or CLIENT


@lru_cache(maxsize=65_536)
def place_of(address: str) -> tuple[str, int]:
    """A sub-agent's parent, and its ordinal there."""
    parent, _, ordinal = address.rpartition(".")
    return parent, int(ordinal)


@lru_cache(maxsize=65_536)
def path_of(address: str) -> tuple[tuple[str, int], ...] | None:
    """The agents on the way from the host down to this one, each with its ordinal; None: it is no agent.

    >>> path_of("host.2.1"), path_of("host"), path_of("tools")
    ((('host.2', 2), ('host.2.1', 1)), (), None)
    """
    if not is_agent(address):
        return None
    steps: list[tuple[str, int]] = []
    while address != HOST:
        parent, ordinal = place_of(address)
        steps.append((address, ordinal))
        address = parent
    return tuple(reversed(steps))


def depth_of(address: str) -> int:
    """How deep an agent is: the host alone is 0."""
    return address.count(".")
