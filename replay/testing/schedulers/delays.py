"""Delay bounding: first come, first served, except that a few times the one whose turn it is must wait.

Rules
  - The default order is a queue of strands: a strand that moved goes to the back, as does a new one. It is
    fair and the same for every run.
  - A run has `delays` points, drawn over the length of the longest run so far, at which the first in the
    queue is sent to the back instead. Most bugs need one or two of them (Emmi, Qadeer, Rakamaric, POPL
    2011; the figures for 49 programs are in Thomson, Donaldson, Betts, TOPC 2016).
"""

from collections.abc import Sequence
from random import Random

from callboard.replay.testing.world import Move, World

DELAYS = 2
STEPS_AT_FIRST = 30


class Turns:
    """The queue of strands: who has waited longest goes first."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._next = 0

    def clear(self) -> None:
        """Forget the order of waiting."""
        self._places.clear()
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


class DelayBounded:
    """The queue with `delays` delays at random points."""

    name = "delays"

    def __init__(self, rng: Random, delays: int = DELAYS) -> None:
        self._random = rng.random
        self._delays = delays
        self._turns = Turns()
        self._points: set[int] = set()
        self._longest = 0
        self._at = 0

    def begin(self, world: World) -> bool:
        """Draw the points of delay."""
        self._longest = max(self._longest, self._at)
        length = self._longest or STEPS_AT_FIRST
        self._points = {1 + int(self._random() * length) for _ in range(self._delays)}
        self._turns.clear()
        self._at = 0
        return True

    def choose(self, offered: Sequence[Move]) -> Move | None:
        """Choose the move that has waited longest; at a point of delay, the one after it."""
        self._at += 1
        turns = self._turns
        move = turns.first(offered)
        if self._at in self._points:
            turns.to_back(move)
            move = turns.first(offered)
        turns.to_back(move)
        return move

    def finish(self, world: World) -> None:
        """Do nothing: only the length of the run matters, and it was counted."""
