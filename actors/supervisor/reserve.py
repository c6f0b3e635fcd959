"""The account of what an agent keeps of its budget for itself: the agents below it have to leave that.

    purpose   kept for                                                      until
    turn      the agent's next turn, as it states the need of it            it requests that turn
    results   what that turn reads: the results of its delegations, and     it requests that turn
              the answers that tell it of a delegation in the background
    ends      the ends of its delegations in the background                 a request holds the end
    summary   a summary of its conversation, as its last turn states it     its next turn states it again

Rules
  - The parts are disjoint: each amount stands under one purpose, and their sum is kept.
  - A part is put in, moved and given back by the amount that was kept, so that no part outlives its purpose.
  - Calls in flight are no part of this account. They are booked in each scope, as `Record.reserved`.
  - One more purpose is one more field and one more row of `LASTS`. No function knows all purposes.
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import astuple, replace

from callboard.actors.protocol.usage import NOTHING, Need

Purpose: TypeAlias = Literal["turn", "results", "ends", "summary"]

LASTS: Final[Mapping[Purpose, Literal["turn", "given back"]]] = {
    "turn": "turn",
    "results": "turn",
    "ends": "given back",
    "summary": "turn",
}
"""The life of each purpose: up to the next turn of the agent, or until it is given back."""


def add(one: Need, other: Need) -> Need:
    """Return the sum of two needs."""
    if one is NOTHING:  # as for most agents: the sum is the other need itself, not a copy
        return other
    return Need(one.tokens + other.tokens, one.micro_usd + other.micro_usd)


def subtract(one: Need, other: Need) -> Need:
    """Return the difference of two needs."""
    return Need(one.tokens - other.tokens, one.micro_usd - other.micro_usd)


class Reserve(msgspec.Struct, frozen=True, gc=False):
    """The need that an agent keeps for each purpose."""

    turn: Need = NOTHING
    results: Need = NOTHING
    ends: Need = NOTHING
    summary: Need = NOTHING

    @property
    def total(self) -> Need:
        """Return the need that the agents below have to leave."""
        total = NOTHING
        for part in astuple(self):
            total = add(total, part)
        return total

    def plus(self, purpose: Purpose, need: Need) -> "Reserve":
        """Return the account with more for a purpose."""
        return self if need is NOTHING else replace(self, **{purpose: add(getattr(self, purpose), need)})

    def less(self, purpose: Purpose, need: Need) -> "Reserve":
        """Return the account with a need of a purpose given back."""
        return replace(self, **{purpose: subtract(getattr(self, purpose), need)})

    def at_new_turn(self) -> "Reserve":
        """Return the account of an agent that requests a turn: the part for that turn is free."""
        return replace(self, **{purpose: NOTHING for purpose, lasts in LASTS.items() if lasts == "turn"})


NO_RESERVE: Final = Reserve()
