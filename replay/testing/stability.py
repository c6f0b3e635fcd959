"""A run that is made again is the same run, unless code of the user keeps state from one run to the next.

    kept = KeptRun.of(world, run)
    kept.difference(make_world, monitors)     # "" if the same moves lead to the same run again

Rules
  - A campaign makes its first run again in the end, twice: where kept state goes round, as a counter does
    that picks one of three answers, the first time may begin as the campaign began.
  - A run that breaks a rule is made again before it is made small: if it then keeps the rule, it is no
    counterexample, and the campaign ends.
  - A rule that is broken before the first step, and was not in the run before, is the same: all worlds of a
    campaign start alike.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.replay.divergence import clipped_json, first_difference
from callboard.replay.testing.run import Run, replay_on
from callboard.replay.testing.schedule import Schedule, ScheduleMisfit
from callboard.replay.testing.world import MakeWorld, Monitor, Violation, W, World

_SHOWN_CHARS: Final = 100


class Unstable(msgspec.Struct, frozen=True):
    """Two runs of one schedule that differ. run: the number of the first, from 1. difference: in words."""

    run: int
    difference: str
    schedule: Schedule


class KeptRun(NamedTuple):
    """A run that was made, as far as another one is compared with it. log: of a session, else empty."""

    schedule: Schedule
    violation: Violation | None
    is_at_rest: bool
    log: Sequence[Event]
    digest: bytes

    @classmethod
    def of(cls, world: World, run: Run) -> "KeptRun":
        """Keep a run that is over."""
        return cls(run.schedule, run.violation, run.is_at_rest, log_of(world), world.digest())

    def difference(
        self, make_world: MakeWorld[W], monitors: Sequence[Monitor[W]], *, of_rules_only: bool = False
    ) -> str:
        """Make the run again, and return the first difference in words; empty without one.

        of_rules_only: only whether the rule is broken again, at the same step.
        """
        world = make_world()
        try:
            run = replay_on(world, self.schedule, monitors)
        except ScheduleMisfit as misfit:
            return f"step {misfit.at} of the second ({misfit.wanted}) cannot be made"
        if of_rules_only:
            return self._of_rules(run)
        return self._of_logs(log_of(world)) or self._of_rules(run) or self._of_states(world)

    def _of_logs(self, log: Sequence[Event]) -> str:
        for one, other in zip(self.log, log, strict=False):
            if one != other:
                field, first, second = first_difference(_json(one), _json(other), "")
                told = f"{_shown(first)} in the first, {_shown(second)} in the second"
                return f"event {one.seq} ({type(one.body).__name__} of {one.sender}){field}: {told}"
        if len(self.log) != len(log):
            return f"the first has {len(self.log)} events, the second {len(log)}"
        return ""

    def _of_rules(self, run: Run) -> str:
        first = self.violation
        found = [(one.rule, one.at) for one in run.violations]
        if first is not None and (first.rule, first.at) not in found:
            again = next((one for one in run.violations if one.rule == first.rule), None)
            told = _when(again) if again else "not at all"
            return f"a rule is broken {_when(first)} in the first, {told} in the second: {first.rule}"
        if first is None and self.is_at_rest and run.violation is not None:
            return f"a rule is broken {_when(run.violation)} in the second alone: {run.violation.rule}"
        return ""

    def _of_states(self, world: World) -> str:
        return "" if world.digest() == self.digest else "the states after the last step"


def log_of(world: World) -> Sequence[Event]:
    """Return the log of a session; empty for any other world."""
    log: Sequence[Event] = getattr(world, "log", ())
    return log


def _json(event: Event) -> object:
    return msgspec.json.decode(encode(event.body))


def _shown(value: object) -> str:
    return clipped_json(value)[:_SHOWN_CHARS]


def _when(violation: Violation) -> str:
    return f"after step {violation.at}" if violation.at else "before the first step"
