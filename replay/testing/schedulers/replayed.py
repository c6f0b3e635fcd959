"""Replay: a schedule chooses step by step, and is refused where it does not fit."""

from collections.abc import Sequence

from callboard.replay.testing.run import Bounds, Choose, Run, perform
from callboard.replay.testing.schedule import Schedule, ScheduleMisfit
from callboard.replay.testing.world import MakeWorld, Monitor, Move, W


def choice_of(schedule: Schedule) -> Choose:
    """Return a function that chooses the schedule's moves, then None; it raises ScheduleMisfit."""
    wanted = enumerate(schedule.strands, 1)

    def choose(offered: Sequence[Move]) -> Move | None:
        at, strand = next(wanted, (0, ""))
        if not at:
            return None
        for move in offered:
            if move.strand == strand:
                return move
        raise ScheduleMisfit(at, strand, offered)

    return choose


def replay(make_world: MakeWorld[W], schedule: Schedule, monitors: Sequence[Monitor[W]] = ()) -> Run:
    """Make the run that `schedule` is. Raises ScheduleMisfit if the code does not offer it any more."""
    return replay_on(make_world(), schedule, monitors)


def replay_on(world: W, schedule: Schedule, monitors: Sequence[Monitor[W]] = ()) -> Run:
    """Replay on a world at its start that the caller keeps."""
    choose = choice_of(schedule)
    length = len(schedule.strands)
    heal_at = length + 1 if schedule.healed_at is None else schedule.healed_at
    run = perform(world, monitors, choose, choose, Bounds(schedule.steps, length + 1), heal_at)
    if not run.violation and len(run.made) < length:
        raise ScheduleMisfit(len(run.made) + 1, schedule.strands[len(run.made)], ())
    return run
