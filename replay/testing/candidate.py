"""A candidate for a shorter run: the moves of a schedule as far as they are there, then everyone in turn.

Rules
  - A move that is not offered when its turn comes is left out.
  - completes: where the candidate ends, the second part of the run begins: no faults, first come, first
    served, until it is at rest. Rules about the end need that. Else the run stops there.
  - The run that came of it is what counts, and it is measured: fewer faults and client moves first, then
    fewer steps, then fewer moves that overtook one that was there before them.
"""

from collections.abc import Sequence

import msgspec

from callboard.replay.testing.run import Bounds, Run, perform
from callboard.replay.testing.schedulers.sampling import Turns
from callboard.replay.testing.world import MakeWorld, Monitor, Move, W

COUNTED_MAX = 200
"""Steps in which overtakings are counted: their pairs are."""


class Candidate(msgspec.Struct):
    """The run made from a candidate schedule. since: for each move, the number of moves made before it was
    first offered.
    """

    run: Run
    since: list[int]

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


class _CandidateChooser:
    """Chooses by a guess, and notes since when each move was offered."""

    def __init__(self, strands: Sequence[str]) -> None:
        self._strands = iter(strands)
        self._turns = Turns()
        self._offered_since: dict[str, int] = {}
        self.since: list[int] = []

    def first(self, offered: Sequence[Move]) -> Move | None:
        """Return the next move of the candidate that is offered."""
        there = {move.strand: move for move in offered}
        for strand in self._strands:
            if strand in there:
                return self._note(there[strand], offered)
        return None

    def second(self, offered: Sequence[Move]) -> Move | None:
        """Return the move that has waited longest."""
        return self._note(self._turns.first(offered), offered)

    def _note(self, chosen: Move, offered: Sequence[Move]) -> Move:
        now, known = len(self.since), self._offered_since
        self._offered_since = {move.strand: known.get(move.strand, now) for move in offered}
        self.since.append(self._offered_since.pop(chosen.strand))
        self._turns.first(offered)
        self._turns.to_back(chosen)
        return chosen


def run_candidate(
    make_world: MakeWorld[W],
    strands: Sequence[str],
    monitors: Sequence[Monitor[W]],
    *,
    completes: bool,
    steps: int,
) -> Candidate:
    """Make the run. steps: N of its bounds."""
    chooser = _CandidateChooser(strands)
    bounds = Bounds(steps)
    length = max(len(strands), steps)
    run = perform(make_world(), monitors, chooser.first, chooser.second, bounds, length, goes_on=completes)
    return Candidate(run, chooser.since)
