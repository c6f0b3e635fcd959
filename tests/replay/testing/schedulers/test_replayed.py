from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.replay.testing.monitors import always
from callboard.replay.testing.run import Bounds, perform
from callboard.replay.testing.schedule import Schedule, ScheduleMisfit, parse
from callboard.replay.testing.schedulers.portfolio import scheduler_named
from callboard.replay.testing.schedulers.replayed import replay, replay_on
from tests.replay.testing.programs import RandomProgram, collector, worlds
from tests.replay.testing.test_run import Healing, Storm


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
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
        ScheduleMisfit, match="fits no longer at step 2: wanted s9>c, there is s1>c"
    ) as caught:
        replay(collector("1", "2").world, Schedule(("s0>c", "s9>c")))
    assert (caught.value.at, caught.value.wanted, caught.value.offered) == (2, "s9>c", ("s1>c",))


def test_a_world_that_is_at_rest_too_early_is_named() -> None:
    with pytest.raises(ScheduleMisfit, match="at step 2: wanted s0>c, there is nothing"):
        replay(collector("1").world, Schedule(("s0>c", "s0>c")))


def test_a_run_that_is_over_where_the_schedule_is_over_has_been_replayed() -> None:
    run = replay(collector("1", "2").world, Schedule(("s1>c",)))
    assert (len(run.made), run.is_cut, run.violation) == (1, True, None)


def test_a_rule_that_is_broken_earlier_ends_the_replay() -> None:
    rule = always("empty", lambda world: not world.states["c"])
    run = replay(collector("1", "2").world, Schedule(("s1>c", "s0>c")), [rule])
    assert run.violation is not None
    assert run.violation.at == 1


def test_faults_end_where_they_ended() -> None:
    for make in (Storm, Healing):
        world = make()
        run = replay_on(world, Schedule(("work", "fault", "fault", "work"), healed_at=3))
        assert (world.work, world.faults, run.healed_at, run.is_at_rest) == (0, 2, 3, True)
    with pytest.raises(ScheduleMisfit, match="wanted fault, there is work"):
        replay_on(Storm(), Schedule(("fault", "fault"), healed_at=1))
