"""Race reversal: a run in which one race goes the other way, and all other moves are made too.

Rules
  - The run is made as far as the race, then the later step with all that it needs, then the rest. A move
    that is not offered when its turn comes is waited for: meanwhile the others are made, the one that has
    waited longest first. In the end the faults are over, and the run is completed first come, first served.
  - It shows that the order decides only if everything was made, faults included, and it came to rest with
    every rule kept. A run that lost a step may keep the rule for that reason.
"""

from collections.abc import Sequence

import msgspec

from callboard.replay.testing.happens_before import Order
from callboard.replay.testing.run import Bounds, Run, not_faults, perform
from callboard.replay.testing.schedulers.sampling import Turns
from callboard.replay.testing.world import MakeWorld, Monitor, Move, W


class Plan(msgspec.Struct, frozen=True):
    """The order of a reversed run. head: the strands up to and with the race, reversed. rest: the others."""

    head: list[str]
    rest: list[str]


def plan_of(order: Order, i: int, j: int) -> Plan:
    """Plan the run of `order` in which the step at index j, with all it needs, comes before that at i."""
    strands = [step.strand for step in order.steps]
    instead = order.without(i, j)
    rest = [strands[k] for k in range(i, len(strands)) if k not in instead]
    return Plan(strands[:i] + [strands[k] for k in instead], rest)


class _PlanChooser:
    """A chooser that makes the moves of a plan, and waits for those that are not offered yet.
    left: strands whose moves are not made.
    """

    def __init__(self, strands: Sequence[str]) -> None:
        self.left = list(strands)
        self._turns = Turns()

    def first(self, offered: Sequence[Move]) -> Move | None:
        """Return the next move of the plan that is offered, else the one that has waited longest."""
        there = {move.strand: move for move in offered}
        for index, strand in enumerate(self.left):
            if strand in there:
                del self.left[index]
                return self._take(there[strand], offered)
        owed = not_faults(offered)
        return self.second(owed) if self.left and owed else None

    def second(self, offered: Sequence[Move]) -> Move:
        """Return the move that has waited longest."""
        return self._take(self._turns.first(offered), offered)

    def _take(self, chosen: Move, offered: Sequence[Move]) -> Move:
        self._turns.first(offered)
        self._turns.to_back(chosen)
        return chosen


class ReversedRun(msgspec.Struct):
    """The run of a plan. left: the steps that it has lost."""

    run: Run
    plan: Plan
    left: list[str]

    @property
    def holds(self) -> bool:
        """Return whether the race is reversed, no step is lost, and every rule is kept to the end."""
        head = [move.strand for move in self.run.made[: len(self.plan.head)]]
        is_good = self.run.violation is None and self.run.is_at_rest
        return is_good and not self.left and head == self.plan.head


def reverse_race(
    make_world: MakeWorld[W], plan: Plan, monitors: Sequence[Monitor[W]], steps: int
) -> ReversedRun:
    """Make the run. steps: N of its bounds."""
    patient = _PlanChooser([*plan.head, *plan.rest])
    length = len(patient.left) + steps
    bounds = Bounds(steps, Bounds(steps).steps_in_all + length)
    run = perform(make_world(), monitors, patient.first, patient.second, bounds, length, goes_on=True)
    return ReversedRun(run, plan, patient.left)
