from typing import Any

import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.monitors import always, at_rest, eventually, sometimes, unmet
from callboard.replay.testing.program import Actor, Posts, Program, ProgramWorld, Send
from callboard.replay.testing.run import Bounds, Run, perform, replay
from callboard.replay.testing.world import Monitor, Move, Violation
from tests.replay.testing.programs import collector


def first(offered: list[Move]) -> Move:
    return offered[0]


def run(program: Program, *monitors: Monitor[ProgramWorld], steps: int = 20) -> Run:
    return perform(program.world(), monitors, first, first, Bounds(steps))  # type: ignore[arg-type]  # a fixed order stands for a scheduler


def count(world: ProgramWorld) -> int:
    return len(world.states["c"])


def ticking(until: int) -> Program:
    """Make an actor that posts to itself until it has counted so far."""

    def step(state: int, sender: str, message: str) -> tuple[int, Posts]:
        return state + 1, [("t", "tick")] if state + 1 < until else ()

    return Program({"t": Actor(0, step)}, [Send("s", "t", "tick")])


def test_always_looks_at_the_start_and_after_every_step() -> None:
    program = collector("1", "2", "3")
    assert run(program, always("never", lambda world: False)).violation == Violation("never", 0)
    found = run(program, always("less than two", lambda world: count(world) < 2))
    assert found.violation == Violation("less than two", 2)
    assert run(program, always("ever", lambda world: True)).violation is None


def test_at_rest_looks_at_the_end_only() -> None:
    program = collector("1", "2")
    assert run(program, at_rest("two", lambda world: count(world) == 2)).violation is None
    found = run(program, at_rest("none", lambda world: count(world) == 0))
    assert found.violation == Violation("none", 2)


def test_at_rest_does_not_look_at_a_run_that_was_ended_by_its_bound() -> None:
    found = run(ticking(10_000), at_rest("none", lambda world: False), steps=5)
    assert (found.violation, found.is_at_rest, len(found.made)) == (None, False, 50)


def test_a_hot_state_at_rest_is_a_violation() -> None:
    cold = eventually("two", lambda world: count(world) == 2)
    assert run(collector("1", "2"), cold).violation is None
    assert run(collector("1", "2", "3"), cold).violation == Violation("two", 3)


def test_a_state_hot_for_more_than_five_times_n_fair_steps_is_a_violation() -> None:
    for last, is_broken in ((121, False), (122, True)):  # hot from step 21 on: for 100 steps, and for 101
        rule = eventually("it ends", lambda world, last=last: world.states["t"] >= last)  # type: ignore[misc]  # mypy infers no type of a lambda with a default
        found = run(ticking(10_000), rule, steps=20)
        assert found.healed_at == 20
        assert (found.violation == Violation("it ends", 121)) is is_broken


def test_heat_is_not_counted_while_choices_are_unfair() -> None:
    rule = eventually("it ends", lambda world: world.states["t"] >= 1_000)
    assert run(ticking(1_000), rule, steps=900).violation is None


def test_a_rule_forgets_the_last_run() -> None:
    rule = eventually("it ends", lambda world: False)
    rule.begin(1)
    world = ticking(2).world()
    assert [rule.after(world, at, at) is None for at in range(1, 7)] == [True] * 5 + [False]
    rule.begin(1)
    assert rule.after(world, 1, 1) is None


def test_goals_that_no_run_reached_are_named() -> None:
    reached = sometimes("three", lambda world: count(world) == 3)
    never = sometimes("four", lambda world: count(world) == 4)
    monitors = [reached, never, always("ever", lambda world: True)]
    assert unmet(monitors) == ("three", "four")
    assert run(collector("1", "2", "3"), *monitors).violation is None
    assert unmet(monitors) == ("four",)


def test_the_violation_of_a_long_run_is_found_again_in_its_replay() -> None:
    rule = eventually("it ends", lambda world: False)
    found = run(ticking(10_000), rule, steps=20)
    again = replay(ticking(10_000).world, found.schedule, [rule])
    assert again.violation == found.violation is not None


@pytest.mark.parametrize("make", [always, at_rest, eventually, sometimes])
def test_a_rule_that_is_no_sentence_or_no_function_is_refused(make: Any) -> None:
    for sentence, holds in (("x", 3), (3, bool), ("", bool), (" ", bool)):
        with pytest.raises(MisuseError, match="a rule is a sentence and a function of the world, not"):
            make(sentence, holds)


def fails(world: ProgramWorld) -> bool:
    raise KeyError("bookings")


@pytest.mark.parametrize("kind", [always, at_rest, eventually, sometimes])
@pytest.mark.parametrize(
    ("holds", "said"),
    [
        (fails, "raised KeyError: 'bookings' \\(test_monitors.py:[0-9]+ in fails\\)"),
        (lambda world: None, "returned None; return True or False"),
        (lambda world: 1, "returned 1; return True or False"),
    ],
)
def test_a_rule_that_fails_is_an_error_of_the_rule_and_no_broken_run(
    kind: Any, holds: Any, said: str
) -> None:
    with pytest.raises(MisuseError, match=f"the rule 'all is well' itself is wrong: it {said}"):
        run(collector("1"), kind("all is well", holds), steps=1)


def test_a_rule_may_assert_with_a_sentence_of_its_own() -> None:
    def holds(world: ProgramWorld) -> bool:
        if count(world):
            raise AssertionError("there is one")
        return True

    found = run(collector("1"), always("none", holds)).violation
    assert found is not None
    assert found.rule == "there is one"


async def waits(world: ProgramWorld) -> bool:
    return True


@pytest.mark.parametrize(
    ("holds", "said"),
    [
        (waits, "is an async function"),
        (lambda: True, "is a function of the world alone: too many positional arguments"),
        (lambda world, at: True, "is a function of the world alone: missing a required argument: 'at'"),
    ],
)
def test_a_rule_of_another_signature_is_refused_when_it_is_made(holds: Any, said: str) -> None:
    with pytest.raises(MisuseError, match=f"the rule 'all is well' {said}"):
        always("all is well", holds)
