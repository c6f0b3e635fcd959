"""Random walks that never repeat: each step picks evenly among the moves, less those that are used up.

A tree of the runs made so far is kept, and a branch whose every run was made is closed. So a small program
is exhausted, which is a proof. (To see each of 1,000 equally likely runs once takes 7,500 draws with
repetition.) When the tree has no more room, runs may repeat below the kept part.
"""

from array import array
from collections.abc import Sequence
from random import Random
from typing import TypeAlias

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.run import Scheduler
from callboard.replay.testing.world import Move, World

REMEMBERED = 50_000
"""Rows and branches that are kept, about 250 bytes each."""

_ARITY_MAX = 255


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
