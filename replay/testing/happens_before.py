"""The happens-before order of a run, and its races.

Step a happened before step b if b handled what a posted, if both are of one strand, if they conflict (one
actor, or something that both touched), or if there is a step between them in this sense. A race is a pair in
conflict, with nothing in between, that could have gone the other way: neither posted the other's message, and
they are of different strands. A set of steps is the bits of a number: step 1 is bit 0.

The steps of a run that a broken rule does not need, although no smaller run is without them.

An inbox is first in, first out: an actor must handle a message that leads to nothing before the one that
matters. Such a step cannot be dropped from the run, but the run can be imagined without it: the message is
lost as it is taken from the inbox, all other moves are made, and the rule is broken at the same last step.

Rules
  - Only deliveries are lost. A client, a port and a fault are choices from outside, each of which is needed.
  - Only a rule that is broken by a step is asked: at rest much is broken by a message that is lost.
  - Of the steps that remain, none can be lost any more.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from callboard.replay.testing.run import Run
from callboard.replay.testing.world import (
    Heals,
    MakeWorld,
    Monitor,
    Skips,
    Step,
    Violation,
    W,
    by_strand,
)


def actor_of(step: Step) -> str:
    """Return the actor whose state the step changed."""
    return step.actor or step.recipient


def in_conflict(a: Step, b: Step) -> bool:
    """Return whether the order of two steps may matter."""
    return actor_of(a) == actor_of(b) or (bool(a.touched) and not set(a.touched).isdisjoint(b.touched))


class Order:
    """The partial order of `steps`. before[j]: the steps that happened before the one at index j."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.before: list[int] = []
        self._direct: list[list[int]] = []
        latest: dict[str, int] = {}
        for index, step in enumerate(steps):
            names = _names(step)
            direct = {latest[name] for name in names if name in latest}
            if step.cause:
                direct.add(step.cause - 1)
            self._direct.append(sorted(direct))
            self.before.append(self._with_earlier(direct))
            latest.update(dict.fromkeys(names, index))

    def _with_earlier(self, indices: Iterable[int]) -> int:
        """Return these steps and all that happened before them."""
        found = 0
        for index in indices:
            found |= self.before[index] | 1 << index
        return found

    def races(self, since: int = 0) -> list[tuple[int, int]]:
        """Pairs of indices (i, j) that race, with j >= since; the later races first."""
        last = len(self.steps) - 1
        return [(i, j) for j in range(last, since - 1, -1) for i in self._direct[j] if self._is_race(i, j)]

    def _is_race(self, i: int, j: int) -> bool:
        step, other = self.steps[j], self.steps[i]
        rest = self._with_earlier(k for k in self._direct[j] if k != i)
        is_ordered = rest >> i & 1 or step.cause == i + 1 or other.strand == step.strand
        return not is_ordered and in_conflict(other, step)

    def without(self, i: int, j: int) -> list[int]:
        """Return the steps between i and j that do not follow i, then j: they can replace i."""
        return [k for k in range(i + 1, j) if not self.before[k] >> i & 1] + [j]

    def initials(self, indices: Sequence[int]) -> list[int]:
        """Return those of `indices` that follow none of the others, so that each may come first."""
        mask = sum(1 << index for index in indices)
        return [index for index in indices if not self.before[index] & mask]


def _names(step: Step) -> list[str]:
    """Return the names that order this step with others."""
    return [f"actor {actor_of(step)}", f"strand {step.strand}", *(f"thing {name}" for name in step.touched)]


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
