"""The steps of a run that a broken rule does not need, although no smaller run is without them.

An inbox is first in, first out: an actor must handle a message that leads to nothing before the one that
matters. Such a step cannot be dropped from the run, but the run can be imagined without it: the message is
lost as it is taken from the inbox, all other moves are made, and the rule is broken at the same last step.

Rules
  - Only deliveries are lost. A client, a port and a fault are choices from outside, each of which is needed.
  - Only a rule that is broken by a step is asked: at rest much is broken by a message that is lost.
  - Of the steps that remain, none can be lost any more.
"""

from collections.abc import Callable, Collection, Sequence

from callboard.replay.testing.run import Run
from callboard.replay.testing.world import (
    Heals,
    MakeWorld,
    Monitor,
    Skips,
    Violation,
    W,
    by_strand,
)


def unneeded_steps(
    make_world: MakeWorld[W],
    monitors: Sequence[Monitor[W]],
    run: Run,
    kept: Collection[int] = (),
    is_over: Callable[[], bool] = lambda: False,
) -> tuple[int, ...]:
    """Return the steps that can be lost, by their place from 1. kept: those to show in any case.

    is_over: asked before each try; True ends the search with the steps found so far.
    """
    broken, length = run.violation, len(run.made)
    if broken is None or broken.at != length or run.is_at_rest or not isinstance(make_world(), Skips):
        return ()
    if not _breaks(make_world, monitors, run, broken, frozenset()):  # by an exception, or by its end
        return ()
    places = [at for at in range(length - 1, 0, -1) if run.made[at - 1].kind == "deliver" and at not in kept]
    lost: frozenset[int] = frozenset()
    before = None
    while lost != before:
        before = lost
        for at in places:
            if is_over():
                return tuple(sorted(lost))
            if at not in lost and _breaks(make_world, monitors, run, broken, lost | {at}):
                lost |= {at}
    return tuple(sorted(lost))


def _breaks(
    make_world: MakeWorld[W],
    monitors: Sequence[Monitor[W]],
    run: Run,
    broken: Violation,
    lost: frozenset[int],
) -> bool:
    """Return whether the rule is broken after the last step, and not before, if these messages are lost."""
    world = make_world()
    for monitor in monitors:
        monitor.begin(run.steps)
    try:
        for at, made in enumerate(run.made, 1):
            if at - 1 == run.healed_at and isinstance(world, Heals):
                world.heal()
            move = by_strand(world.moves()).get(made.strand)
            if move is None or move.kind != made.kind:
                return False
            if at in lost and isinstance(world, Skips):
                world.skip(move)
            else:
                world.make(move)
            fair = 0 if run.healed_at is None else max(0, at - run.healed_at)
            found = [monitor.after(world, at, fair) for monitor in monitors]
            if any(one is not None and one.rule == broken.rule for one in found):
                return at == broken.at
    except Exception:  # a rule, or the world, without a message that it relies on
        return False
    return False
