"""Runs that are made again: state that code keeps from run to run is told, and a stable run is left alone."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.explore import Explored, Plan, explore
from callboard.replay.testing.findings import lines
from callboard.replay.testing.monitors import KeptRun, always, at_rest, eventually, sometimes, unmet
from callboard.replay.testing.program import Actor, Posts, Program, ProgramWorld, Send
from callboard.replay.testing.run import Bounds, Run, perform, replay
from callboard.replay.testing.schedule import Schedule
from callboard.replay.testing.schedulers.sampling import Turns
from callboard.replay.testing.world import Monitor, Move, Violation
from tests.replay.testing.programs import collector
from tests.tables import table


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


@table("kind", [always, at_rest, eventually, sometimes])
@table(
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


KEPT: list[object] = []
Stepped: TypeAlias = tuple[Any, Sequence[tuple[str, object]]]


def counting(state: Any, sender: str, message: Any) -> Stepped:
    return (state, message), []


def keeping(state: Any, sender: str, message: Any) -> Stepped:
    KEPT.append(message)
    return (state, len(KEPT)), []


def program(step: Callable[[Any, str, Any], Stepped]) -> Program:
    return Program({"a": Actor(0, step)}, [Send(f"boss{n}", "a", n) for n in range(3)])


def explored(
    step: Callable[[Any, str, Any], tuple[Any, Sequence[Any]]], *rules: Any, runs: int = 5
) -> Explored:
    KEPT.clear()
    return explore(program(step).world, rules, Plan("random", runs))


def test_code_that_keeps_nothing_is_stable() -> None:
    assert explored(counting).unstable is None
    found = explored(counting, always("At most one is counted.", lambda world: "1" not in str(world.states)))
    assert found.unstable is None
    assert found.counterexamples


def test_a_state_that_depends_on_earlier_runs_is_told() -> None:
    found = explored(keeping)
    assert found.unstable is not None
    assert (found.unstable.run, found.unstable.difference) == (1, "the states after the last step")
    assert not found.is_ok
    assert lines(found)[0] == "your code keeps state between runs: run 1, made again, is another run"


def test_a_rule_that_is_broken_only_by_earlier_runs_is_no_counterexample() -> None:
    found = explored(keeping, always("Three are kept at most.", lambda world: len(KEPT) <= 3), runs=50)
    assert found.unstable is not None
    assert found.unstable.run == 2
    assert "Three are kept at most." in found.unstable.difference
    assert found.counterexamples == ()
    assert found.figures.runs == 2


def test_a_rule_that_is_broken_before_the_first_step_of_a_later_run_is_told() -> None:
    found = explored(keeping, always("Few are kept.", lambda world: len(KEPT) < 6), runs=50)
    assert found.unstable is not None
    assert found.counterexamples == ()


def test_a_run_that_cannot_be_made_again_is_told() -> None:
    def once(state: Any, sender: str, message: Any) -> Stepped:
        KEPT.append(message)
        return state, [("b", "new")] if len(KEPT) == 1 else []

    KEPT.clear()
    two = Program({"a": Actor(0, once), "b": Actor(0, counting)}, [Send("boss", "a", 1)])
    found = explore(two.world, (), Plan("random", 3))
    assert found.unstable is not None
    assert "cannot be made" in found.unstable.difference


@pytest.mark.parametrize("of_rules_only", [False, True])
def test_a_kept_run_is_compared_by_its_rules_at_least(of_rules_only: bool) -> None:
    rule = always("No two.", lambda world: len(str(world.states["a"])) < 8)
    world: ProgramWorld = program(counting).world()
    turns = Turns()

    def choose(offered: Sequence[Move]) -> Move:
        return turns.first(offered)

    run = perform(world, [rule], choose, choose)
    kept = KeptRun.of(world, run)
    assert run.violation is not None
    assert kept.difference(program(counting).world, [rule], of_rules_only=of_rules_only) == ""
    never = always("No two.", lambda world: True)
    told = kept.difference(program(counting).world, [never], of_rules_only=of_rules_only)
    assert told == "a rule is broken after step 2 in the first, not at all in the second: No two."
    fewer = kept._replace(schedule=Schedule((*kept.schedule.strands, "inbox z")))
    assert "cannot be made" in fewer.difference(program(counting).world, [rule])
