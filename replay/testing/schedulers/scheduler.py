"""What every scheduler is: it picks one of the moves that are offered, and learns from the runs it made.

Rules
  - A scheduler sees moves, and of the world what its moves touched: neither states nor messages. Its
    picks are the whole run.
  - Chance comes from the `random.Random` it is given; two schedulers with equal seeds make equal runs.
  - It lives for a whole campaign: `begin` before each run, `choose` before each step, `finish` after the run.
"""

from collections.abc import Sequence
from typing import Protocol

from callboard.replay.testing.world import Move, World


class Scheduler(Protocol):
    """Picks the moves of one run after the other."""

    @property
    def name(self) -> str:
        """Return the name by which it is requested and reported."""
        ...

    def begin(self, world: World) -> bool:
        """Start a run of `world`. Return False if everything has been tried."""
        ...

    def choose(self, offered: Sequence[Move]) -> Move | None:
        """Choose one of `offered`, which is not empty. None: an earlier run has tried all that follows."""
        ...

    def finish(self, world: World) -> None:
        """End the run, which may go on without this scheduler: `world` holds what happened in it.
        A scheduler that learns nothing from a run inherits this.
        """
        return
