"""Replay: a schedule chooses, step by step, and is refused where it does not fit.

Rules
  - strict: every step is there, or it is an error that says which is not. A run that is over where the
    schedule is over has been replayed.
  - lenient: a step that is not there is left out. That is what shrinking needs: a shorter schedule is a
    guess, and the moves that it did make are the run.
"""

from collections.abc import Sequence

from callboard.replay.testing.run import Bounds, Run, perform
from callboard.replay.testing.schedule import Schedule, ScheduleMisfit
from callboard.replay.testing.world import MakeWorld, Monitor, Move, W, World


class Replay:
    """A scheduler that picks what a schedule says, for one run."""

    name = "replay"

    def __init__(self, schedule: Schedule) -> None:
        self._strands = schedule.strands
        self._at = 0
        self._runs = 0

    def begin(self, world: World) -> bool:
        """Return True once."""
        self._at = 0
        self._runs += 1
        return self._runs == 1

    def choose(self, offered: Sequence[Move]) -> Move | None:
        """Choose the move of the next strand; None at the end. Raises ScheduleMisfit."""
        if self._at == len(self._strands):
            return None
        wanted = self._strands[self._at]
        self._at += 1
        for move in offered:
            if move.strand == wanted:
                return move
        raise ScheduleMisfit(self._at, wanted, offered)

    def finish(self, world: World) -> None:
        """Do nothing: there is one run."""


def replay(make_world: MakeWorld[W], schedule: Schedule, monitors: Sequence[Monitor[W]] = ()) -> Run:
    """Make the run that `schedule` is. Raises ScheduleMisfit if the code does not offer it any more."""
    return replay_on(make_world(), schedule, monitors)


def replay_on(world: W, schedule: Schedule, monitors: Sequence[Monitor[W]] = ()) -> Run:
    """Replay on a world at its start that the caller keeps."""
    choose = Replay(schedule).choose
    length = len(schedule.strands)
    heal_at = length + 1 if schedule.healed_at is None else schedule.healed_at
    run = perform(world, monitors, choose, choose, Bounds(schedule.steps, length + 1), heal_at)
    if not run.violation and len(run.made) < length:
        raise ScheduleMisfit(len(run.made) + 1, schedule.strands[len(run.made)], ())
    return run
