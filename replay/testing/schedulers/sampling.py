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

Random walks that never repeat: each step picks evenly among the moves, less those that are used up.

A tree of the runs made so far is kept, and a branch whose every run was made is closed. So a small program
is exhausted, which is a proof. (To see each of 1,000 equally likely runs once takes 7,500 draws with
repetition.) When the tree has no more room, runs may repeat below the kept part.
"""

from array import array
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.run import Scheduler
from callboard.replay.testing.world import Move, World

DEPTHS = (1, 2, 3)
DELAYS = 2
STEPS_AT_FIRST = 30
"""The length of a run that is assumed before the first run."""
REMEMBERED = 50_000
"""Rows and branches that are kept, about 250 bytes each."""
_ARITY_MAX = 255


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


class _Branch:
    """A point with a choice that was reached before. n_open: how many of its children are not used up."""

    __slots__ = ("children", "n_open")

    def __init__(self, arity: int) -> None:
        self.children: list[_Child] = [None] * arity
        self.n_open = arity


_Row: TypeAlias = "array[int]"
"""The rest of a run that was made once: 256 arity + choice of each further point with a choice."""

_Child: TypeAlias = "_Branch | _Row | bool | None"
"""A branch, the rest of one run, True if used up, None if never tried."""


class RandomWalk(Scheduler):
    """Each run picks at random and is new. is_exhausted: every run there is was made."""

    name = "random"

    def __init__(self, rng: Random, remembered: int = REMEMBERED) -> None:
        self._random = rng.random
        self._left = self._room = remembered
        self._root: _Child = None
        self._path: list[tuple[_Branch, int]] = []
        self._at: _Child = None
        self._rest: list[int] = []
        self.is_exhausted = False

    @property
    def kept(self) -> int:
        """Return the number of rows and branches in memory."""
        return self._room - self._left

    def begin(self, world: World) -> bool:
        """Start at the root. False: every run was made."""
        self.is_exhausted = self._root is True
        self._path.clear()
        self._rest.clear()
        self._at = self._root
        return not self.is_exhausted

    def choose(self, offered: Sequence[Move]) -> Move | None:
        """Choose a move that leads to an unknown run."""
        arity = len(offered)
        if arity == 1:
            return offered[0]
        if self._at is None:
            index = int(self._random() * arity)
            self._rest.append(arity << 8 | index)
            return offered[index]
        if self._left <= 0 and isinstance(self._at, array):  # no room to unfold the row
            return offered[int(self._random() * arity)]
        return offered[self._within(arity)]

    def _within(self, arity: int) -> int:
        """Choose inside the tree: evenly among the open children."""
        branch = self._branch()
        children = branch.children
        if len(children) != arity:
            raise MisuseError(
                f"the world is not deterministic: the same {len(self._path)} choices led to {len(children)} "
                f"moves before and to {arity} now; a decider or port uses randomness, a clock, id() or set "
                "order"
            )
        still_open = [index for index, child in enumerate(children) if child is not True]
        index = still_open[int(self._random() * len(still_open))]
        self._path.append((branch, index))
        self._at = children[index]
        return index

    def _branch(self) -> _Branch:
        """Return the current branch; a row is unfolded by one point."""
        here = self._at
        if isinstance(here, _Branch):
            return here
        assert isinstance(here, array)
        arity, index = divmod(here[0], 256)
        branch, rest = _Branch(arity), here[1:]
        branch.children[index] = rest or True
        branch.n_open -= not rest
        self._left -= 1
        self._hang(branch)
        return branch

    def _hang(self, child: _Child) -> None:
        """Put `child` where the path ends."""
        if not self._path:
            self._root = child
        else:
            branch, index = self._path[-1]
            branch.children[index] = child

    def finish(self, world: World) -> None:
        """Record the run: add the rest of it to the tree, and close the parts it has used up."""
        if self._at is not None or not self._rest:
            self._close()
        elif self._left > 0 and max(self._rest) >> 8 <= _ARITY_MAX:
            self._left -= 1
            # One row, not a branch for each point: most runs are never met again, and a row is smaller.
            self._hang(array("H", self._rest))

    def _close(self) -> None:
        """Close the branches that the end of the run leaves without an open child."""
        if isinstance(self._at, _Branch | array):
            return  # an earlier run went on from here; this one was ended by a bound or a violation
        self._hang(True)
        while self._path:
            branch, _ = self._path.pop()
            branch.n_open -= 1
            if branch.n_open:
                return
            self._left += 1
            self._hang(True)
