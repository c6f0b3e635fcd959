"""Rules that runs must keep: always, at rest, eventually; and goals that a campaign must reach: sometimes.

Rules
  - always: holds at the start and after every step.
  - at_rest: holds when nothing more is going to happen.
  - eventually: a rule that may be broken for a while (the monitor is hot) but must come to hold (cold). Hot
    at rest is a violation. So is hot for longer than 5 N steps of the fair part of a run, N being the steps
    of the unfair part and 10 N the most a run may have (the rule of Coyote,
    https://microsoft.github.io/coyote/how-to/liveness-checking).
  - sometimes: no rule for a run. A campaign in which no run reached the goal has not explored enough.
  - A rule is one sentence that is true of a good run: "No two leaders have one term".
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.world import Violation, World

Predicate: TypeAlias = Callable[[Any], bool]
"""Of a world of any kind, so that a lambda will do."""

HOT_FACTOR = 5
"""So many times N steps a rule may be hot in the fair part; from Coyote."""


def _rule(sentence: str, holds: Predicate) -> tuple[str, Predicate]:
    """Return a sentence and a function. Raises MisuseError if they are not."""
    if not isinstance(sentence, str) or not sentence.strip() or not callable(holds):
        raise MisuseError(
            f"a rule is a sentence and a function of the world, not {sentence!r:.80} and {holds!r:.80}"
        )
    return sentence, holds


class _Quiet:
    """What a monitor does if nothing else is said: nothing."""

    def begin(self, steps: int) -> None:
        """Begin a run; nothing is kept from the last."""

    def after(self, world: World, at: int, fair_steps: int) -> Violation | None:
        """Ignore a step."""
        return None

    def at_rest(self, world: World, at: int) -> Violation | None:
        """Ignore the end."""
        return None


class Always(_Quiet):
    """`holds(world)` at the start and after every step."""

    def __init__(self, rule: str, holds: Predicate) -> None:
        self.rule, self._holds = _rule(rule, holds)

    def after(self, world: World, at: int, fair_steps: int) -> Violation | None:
        """Return the violation if it does not hold now."""
        return None if self._holds(world) else Violation(self.rule, at)


class AtRest(_Quiet):
    """`holds(world)` when nothing more is going to happen."""

    def __init__(self, rule: str, holds: Predicate) -> None:
        self.rule, self._holds = _rule(rule, holds)

    def at_rest(self, world: World, at: int) -> Violation | None:
        """Return the violation if it does not hold at rest."""
        return None if self._holds(world) else Violation(self.rule, at)


class Eventually(_Quiet):
    """`is_cold(world)` in the end, and again and again in a run that does not end."""

    def __init__(self, rule: str, is_cold: Predicate) -> None:
        self.rule, self._is_cold = _rule(rule, is_cold)
        self._hot_steps_max = 0
        self._hot_steps = 0

    def begin(self, steps: int) -> None:
        """Begin a run cold."""
        self._hot_steps_max = HOT_FACTOR * steps
        self._hot_steps = 0

    def after(self, world: World, at: int, fair_steps: int) -> Violation | None:
        """Return the violation if it was hot for too long in the fair part."""
        if not fair_steps:  # an unfair scheduler may starve an actor, so a long hot stretch proves nothing
            return None
        self._hot_steps = 0 if self._is_cold(world) else self._hot_steps + 1
        return Violation(self.rule, at) if self._hot_steps > self._hot_steps_max else None

    def at_rest(self, world: World, at: int) -> Violation | None:
        """Return the violation if it is hot at rest, and so stays hot."""
        return None if self._is_cold(world) else Violation(self.rule, at)


class Sometimes(_Quiet):
    """A goal: some run of the campaign must come to a world for which `is_reached(world)`."""

    def __init__(self, goal: str, is_reached: Predicate) -> None:
        self.goal, self._is_reached = _rule(goal, is_reached)
        self.is_met = False

    def after(self, world: World, at: int, fair_steps: int) -> Violation | None:
        """Look for the goal until it is met once; never return a violation."""
        if not self.is_met and self._is_reached(world):
            self.is_met = True
        return None


always = Always
at_rest = AtRest
eventually = Eventually
sometimes = Sometimes


def unmet(monitors: Iterable[object]) -> tuple[str, ...]:
    """Return the goals among `monitors` that no run has met."""
    return tuple(one.goal for one in monitors if isinstance(one, Sometimes) and not one.is_met)
