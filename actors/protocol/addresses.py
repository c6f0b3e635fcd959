"""Addresses of senders and recipients. A child's address is its parent's and its ordinal: `host.1.2`.

The supervisor takes an ordinal when it handles the delegation, so addresses never depend on chance.
"""

import re
from functools import lru_cache
from typing import Final

SUPERVISOR: Final = "supervisor"
HOST: Final = "host"
BELOW_HOST: Final = "host."
"""The beginning of every sub-agent's address."""

MODEL: Final = "model"
TOOLS: Final = "tools"
SCHEMA: Final = "schema"
CLOCK: Final = "clock"
APPROVALS: Final = "approvals"
CAPACITY: Final = "capacity"
BUDGETS: Final = "budgets"
CONTEXT: Final = "context"
CLIENT: Final = "client"

PORTS: Final = frozenset({MODEL, TOOLS, SCHEMA, CLOCK, APPROVALS, CAPACITY, BUDGETS, CONTEXT, CLIENT})
"""The edges to the world. Their posts are inputs; no decider computes them."""

_ADDRESS: Final = re.compile(r"host(\.[1-9][0-9]{0,8})*")
_ADDRESS_CHARS_MAX: Final = 1_000


def is_agent(address: str) -> bool:
    """Return True for the address of the host or of a sub-agent."""
    return address == HOST or address.startswith(BELOW_HOST)


def names_agent(text: str) -> bool:
    """Return True if a text from outside is written as an agent's address: `host`, `host.1`, `host.1.2`.

    >>> names_agent("host.1.2"), names_agent("host.01"), names_agent("host."), names_agent("tools")
    (True, False, False, False)
    """
    return len(text) <= _ADDRESS_CHARS_MAX and _ADDRESS.fullmatch(text) is not None


def is_decider(address: str) -> bool:
    """Return True if a decider computes the posts of this address, so that replay checks them."""
    return address not in PORTS


def child_of(parent: str, ordinal: int) -> str:
    """Return the address of a parent's child."""
    return f"{parent}.{ordinal}"


def parent_of(address: str) -> str:
    """Return the address that delegated to this one; the client's for the host."""
    return address.rpartition(".")[0] or CLIENT


def place_of(address: str) -> tuple[str, int]:
    """Return a sub-agent's parent and its ordinal there."""
    parent, _, ordinal = address.rpartition(".")
    return parent, int(ordinal)


@lru_cache(maxsize=8_192)
def _step(address: str) -> tuple[str, int]:
    """Return an agent with its ordinal: one object for the paths of all agents below it."""
    return address, place_of(address)[1]


# An entry takes 230 bytes. With more agents than entries at work, a path takes 1 us to make again.
@lru_cache(maxsize=2_048)
def path_of(address: str) -> tuple[tuple[str, int], ...] | None:
    """Return the agents from the host's child down to this one, each with its ordinal; None for no agent.

    >>> path_of("host.2.1"), path_of("host"), path_of("tools")
    ((('host.2', 2), ('host.2.1', 1)), (), None)
    """
    if not is_agent(address):
        return None
    if address == HOST:
        return ()
    above, ordinal = place_of(address)
    steps = [(address, ordinal)]
    while above != HOST:
        steps.append(_step(above))
        above = parent_of(above)
    return tuple(reversed(steps))


def depth_of(address: str) -> int:
    """Return the depth of an agent. The host's is 0."""
    return address.count(".")
