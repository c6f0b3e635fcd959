"""Rules that runs must keep: always, at rest, eventually; and goals that a campaign must reach: sometimes.

A rule is one sentence that is true of a good run: "No two leaders have one term". One that must hold
`eventually` may be broken for a while (the monitor is hot) but must come to hold (cold). Hot at rest is a
violation. So is hot for longer than 5 N steps of the fair part of a run, N being the steps of the unfair part
and 10 N the most a run may have (https://microsoft.github.io/coyote/how-to/liveness-checking).

A run that is made again is the same run, unless code of the user keeps state from one run to the next.

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

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event
from callboard.replay.divergence import clipped_json, first_difference
from callboard.replay.testing.run import Run, replay_on
from callboard.replay.testing.schedule import Schedule, ScheduleMisfit
from callboard.replay.testing.world import MakeWorld, Monitor, Violation, W, World, place_of

Predicate: TypeAlias = Callable[[Any], bool]
"""A condition of a world of any kind, so that a lambda will do."""

HOT_FACTOR = 5
"""So many times N steps a rule may be hot in the fair part; from Coyote."""


class _Rule:
    """A sentence, and whether it holds in a world. A kind of rule says when it looks."""

    def __init__(self, rule: str, holds: Predicate) -> None:
        if not isinstance(rule, str) or not rule.strip() or not callable(holds):
            raise MisuseError(
                f"a rule is a sentence and a function of the world, not {rule!r:.80} and {holds!r:.80}"
            )
        _refuse_other_functions(rule, holds)
        self.rule, self._predicate = rule, holds

    def begin(self, steps: int) -> None:
        """Do nothing: a rule of this kind keeps nothing from one run to the next."""

    def after(self, world: World, at: int, fair_steps: int) -> Violation | None:
        """Ignore a step."""
        return None

    def at_rest(self, world: World, at: int) -> Violation | None:
        """Ignore the end."""
        return None

    def _holds(self, world: World) -> bool:
        """Return whether the sentence is true. Raises MisuseError if the rule itself is wrong."""
        try:
            found = self._predicate(world)
        except (AssertionError, MisuseError):  # a rule may assert, with a sentence of its own
            raise
        except Exception as error:
            raise MisuseError(
                f"the rule {self.rule!r} itself is wrong: it raised {type(error).__name__}: {error} "
                f"({place_of(error)})"
            ) from error
        if found is True or found is False:
            return found
        raise MisuseError(
            f"the rule {self.rule!r} itself is wrong: it returned {found!r:.80}; return True or False"
        )

    def _violation(self, world: World, at: int) -> Violation | None:
        """Return the violation if it does not hold now."""
        return None if self._holds(world) else Violation(self.rule, at)


def _refuse_other_functions(rule: str, holds: Predicate) -> None:
    """Refuse a function that does not take a world, or is asynchronous. Raises MisuseError."""
    if inspect.iscoroutinefunction(holds):
        raise MisuseError(f"the rule {rule!r} is an async function; a rule is a function of the world")
    try:
        inspect.signature(holds).bind(None)
    except TypeError as error:
        raise MisuseError(f"the rule {rule!r} is a function of the world alone: {error}") from None
    except ValueError:  # a function in C that does not tell its arguments
        pass


class Always(_Rule):
    """`holds(world)` at the start and after every step."""

    def after(self, world: World, at: int, fair_steps: int) -> Violation | None:
        """Return the violation if it does not hold now."""
        # Not by `_violation`: campaigns call this after each step.
        return None if self._holds(world) else Violation(self.rule, at)


class AtRest(_Rule):
    """`holds(world)` once nothing more can happen."""

    at_rest = _Rule._violation


class Eventually(_Rule):
    """`holds(world)` in the end, and again and again in a run that does not end."""

    at_rest = _Rule._violation  # hot at rest, it stays hot

    def begin(self, steps: int) -> None:
        """Begin a run, in which it need not hold yet."""
        self._hot_steps, self._hot_steps_max = 0, HOT_FACTOR * steps

    def after(self, world: World, at: int, fair_steps: int) -> Violation | None:
        """Return the violation if it has not held for too long in the fair part."""
        if not fair_steps:  # an unfair scheduler may starve an actor, so a long hot stretch proves nothing
            return None
        self._hot_steps = 0 if self._holds(world) else self._hot_steps + 1
        return Violation(self.rule, at) if self._hot_steps > self._hot_steps_max else None


class Sometimes(_Rule):
    """A goal: some run of the campaign must come to a world for which `holds(world)`."""

    is_met = False

    def after(self, world: World, at: int, fair_steps: int) -> Violation | None:
        """Look for the goal until it is met once; never return a violation."""
        self.is_met = self.is_met or self._holds(world)
        return None


always = Always
at_rest = AtRest
eventually = Eventually
sometimes = Sometimes


def unmet(monitors: Iterable[object]) -> tuple[str, ...]:
    """Return the goals among `monitors` that no run has met."""
    return tuple(one.rule for one in monitors if isinstance(one, Sometimes) and not one.is_met)


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
