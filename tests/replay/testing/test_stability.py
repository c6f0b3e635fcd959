"""Runs that are made again: state that code keeps from run to run is told, and a stable run is left alone."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pytest

from callboard.replay.testing.explore import Explored, Plan, explore
from callboard.replay.testing.findings import lines
from callboard.replay.testing.monitors import always
from callboard.replay.testing.program import Actor, Program, ProgramWorld, Send
from callboard.replay.testing.run import perform
from callboard.replay.testing.schedule import Schedule
from callboard.replay.testing.schedulers.sampling import Turns
from callboard.replay.testing.stability import KeptRun
from callboard.replay.testing.world import Move

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
