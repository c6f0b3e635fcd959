"""A candidate for a shorter run: the moves of a list as far as they are offered, then everyone in turn.

Rules
  - A move that is not offered when its turn comes is left out. With `waits` it is waited for: meanwhile the
    others are made, the one that has waited longest first.
  - completes: where the list ends, the second part of the run begins: no faults, first come, first served,
    until it is at rest. Rules about the end need that. Else the run stops there.
  - To reverse a race, the run is made as far as the race, then the later step with all that it needs, then
    the rest. It shows that the order decides only if it lost no step: one that did may keep the rule for that
    reason.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from callboard.replay.testing.happens_before import Order
from callboard.replay.testing.run import FAIR_FACTOR, Bounds, Run, not_faults, perform
from callboard.replay.testing.schedulers.sampling import Turns
from callboard.replay.testing.world import MakeWorld, Monitor, Move, W, by_strand

COUNTED_MAX = 200
"""Steps in which overtakings are counted: their pairs are."""


class Candidate(msgspec.Struct):
    """The run made from a list of strands. left: strands that were not made.

    since: for each move, the number of moves made before it was first offered.
    """

    run: Run
    since: list[int]
    left: list[str]

    @property
    def strands(self) -> list[str]:
        """Return the moves made."""
        return [move.strand for move in self.run.made]

    def is_simpler_than(self, other: "Candidate") -> bool:
        """Compare the moves from outside, then the steps, then the overtakings: fewer is simpler."""
        mine, others = self._size(), other._size()
        return mine < others or (mine == others and self.overtakings() < other.overtakings())

    def _size(self) -> tuple[int, int]:
        made = self.run.made
        return sum(move.kind in ("fault", "client") for move in made), len(made)

    def overtakings(self) -> int:
        """Pairs of moves made in another order than they came up in; not counted in long runs."""
        since = self.since[:COUNTED_MAX]
        return sum(since[b] < since[a] for b in range(len(since)) for a in range(b))


class _Chooser:
    """Chooses by a list, and notes since when each move was offered."""

    def __init__(self, strands: Sequence[str], waits: bool) -> None:
        self.left = list(strands)
        self.since: list[int] = []
        self._waits = waits
        self._turns = Turns()
        self._offered_since: dict[str, int] = {}

    def first(self, offered: Sequence[Move]) -> Move | None:
        """Return the next move of the list that is offered."""
        there = by_strand(offered)
        for index, strand in enumerate(self.left):
            if strand in there:
                del self.left[index * self._waits : index + 1]
                return self._note(there[strand], offered)
        owed = not_faults(offered)
        return self.second(owed) if self._waits and self.left and owed else None

    def second(self, offered: Sequence[Move]) -> Move:
        """Return the move that has waited longest."""
        return self._note(self._turns.first(offered), offered)

    def _note(self, chosen: Move, offered: Sequence[Move]) -> Move:
        now, known = len(self.since), self._offered_since
        self._offered_since = {move.strand: known.get(move.strand, now) for move in offered}
        self.since.append(self._offered_since.pop(chosen.strand))
        self._turns.first(offered)  # gives new strands their places in the queue
        self._turns.to_back(chosen)
        return chosen


def run_candidate(
    make_world: MakeWorld[W],
    strands: Sequence[str],
    monitors: Sequence[Monitor[W]],
    *,
    steps: int,
    completes: bool,
    waits: bool = False,
) -> Candidate:
    """Make the run. steps: N of its bounds."""
    chooser = _Chooser(strands, waits)
    length = len(strands) + steps if waits else max(len(strands), steps)
    bounds = Bounds(steps, FAIR_FACTOR * steps + length if waits else 0)
    run = perform(make_world(), monitors, chooser.first, chooser.second, bounds, length, goes_on=completes)
    return Candidate(run, chooser.since, chooser.left)


class Reversal(NamedTuple):
    """A run with one race reversed. strands: in order. head: how many of them end with the race."""

    strands: list[str]
    head: int

    def is_in(self, found: Candidate) -> bool:
        """Return whether a run reverses the race."""
        return found.strands[: self.head] == self.strands[: self.head]

    def holds(self, found: Candidate) -> bool:
        """Return whether a run reverses the race, loses no step, and keeps every rule to the end."""
        run = found.run
        return run.violation is None and run.is_at_rest and not found.left and self.is_in(found)


def reversal_of(order: Order, i: int, j: int) -> Reversal:
    """Return the run of `order` in which the step at index j, with all it needs, comes before that at i."""
    instead = order.without(i, j)
    rest = [k for k in range(i, len(order.steps)) if k not in instead]
    strands = [order.steps[k].strand for k in (*range(i), *instead, *rest)]
    return Reversal(strands, i + len(instead))
