"""Sessions of programs that wait over the time without a process: orders and faults keep all rules."""

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import Resumed
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.findings import lines
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.effort import effort
from tests.mutants.campaign import hunted, without_faults
from tests.mutants.downtime import breach_of
from tests.mutants.parts import PAUSED
from tests.mutants.scenarios_downtime import DOWNTIME


@pytest.mark.parametrize("name", DOWNTIME)
def test_orders_and_faults_keep_all_rules(name: str) -> None:
    worlds, rules = hunted(DOWNTIME[name])
    found = explore(worlds, rules, Plan("portfolio", runs=effort(12, 2_000)))
    assert found.is_ok, "\n".join(lines(found))


def test_a_crash_at_every_tenth_prefix_leaves_the_stop_out() -> None:
    scenario = without_faults(DOWNTIME["stops above and below"].scenario)
    log = SessionWorld(scenario).run(in_random_order(0)).log
    for length in range(1, len(log) + 1, 10):
        world = SessionWorld(scenario)
        world.now = log[length - 1].at
        world.resume(log[:length])
        world.run(in_random_order(0))
        assert not breaches_of(world), f"after event {length}"
        assert not breach_of(world), f"after event {length}"
        assert [one.left_out_ms for one in world.of(Resumed)] == [650]


def test_a_step_that_waits_too_short_breaks_the_rule() -> None:
    world = SessionWorld(without_faults(DOWNTIME["short stops"].scenario)).run(in_random_order(0))
    assert breach_of(world) == ""
    place, step = next(
        (place, event) for place, event in enumerate(world.log) if isinstance(event.body, ModelReplied)
    )
    assert isinstance(step.body, ModelReplied)
    at = int(bytes(step.body.content).partition(b'"wake":')[2].partition(b",")[0])
    sooner = bytes(step.body.content).replace(b'"wake":%d' % at, b'"wake":%d' % (at - 1))
    world.log[place] = replace(step, body=replace(step.body, content=Json(sooner)))
    assert "a step wakes at" in breach_of(world)


def test_there_are_at_least_8_mutants_of_the_time_left_out() -> None:
    assert len(PAUSED.mutants) >= 8
    assert {one.module for one in PAUSED.mutants.values()} >= {"session.port_gate", "programs.loop"}
