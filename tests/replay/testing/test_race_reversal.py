"""The other way round: one race is swapped, the rest waits for its turn, and nothing may be lost."""

from callboard.replay.testing.happens_before import Order
from callboard.replay.testing.monitors import always
from callboard.replay.testing.program import Actor, Posts, Program, ProgramWorld, Send
from callboard.replay.testing.race_reversal import Plan, plan_of, reverse_race
from callboard.replay.testing.world import Step
from tests.replay.testing.programs import collect

EMPTY: tuple[str, ...] = ()
TWO = Program({"c": Actor(EMPTY, collect)}, [Send("s1", "c", "m1"), Send("s2", "c", "m2")])
FINE = [always("m2 is not first", lambda world: world.states["c"][:1] != ("m2",))]


def test_the_later_step_and_its_causes_come_first() -> None:
    steps = [
        Step(1, "s1>c", "deliver", "s1", "c", "m1"),
        Step(2, "s2>d", "deliver", "s2", "d", "m2"),
        Step(3, "d>c", "deliver", "d", "c", "m3", cause=2),
    ]
    assert plan_of(Order(steps), 0, 2) == Plan(["s2>d", "d>c"], ["s1>c"])


def test_what_keeps_every_rule_and_loses_nothing_holds() -> None:
    found = reverse_race(TWO.world, Plan(["s1>c"], ["s2>c"]), FINE, 50)
    assert [move.strand for move in found.run.made] == ["s1>c", "s2>c"]
    assert found.holds
    assert not reverse_race(TWO.world, Plan(["s2>c"], ["s1>c"]), FINE, 50).holds


def test_a_step_that_is_not_there_yet_is_waited_for() -> None:
    forward: Actor[str, str] = Actor("", lambda state, sender, message: (state, [("c", message)]))
    program = Program({"a": forward, "c": Actor(EMPTY, collect)}, [Send("s", "a", "m")])
    found = reverse_race(program.world, Plan([], ["a>c"]), [], 50)
    assert [move.strand for move in found.run.made] == ["s>a", "a>c"]
    assert found.holds


def test_a_run_that_lost_a_step_shows_nothing() -> None:
    found = reverse_race(TWO.world, Plan(["s1>c"], ["s3>c"]), FINE, 50)
    assert (found.run.violation, found.run.is_at_rest) == (None, True)
    assert (found.left, found.holds) == (["s3>c"], False)


def test_a_run_that_lost_a_fault_shows_nothing() -> None:
    def step(state: int, sender: str, message: str) -> tuple[int, Posts]:
        return state + 1, ()

    actor = Actor(0, step, faults=lambda state: ("fail",) if not state else ())
    program = Program({"a": actor}, [Send("s", "a", "m")])
    (fault,) = (move.strand for move in program.world().moves() if move.kind == "fault")
    assert reverse_race(program.world, Plan([fault], ["s>a"]), [], 50).holds
    late = reverse_race(program.world, Plan(["s>a"], [fault]), [], 50)
    assert (late.left, late.run.violation, late.holds) == ([fault], None, False)


def test_a_run_that_does_not_end_or_goes_another_way_shows_nothing() -> None:
    def again(state: int, sender: str, message: str) -> tuple[int, Posts]:
        return 0, [("a", "again")]

    program = Program({"a": Actor(0, again)}, [Send("s", "a", "again")])
    found = reverse_race(program.world, Plan(["s>a"], []), [], 5)
    assert (found.left, found.run.is_at_rest, found.holds) == ([], False, False)
    waits = reverse_race(TWO.world, Plan(["a>c", "s1>c"], []), [], 50)
    assert not waits.holds


def test_the_run_is_completed_to_its_end() -> None:
    def size(world: ProgramWorld) -> bool:
        return len(world.states["c"]) < 2

    found = reverse_race(TWO.world, Plan(["s1>c"], []), [always("less than two", size)], 50)
    assert found.run.violation is not None
    assert not found.holds
