"""Three schedulers that sample orders: by priorities of events, by priorities of strands, by delays.

POS    Every pending event has a random priority, and the highest goes first. Events that race with it (they
       have the same actor) draw again, so each pair of racing events is ordered by a coin of its own. In a
       random walk an order becomes unlikely when many unrelated steps lie in between.
       Source: Yuan, Yang, Gu, "Partial Order Aware Concurrency Sampling", CAV 2018.
PCT    Every strand has a random priority, and the highest moves. A bug of depth d needs d orderings: the
       priorities give one, and d - 1 random points, at which the leading strand is put last, give the others.
       With w strands and n steps a run hits such a bug with a probability of at least 1/(w n^(d-1))
       (Burckhardt et al., ASPLOS 2010, with strands for threads). Where strands are found online for a
       partial order of width w there are at most w^2 of them, hence 1/(w^2 n^(d-1)) (Ozkan et al., PCTCP,
       OOPSLA 2018). Strands are given here, so `Statistics.bound` counts both and states the weaker.
Delay  The strand that has waited longest moves, which is fair and the same for every run; at a few random
bounds points the first in the queue is sent to the back. Most bugs need one or two of them (Emmi, Qadeer,
       Rakamaric, POPL 2011; figures for 49 programs are in Thomson, Donaldson, Betts, TOPC 2016).
"""

from collections.abc import Callable, Sequence
from random import Random

from callboard.replay.testing.run import Scheduler
from callboard.replay.testing.world import Move, World

DEPTHS = (1, 2, 3)
DELAYS = 2
STEPS_AT_FIRST = 30
"""The length of a run that is assumed before the first run."""


def _first_of(offered: Sequence[Move], priorities: dict[str, float], draw: Callable[[], float]) -> Move:
    """Return the move whose strand has the highest priority; a new strand draws one, which is kept."""
    best, highest = offered[0], -float("inf")
    for move in offered:
        priority = priorities.get(move.strand)
        if priority is None:
            priority = priorities[move.strand] = draw()
        if priority > highest:
            best, highest = move, priority
    return best


class Pos(Scheduler):
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
        priorities = self._priorities
        if len(offered) == 1:
            priorities.pop(offered[0].strand, None)
            return offered[0]
        best = _first_of(offered, priorities, self._random)
        for move in offered:
            if move.actor == best.actor:
                del priorities[move.strand]
        return best


class _Points:
    """Random points of a run, drawn over the length of the longest run so far."""

    def __init__(self, draw: Callable[[], float]) -> None:
        self._draw = draw
        self._points: set[int] = set()
        self._longest = self._at = 0

    def begin(self, count: int) -> None:
        """Draw so many points for the next run."""
        self._longest = max(self._longest, self._at)
        length = self._longest or STEPS_AT_FIRST
        self._points = {1 + int(self._draw() * length) for _ in range(count)}
        self._at = 0

    def reach(self) -> bool:
        """Count one step. Return whether it is a point."""
        self._at += 1
        return self._at in self._points


class Pct(Scheduler):
    """Priorities for strands, with d - 1 points at which the leader falls back. depths: cycled run by run."""

    # Depths are cycled since one that is too large hurts: with d = 3 a needle of 20 steps was found by 15 of
    # 30 campaigns, with d = 1 by all.
    name = "pct"

    def __init__(self, rng: Random, depths: Sequence[int] = DEPTHS) -> None:
        self._random = rng.random
        self._depths = depths
        self._runs = 0
        self._points = _Points(rng.random)
        self._priorities: dict[str, float] = {}
        self._lowest = 0.0

    def begin(self, world: World) -> bool:
        """Draw the points at which the leader falls back."""
        self._points.begin(self._depths[self._runs % len(self._depths)] - 1)
        self._runs += 1
        self._priorities.clear()
        self._lowest = 0.0
        return True

    def choose(self, offered: Sequence[Move]) -> Move | None:
        """Choose the move of the leading strand; at a point of change, of the one after it."""
        is_point = self._points.reach()
        if len(offered) == 1:
            return offered[0]
        best = _first_of(offered, self._priorities, self._random)
        if is_point:
            self._lowest -= 1.0
            self._priorities[best.strand] = self._lowest
            best = _first_of(offered, self._priorities, self._random)
        return best


class Turns:
    """The queue of strands: a strand that moved goes to the back, as does a new one."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._next = 0

    def first(self, offered: Sequence[Move]) -> Move:
        """Return the move that has waited longest."""
        places = self._places
        best, least = offered[0], 1 << 60
        for move in offered:
            index = places.get(move.strand)
            if index is None:
                index = places[move.strand] = self._next
                self._next += 1
            if index < least:
                best, least = move, index
        return best

    def to_back(self, move: Move) -> None:
        """Move this strand to the back of the queue."""
        self._places[move.strand] = self._next
        self._next += 1


class DelayBounded(Scheduler):
    """The queue with `delays` delays at random points."""

    name = "delays"

    def __init__(self, rng: Random, delays: int = DELAYS) -> None:
        self._delays = delays
        self._points = _Points(rng.random)

    def begin(self, world: World) -> bool:
        """Draw the points of delay."""
        self._points.begin(self._delays)
        self._turns = Turns()
        return True

    def choose(self, offered: Sequence[Move]) -> Move | None:
        """Choose the move that has waited longest; at a point of delay, the one after it."""
        turns = self._turns
        move = turns.first(offered)
        if self._points.reach():
            turns.to_back(move)
            move = turns.first(offered)
        turns.to_back(move)
        return move
