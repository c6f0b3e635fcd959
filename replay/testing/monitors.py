"""Rules that runs must keep: always, at rest, eventually; and goals that a campaign must reach: sometimes.

A rule is one sentence that is true of a good run: "No two leaders have one term". One that must hold
`eventually` may be broken for a while (the monitor is hot) but must come to hold (cold). Hot at rest is a
violation. So is hot for longer than 5 N steps of the fair part of a run, N being the steps of the unfair part
and 10 N the most a run may have (https://microsoft.github.io/coyote/how-to/liveness-checking).
"""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.world import Violation, World, place_of

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
    """`holds(world)` (it is cold) in the end, and again and again in a run that does not end."""

    at_rest = _Rule._violation  # hot at rest, it stays hot

    def begin(self, steps: int) -> None:
        """Begin a run cold."""
        self._hot_steps, self._hot_steps_max = 0, HOT_FACTOR * steps

    def after(self, world: World, at: int, fair_steps: int) -> Violation | None:
        """Return the violation if it was hot for too long in the fair part."""
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
