"""Guesses: missing steps are left out or waited for; a reversed race loses nothing."""

from collections.abc import Sequence
from typing import Any

import pytest

from callboard.replay.testing.candidate import Candidate, Reversal, reversal_of, run_candidate
from callboard.replay.testing.happens_before import Order
from callboard.replay.testing.monitors import always
from callboard.replay.testing.program import Actor, Posts, Program, ProgramWorld, Send
from callboard.replay.testing.world import MakeWorld, Monitor, Step
from tests.replay.testing.programs import collect

EMPTY: tuple[str, ...] = ()
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
