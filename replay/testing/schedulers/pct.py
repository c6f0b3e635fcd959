"""PCT over strands: the strand of the highest priority moves, and at a few random points it falls to the
bottom.

Rules
  - Strands get random priorities when they first appear. A bug of depth d needs d orderings to hold: the
    priorities give one, d - 1 points at which the leading strand is put last give the others.
  - A campaign of w strands and n steps hits a bug of depth d with a probability of at least 1/(w n^(d-1)) a
    run (Burckhardt et al., ASPLOS 2010, with strands for threads). Where strands are found online for a
    partial order of width w there are at most w^2 of them, hence 1/(w^2 n^(d-1)) (Ozkan et al., PCTCP,
    OOPSLA 2018). Strands are given here, so `Statistics.bound` counts both and states the weaker.
  - d is cycled, since one that is too large hurts: with d = 3 a needle of 20 steps was found by 15 of 30
    campaigns, with d = 1 by all.
  - n is the longest run seen so far.
"""

from collections.abc import Sequence
from random import Random

from callboard.replay.testing.schedulers.priorities import first_of
from callboard.replay.testing.world import Move, World

DEPTHS = (1, 2, 3)
STEPS_AT_FIRST = 30
"""How long runs are taken to be before one was made."""


class Pct:
    """Priorities for strands, with d - 1 points at which the leader falls back. depths: cycled run by run."""

    name = "pct"

    def __init__(self, rng: Random, depths: Sequence[int] = DEPTHS) -> None:
        self._random = rng.random
        self._depths = depths
        self._runs = 0
        self._longest = 0
        self._at = 0
        self._priorities: dict[str, float] = {}
        self._falls: set[int] = set()
        self._lowest = 0.0

    def begin(self, world: World) -> bool:
        """Draw the points at which the leader falls back."""
        depth = self._depths[self._runs % len(self._depths)]
        self._runs += 1
        self._longest = max(self._longest, self._at)
        length = self._longest or STEPS_AT_FIRST
        self._falls = {1 + int(self._random() * length) for _ in range(depth - 1)}
        self._priorities.clear()
        self._at, self._lowest = 0, 0.0
        return True

    def choose(self, offered: Sequence[Move]) -> Move | None:
        """Choose the move of the leading strand; at a point of change, of the one after it."""
        self._at += 1
        if len(offered) == 1:
            return offered[0]
        best = first_of(offered, self._priorities, self._random)
        if self._at in self._falls:
            self._lowest -= 1.0
            self._priorities[best.strand] = self._lowest
            best = first_of(offered, self._priorities, self._random)
        return best

    def finish(self, world: World) -> None:
        """Do nothing: only the length of the run matters, and it was counted."""
