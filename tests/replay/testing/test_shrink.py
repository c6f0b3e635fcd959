from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from callboard.replay.testing.happens_before import Order
from callboard.replay.testing.monitors import always, at_rest, eventually
from callboard.replay.testing.program import Actor, Posts, Program, ProgramWorld, Send
from callboard.replay.testing.run import Bounds, perform, replay
from callboard.replay.testing.shrink import Candidate, Reversal, Shrunk, reversal_of, run_candidate, shrink
from callboard.replay.testing.world import MakeWorld, Monitor, Move, Step
from tests.replay.testing.programs import collect

EMPTY: tuple[str, ...] = ()


def last(offered: Sequence[Move]) -> Move | None:
    return offered[-1]


def small(program: Program, *monitors: Monitor[ProgramWorld], steps: int = 50) -> Shrunk:
    run = perform(program.world(), monitors, last, last, Bounds(steps))
    assert run.violation is not None
    found = shrink(program.world, run, monitors)
    again = replay(program.world, found.schedule, monitors)
    assert again.violation == found.violation
    assert len(again.made) == len(found.schedule.strands)
    return found


def crowd(size: int = 9) -> Program:
    """Make many senders to one actor, and another actor with senders of its own."""
    starts = [Send(f"s{number}", "c", f"m{number}") for number in range(size)]
    starts += [Send("user", "other", "ask"), Send("bad", "other", "crash")]
    actors = {"c": Actor(EMPTY, collect), "other": Actor(EMPTY, collect)}
    return Program(actors, starts, clients=["user"])


def test_only_the_steps_that_break_the_rule_are_left() -> None:
    rule = always("m3 is not there with m5", lambda world: not {"m3", "m5"} <= set(world.states["c"]))
    found = small(crowd(), rule)
    assert sorted(found.schedule.strands) == ["s3>c", "s5>c"]
    assert found.is_minimal
    assert len(perform(crowd().world(), [rule], last, last).made) > 2


def test_where_order_does_not_matter_nothing_overtakes_and_nothing_is_decided() -> None:
    forward: Actor[Any, str] = Actor(0, lambda state, sender, message: (state, [("c", message)]))
    actors: dict[str, Actor[Any, str]] = {"c": Actor(EMPTY, collect), "a": forward, "b": forward}
    program = Program(actors, [Send("s", name, "m") for name in "abc"])
    rule = always("less than three", lambda world: len(world.states["c"]) < 3)
    found = small(program, rule)
    assert (
        run_candidate(program.world, found.schedule.strands, [], completes=False, steps=50).overtakings() == 0
    )
    assert (len(found.schedule.strands), found.races) == (5, ())


def test_an_overtaking_that_matters_stays_and_is_named() -> None:
    rule = always("m1 is first of all", lambda world: world.states["c"][:1] in ((), ("m1",)))
    two = Program({"c": Actor(EMPTY, collect)}, [Send("s1", "c", "m1"), Send("s2", "c", "m2")])
    found = small(two, rule)
    assert found.schedule.strands == ("s2>c",)
    both = always("m1 comes before m2", lambda world: world.states["c"][:2] != ("m2", "m1"))
    found = small(two, both)
    assert found.schedule.strands == ("s2>c", "s1>c")
    assert found.races == found.decided_by == ((1, 2),)


def test_faults_and_clients_are_dropped_first_even_if_that_takes_more_steps() -> None:
    def step(state: int, sender: str, message: str) -> tuple[int, Posts]:
        return state + (3 if message == "fail" else 1), ()

    program = Program(
        {"a": Actor(0, step, faults=lambda state: ("fail",) if state < 3 else ())},
        [Send("s", "a", "tick") for _ in range(4)],
    )
    rule = always("less than three", lambda world: world.states["a"] < 3)
    assert len(perform(program.world(), [rule], last, last).made) == 1
    found = small(program, rule)
    assert found.schedule.strands == ("s>a",) * 3


def test_a_rule_of_the_end_is_shrunk_to_a_run_that_ends() -> None:
    rule = at_rest("m0 is not last", lambda world: world.states["c"][-1] != "m0")
    found = small(crowd(3), rule)
    run = replay(crowd(3).world, found.schedule, [rule])
    assert run.is_at_rest
    assert len(run.made) == 5


def test_a_rule_that_is_hot_for_too_long_is_shrunk_to_little_more_than_its_heat() -> None:
    def again(state: int, sender: str, message: str) -> tuple[int, Posts]:
        return state, [("a", "again")]

    program = Program(
        {"a": Actor(0, again), "c": Actor(EMPTY, collect)},
        [Send("s", "a", "again"), *(Send(f"s{number}", "c", "m") for number in range(5))],
    )
    found = small(program, eventually("it ends", lambda world: False), steps=10)
    assert len(found.schedule.strands) == 51
    assert found.schedule.healed_at == 0


def test_another_rule_that_is_broken_on_the_way_is_not_taken_for_it() -> None:
    def step(state: tuple[str, ...], sender: str, message: str) -> tuple[tuple[str, ...], Posts]:
        if message == "m1" and not state:
            raise ValueError("m1 may not be first")
        return (*state, message), ()

    program = Program(
        {"c": Actor(EMPTY, step)}, [Send(f"s{number}", "c", f"m{number}") for number in range(3)]
    )
    rule = always("m1 is not there", lambda world: "m1" not in world.states["c"])
    assert len(small(program, rule).schedule.strands) == 2


def test_a_search_without_the_means_says_so() -> None:
    rule = always("less than three", lambda world: len(world.states["c"]) < 3)
    run = perform(crowd().world(), [rule], last, last)
    found = shrink(crowd().world, run, [rule], budget_steps=5)
    assert not found.is_minimal
    assert replay(crowd().world, found.schedule, [rule]).violation == found.violation


class Forgetful(ProgramWorld):
    """A world whose trace does not say what let an actor wake."""

    def trace(self) -> Sequence[Step]:
        return [structs.replace(step, cause=0) for step in super().trace()]


def test_what_cannot_come_the_other_way_round_decides_nothing() -> None:
    counter: Actor[int, str] = Actor(
        0, lambda state, sender, message: (state + 1, ()), wakes=lambda state: (f"tick {state}",)
    )
    program = Program({"a": counter})
    rule = always("less than two", lambda world: world.states["a"] < 2)
    run = perform(Forgetful(program), [rule], last, last)
    assert len(run.made) == 2
    assert shrink(lambda: Forgetful(program), run, [rule]).races == ()


def test_an_order_that_does_not_matter_since_the_rule_is_broken_either_way_is_not_told() -> None:
    def step(state: int, sender: str, message: str) -> tuple[int, Posts]:
        if message == "open":
            return 1, ()
        return (2, ()) if state else (0, [("a", message)])  # who comes too early comes again

    program = Program({"a": Actor(0, step)}, [Send("s2", "a", "enter"), Send("s1", "a", "open")])
    found = small(program, always("nobody enters", lambda world: world.states["a"] < 2))
    assert found.schedule.strands == ("s1>a", "s2>a")
    assert (found.races, found.decided_by) == ((), ())


def test_a_search_without_time_keeps_its_finding_and_says_so() -> None:
    rule = always("less than three", lambda world: len(world.states["c"]) < 3)
    run = perform(crowd().world(), [rule], last, last)
    at_once = shrink(crowd().world, run, [rule], is_over=lambda: True)
    assert (at_once.schedule, at_once.violation, at_once.is_minimal) == (run.schedule, run.violation, False)
    asked: list[int] = []

    def is_over() -> bool:
        asked.append(1)
        return len(asked) > 4

    soon = shrink(crowd().world, run, [rule], is_over=is_over)
    assert (soon.tries, soon.is_minimal) == (4, False)
    assert replay(crowd().world, soon.schedule, [rule]).violation == soon.violation
    whole = shrink(crowd().world, run, [rule])
    assert len(whole.schedule.strands) <= len(soon.schedule.strands) <= len(run.made)


# --- candidates

TWO = Program({"c": Actor(EMPTY, collect)}, [Send("s1", "c", "m1"), Send("s2", "c", "m2")])
FINE = [always("m2 is not first", lambda world: world.states["c"][:1] != ("m2",))]

CROWD = Program(
    {"c": Actor(EMPTY, collect), "other": Actor(EMPTY, collect)},
    [
        Send("s0", "c", "m0"),
        Send("s1", "c", "m1"),
        Send("user", "other", "ask"),
        Send("bad", "other", "crash"),
    ],
    clients=["user"],
)


@pytest.mark.parametrize("completes", [True, False])
def test_a_guess_leaves_out_missing_steps(completes: bool) -> None:
    found = run_candidate(CROWD.world, ["s1>c", "s9>c", "s1>c"], [], completes=completes, steps=50)
    assert found.strands == (["s1>c", "s0>c", "user>other", "bad>other"] if completes else ["s1>c"])
    assert found.since == [0] * len(found.strands)
    assert found.overtakings() == 0


def test_a_guess_notes_since_when_moves_were_there() -> None:
    forward: Actor[Any, str] = Actor(0, lambda state, sender, message: (state, [("b", "m")]))
    program = Program(
        {"a": forward, "b": Actor(EMPTY, collect)}, [Send("s", "b", "early"), Send("s", "a", "go")]
    )
    found = run_candidate(program.world, ["s>a", "a>b", "s>b"], [], completes=False, steps=50)
    assert (found.since, found.overtakings()) == ([0, 1, 0], 1)


def reverse(
    make_world: MakeWorld[Any], head: list[str], rest: list[str], monitors: Sequence[Monitor[Any]], steps: int
) -> tuple[Candidate, bool]:
    """Make a reversed run; return it, and whether it shows something."""
    reversal = Reversal([*head, *rest], len(head))
    found = run_candidate(make_world, reversal.strands, monitors, steps=steps, completes=True, waits=True)
    return found, reversal.holds(found)


def test_the_later_step_and_its_causes_come_first() -> None:
    steps = [
        Step(1, "s1>c", "deliver", "s1", "c", "m1"),
        Step(2, "s2>d", "deliver", "s2", "d", "m2"),
        Step(3, "d>c", "deliver", "d", "c", "m3", cause=2),
    ]
    assert reversal_of(Order(steps), 0, 2) == Reversal(["s2>d", "d>c", "s1>c"], 2)


def test_what_keeps_every_rule_and_loses_nothing_holds() -> None:
    found, holds = reverse(TWO.world, ["s1>c"], ["s2>c"], FINE, 50)
    assert [move.strand for move in found.run.made] == ["s1>c", "s2>c"]
    assert holds
    assert not reverse(TWO.world, ["s2>c"], ["s1>c"], FINE, 50)[1]


def test_a_step_that_is_not_there_yet_is_waited_for() -> None:
    forward: Actor[str, str] = Actor("", lambda state, sender, message: (state, [("c", message)]))
    program = Program({"a": forward, "c": Actor(EMPTY, collect)}, [Send("s", "a", "m")])
    found, holds = reverse(program.world, [], ["a>c"], [], 50)
    assert [move.strand for move in found.run.made] == ["s>a", "a>c"]
    assert holds


def test_a_run_that_lost_a_step_shows_nothing() -> None:
    found, holds = reverse(TWO.world, ["s1>c"], ["s3>c"], FINE, 50)
    assert (found.run.violation, found.run.is_at_rest) == (None, True)
    assert (found.left, holds) == (["s3>c"], False)


def test_a_run_that_lost_a_fault_shows_nothing() -> None:
    def step(state: int, sender: str, message: str) -> tuple[int, Posts]:
        return state + 1, ()

    actor = Actor(0, step, faults=lambda state: ("fail",) if not state else ())
    program = Program({"a": actor}, [Send("s", "a", "m")])
    (fault,) = (move.strand for move in program.world().moves() if move.kind == "fault")
    assert reverse(program.world, [fault], ["s>a"], [], 50)[1]
    late, holds = reverse(program.world, ["s>a"], [fault], [], 50)
    assert (late.left, late.run.violation, holds) == ([fault], None, False)


def test_a_run_that_does_not_end_or_goes_another_way_shows_nothing() -> None:
    def again(state: int, sender: str, message: str) -> tuple[int, Posts]:
        return 0, [("a", "again")]

    program = Program({"a": Actor(0, again)}, [Send("s", "a", "again")])
    found, holds = reverse(program.world, ["s>a"], [], [], 5)
    assert (found.left, found.run.is_at_rest, holds) == ([], False, False)
    _, holds = reverse(TWO.world, ["a>c", "s1>c"], [], [], 50)
    assert not holds


def test_the_run_is_completed_to_its_end() -> None:
    def size(world: ProgramWorld) -> bool:
        return len(world.states["c"]) < 2

    found, holds = reverse(TWO.world, ["s1>c"], [], [always("less than two", size)], 50)
    assert found.run.violation is not None
    assert not holds
