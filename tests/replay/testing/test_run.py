from collections.abc import Sequence
from random import Random
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.findings import broken_line
from callboard.replay.testing.monitors import always, at_rest, eventually, sometimes
from callboard.replay.testing.program import Actor, Posts, Program, Send
from callboard.replay.testing.run import Bounds, perform, replay, replay_on
from callboard.replay.testing.schedule import Schedule, ScheduleMisfit, parse
from callboard.replay.testing.schedulers.portfolio import scheduler_named
from callboard.replay.testing.world import Monitor, Move, Step, Violation, World
from tests.effort import effort
from tests.replay.testing.programs import collector
from tests.replay.testing.random_programs import RandomProgram, worlds


def first(offered: Sequence[Move]) -> Move | None:
    return offered[0]


def last(offered: Sequence[Move]) -> Move | None:
    return offered[-1]


class Storm:
    """UnitOfWork to do, and a fault that can happen again and again until the storm is over. work: left."""

    def __init__(self, work: int = 2, rests: bool = False) -> None:
        self.work, self.faults, self.healed, self.rests = work, 0, 0, rests

    def moves(self) -> list[Move]:
        works = [Move("work", "a", "work")] * (self.work > 0 and (self.healed > 0 or not self.rests))
        return [*works, Move("fault", "a", "fault", "fault")]

    def make(self, move: Move) -> None:
        if move.kind == "fault":
            self.faults += 1
        else:
            self.work -= 1

    def digest(self) -> bytes:
        return b""

    def trace(self) -> list[Step]:
        return []


class Healing(Storm):
    def heal(self) -> None:
        self.healed += 1


def test_a_run_ends_at_rest() -> None:
    run = perform(collector("1", "2").world(), (), first, first)
    assert (run.is_at_rest, run.healed_at, len(run.made)) == (True, None, 2)


def test_after_n_steps_faults_are_over_and_the_second_chooser_goes_on() -> None:
    storm = Healing()
    run = perform(storm, (), last, first, Bounds(5))
    assert (storm.faults, storm.healed, storm.work) == (5, 1, 0)
    assert (run.healed_at, run.is_at_rest, len(run.made)) == (5, True, 7)


def test_no_fault_is_chosen_in_the_second_part_even_if_it_is_offered() -> None:
    storm = Storm()
    run = perform(storm, (), last, last, Bounds(5))
    assert (storm.faults, storm.work, run.is_at_rest) == (5, 0, True)


def test_a_world_at_rest_that_wants_to_heal_is_healed_and_goes_on() -> None:
    storm = Healing(rests=True)
    run = perform(storm, (), first, first, Bounds(3))
    assert (storm.healed, storm.work, run.is_at_rest) == (1, 0, True)


def test_a_run_that_does_not_end_is_ended_after_ten_n_steps() -> None:
    def again(state: int, sender: str, message: str) -> tuple[int, Posts]:
        return 0, [("a", "again")]

    program = Program({"a": Actor(0, again)}, [Send("s", "a", "again")])
    run = perform(program.world(), (), first, first, Bounds(7))
    assert (len(run.made), run.healed_at, run.is_at_rest) == (70, 7, False)
    assert run.is_unfinished


def test_where_only_faults_are_left_the_rules_of_rest_are_looked_at_and_faults_go_on() -> None:
    storm = Storm(work=1)
    seen: list[int] = []

    def few(world: Storm) -> bool:
        seen.append(world.faults)
        return world.faults <= 2

    rule = at_rest("no more than two faults", few)
    run = perform(storm, [rule], first, first, Bounds(20))
    assert seen == [0, 1, 2, 3]
    assert run.violation == Violation("no more than two faults", 4)


def test_a_world_that_heals_is_not_judged_before() -> None:
    storm = Healing(work=1, rests=True)
    rule = at_rest("the work is done", lambda world: world.work == 0)
    assert perform(storm, [rule], first, first, Bounds(3)).violation is None


def test_what_a_step_raises_is_a_violation_after_that_step() -> None:
    def step(state: int, sender: str, message: str) -> tuple[int, Posts]:
        if message == "2":
            raise ValueError("two is too much")
        return state, ()

    program = Program({"a": Actor(0, step)}, [Send("s", "a", "1"), Send("s", "a", "2")])
    found = perform(program.world(), (), first, first)
    line = step.__code__.co_firstlineno + 2
    place = f"test_run.py:{line} in step"
    assert found.violation == Violation("Nothing raises ValueError: two is too much", 2, place)
    assert broken_line(found.violation).endswith(f"two is too much ({place})")


def test_the_text_of_an_assertion_is_the_rule() -> None:
    def step(state: int, sender: str, message: str) -> tuple[int, Posts]:
        raise AssertionError("one is enough")

    found = perform(Program({"a": Actor(0, step)}, [Send("s", "a", "1")]).world(), (), first, first)
    line = step.__code__.co_firstlineno + 1
    assert found.violation == Violation("one is enough", 1, f"test_run.py:{line} in step")


def test_misuse_is_not_a_violation() -> None:
    def step(state: int, sender: str, message: str) -> tuple[int, Posts]:
        return state, [("nobody", "hello")]

    program = Program({"a": Actor(0, step)}, [Send("s", "a", "1")])
    with pytest.raises(MisuseError, match="a posts to 'nobody', there is a"):
        perform(program.world(), (), first, first)


def test_a_chooser_with_nothing_to_say_cuts_the_run() -> None:
    rule = at_rest("never", lambda world: False)
    run = perform(collector("1", "2").world(), [rule], lambda offered: None, first)
    assert (run.is_cut, run.is_at_rest, run.violation, run.made) == (True, False, None, [])


def test_a_run_stops_where_a_rule_is_broken() -> None:
    rules = [always("one", lambda world: len(world.states["c"]) < 1), always("two", lambda world: False)]
    run = perform(collector("1", "2").world(), rules[:1], first, first)
    assert (run.violation, len(run.made)) == (Violation("one", 1), 1)
    assert perform(collector("1").world(), rules, first, first).violation == Violation("two", 0)


class Early:
    """Looks at runs that do not end, and finds fault with those that have a step."""

    def begin(self, steps: int) -> None:
        """Begin without a state to reset."""

    def after(self, world: World, at: int, fair_steps: int) -> Violation | None:
        return None

    def at_rest(self, world: World, at: int) -> Violation | None:
        return None

    def unfinished(self, world: World, at: int) -> Violation | None:
        return Violation("early", 1) if at else None


def test_a_run_that_ends_before_it_is_at_rest_is_looked_at_by_those_who_can_judge_it() -> None:
    program = Program({"a": Actor(0, lambda *_: (0, [("a", "again")]))}, [Send("s", "a", "again")])
    found = perform(
        program.world(), [at_rest("never", lambda world: False), Early()], first, first, Bounds(7)
    )
    assert found.violation == Violation("early", 1)
    assert (found.is_broken_unfinished, found.is_unfinished, len(found.made)) == (True, False, 70)
    assert perform(program.world(), [Early()], lambda offered: None, first).violation is None
    over = perform(collector("1", "2").world(), [Early()], first, first)
    assert (over.violation, over.is_unfinished) == (None, False)


def test_a_run_has_at_least_one_step() -> None:
    assert Bounds(3).steps_in_all == 30
    with pytest.raises(MisuseError, match="at least one step, not 0"):
        Bounds(0)


# --- replay


@pytest.mark.slow
@settings(max_examples=effort(25, 300), deadline=None)
@given(worlds(), st.sampled_from(["random", "pos", "pct", "delays"]), st.integers(0, 99), st.integers(1, 30))
def test_every_run_replays_exactly_from_its_text(
    make: RandomProgram, name: str, seed: int, steps: int
) -> None:
    scheduler, fair = scheduler_named(name, seed), Random(seed)
    world = make()
    scheduler.begin(world)
    run = perform(world, (), scheduler.choose, lambda offered: fair.choice(offered), Bounds(steps))
    again = make()
    replayed = replay_on(again, parse(run.schedule.text("s"), "s"))
    assert (replayed.made, replayed.healed_at) == (run.made, run.healed_at)
    assert again.digest() == world.digest()
    assert again.trace() == world.trace()


def test_a_step_that_is_not_there_is_named() -> None:
    with pytest.raises(
        ScheduleMisfit, match="no longer fits at step 2: wanted s9>c, there is s1>c"
    ) as caught:
        replay(collector("1", "2").world, Schedule(("s0>c", "s9>c")))
    assert (caught.value.at, caught.value.wanted, caught.value.offered) == (2, "s9>c", ("s1>c",))


def test_a_world_that_is_at_rest_too_early_is_named() -> None:
    with pytest.raises(ScheduleMisfit, match="at step 2: wanted s0>c, there is nothing"):
        replay(collector("1").world, Schedule(("s0>c", "s0>c")))


def test_a_run_that_is_over_where_the_schedule_is_over_has_been_replayed() -> None:
    run = replay(collector("1", "2").world, Schedule(("s1>c",)))
    assert (len(run.made), run.is_cut, run.violation) == (1, True, None)


def rules_of(chosen: set[int]) -> list[Monitor[Any]]:
    """Return rules of every kind: broken now and then, always, never, or asserting."""

    def raises(world: World) -> bool:
        raise AssertionError(len(world.trace()))

    every: list[Monitor[Any]] = [
        always("short", lambda world: len(world.trace()) < 3),
        always("raises", raises),
        at_rest("ends", lambda world: False),
        eventually("cold", lambda world: False),
        sometimes("goal", lambda world: False),
        Early(),
    ]
    return [every[index] for index in sorted(chosen)]


CHOICES = st.sets(st.integers(0, 5))


@pytest.mark.slow
@settings(max_examples=effort(40, 500), deadline=None)
@given(worlds(), CHOICES, CHOICES, st.integers(0, 99), st.integers(1, 12))
def test_a_schedule_makes_the_same_run_whatever_monitors_are_added_or_removed(
    make: RandomProgram, found_with: set[int], replayed_with: set[int], seed: int, steps: int
) -> None:
    world, random = make(), Random(seed)
    run = perform(world, rules_of(found_with), random.choice, random.choice, Bounds(steps))
    text = run.schedule.text("s")
    again = make()
    replayed = replay_on(again, parse(text, "s"), rules_of(replayed_with))
    assert replayed.made == run.made
    assert again.digest() == world.digest()
    assert again.trace() == world.trace()
    if run.violation is not None and found_with <= replayed_with:
        assert run.violation in replayed.violations, "the rule is broken still, beside others"


def test_a_rule_that_is_broken_earlier_is_noted_and_the_replay_goes_on() -> None:
    empty = always("empty", lambda world: not world.states["c"])
    never = at_rest("never", lambda world: False)
    run = replay(collector("1", "2").world, Schedule(("s1>c", "s0>c")), [never, empty])
    assert run.violations == (Violation("empty", 1), Violation("never", 2))
    assert run.violation == Violation("empty", 1)
    assert len(run.made) == 2
    alone = replay(collector("1", "2").world, Schedule(("s1>c", "s0>c")), [never])
    assert alone.violations == (Violation("never", 2),)


def test_a_decider_that_raises_ends_the_replay_with_what_was_noted_before() -> None:
    def step(state: int, sender: str, message: object) -> NoReturn:
        raise ZeroDivisionError("no")

    program = Program({"a": Actor(0, step)}, [Send("s", "a", "go")])
    run = replay(program.world, Schedule(("s>a",)), [always("never", lambda world: False)])
    line = step.__code__.co_firstlineno + 1
    raised = Violation("Nothing raises ZeroDivisionError: no", 1, f"test_run.py:{line} in step")
    assert run.violations == (Violation("never", 0), raised)


def test_a_mistake_of_the_caller_in_a_monitor_ends_the_replay() -> None:
    def misused(world: World) -> bool:
        raise MisuseError("wrong")

    with pytest.raises(MisuseError, match="wrong"):
        replay(collector("1").world, Schedule(("s0>c",)), [always("x", misused)])


def test_faults_end_where_they_ended() -> None:
    for make in (Storm, Healing):
        world = make()
        run = replay_on(world, Schedule(("work", "fault", "fault", "work"), healed_at=3))
        assert (world.work, world.faults, run.healed_at, run.is_at_rest) == (0, 2, 3, True)
    with pytest.raises(ScheduleMisfit, match="wanted fault, there is work"):
        replay_on(Storm(), Schedule(("fault", "fault"), healed_at=1))
