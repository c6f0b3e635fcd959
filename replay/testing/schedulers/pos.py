"""Partial-order sampling: every pending event has a random priority, the highest goes first.

Rules
  - An event keeps its priority while it waits, and events that race with the one that was made (they have the
    same actor) draw a new one: so each pair of racing events is ordered by a coin of its own, and an order
    does not become unlikely because many unrelated steps lie in between, as it does in a random walk.
  - Source: Yuan, Yang, Gu, "Partial Order Aware Concurrency Sampling", CAV 2018.
"""

from collections.abc import Sequence
from random import Random

from callboard.replay.testing.schedulers.priorities import first_of
from callboard.replay.testing.world import Move, World


class Pos:
    """Priorities for the next event of each strand, drawn again after a race."""

    name = "pos"

    def __init__(self, rng: Random) -> None:
        self._random = rng.random
        self._priorities: dict[str, float] = {}

    def begin(self, world: World) -> bool:
        """Forget all priorities."""
        self._priorities.clear()
        return True

    def choose(self, offered: Sequence[Move]) -> Move | None:
        """Choose the move of the highest priority; moves that race with it draw again."""
        if len(offered) == 1:
            self._priorities.pop(offered[0].strand, None)
            return offered[0]
        priorities = self._priorities
        best = first_of(offered, priorities, self._random)
        for move in offered:
            if move.actor == best.actor:
                del priorities[move.strand]
        return best

    def finish(self, world: World) -> None:
        """Do nothing: a run teaches it nothing."""
