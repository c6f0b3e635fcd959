"""What every scheduler is: it picks one of the moves that are offered, and learns from the runs it made.

Rules
  - A scheduler sees moves, and of the world what its moves touched: neither states nor messages. What it
    picks is the whole run.
  - Chance comes from the `random.Random` it is given; two schedulers with equal seeds make equal runs.
  - It lives for a whole campaign: `begin` before each run, `choose` before each step, `finish` after the run.
  - It says when it is done: `begin` returns False once there is nothing that it has not tried.
"""

from collections.abc import Sequence
from typing import Protocol

from callboard.replay.testing.world import Move, World


class Scheduler(Protocol):
    """Picks the moves of one run after the other."""

    @property
    def name(self) -> str:
        """Under which it is asked for and reported."""
        ...

    def begin(self, world: World) -> bool:
        """A new run of `world` starts. False: everything has been tried, there is no new run."""
        ...

    def choose(self, offered: Sequence[Move]) -> Move | None:
        """One of `offered`, which is not empty. None: whatever comes now was tried in an earlier run."""
        ...

    def finish(self, world: World) -> None:
        """The run is over, or goes on without this scheduler: `world` tells what happened in it."""
        ...
