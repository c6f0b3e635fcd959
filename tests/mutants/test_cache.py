"""Sessions that give results again: random orders, and a crash at every prefix, keep all rules."""

import pytest

from callboard.actors.protocol.port_messages import ToolReturned
from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.findings import lines
from callboard.replay.testing.sessions.monitors import breaches_of, session_monitors
from callboard.replay.testing.sessions.world import SessionWorld, Worlds, in_random_order
from callboard.replay.verify import Verifier
from tests.mutants.scenarios_cache import CACHED


@pytest.mark.parametrize("name", CACHED)
def test_orders_keep_all_rules(name: str) -> None:
    found = explore(Worlds(CACHED[name]), session_monitors(10), Plan("portfolio", runs=6))
    assert found.is_ok, "\n".join(lines(found))


@pytest.mark.parametrize("name", CACHED)
def test_a_crash_at_every_thirtieth_prefix_breaks_no_rule(name: str) -> None:
    scenario = CACHED[name]
    log = SessionWorld(scenario).run(in_random_order(0)).log
    for length in range(1, len(log) + 1, 30):
        world = SessionWorld(scenario)
        world.now = log[length - 1].at  # the clock of a process that resumes goes on
        world.resume(log[:length])
        assert not breaches_of(world.run(in_random_order(0))), f"after event {length}"
        assert Verifier(world.log).run() is None


def test_the_sessions_give_results_again_to_other_agents_and_after_effects() -> None:
    worlds = [SessionWorld(CACHED["effects-between"]).run(in_random_order(seed)) for seed in range(5)]
    given = [body for world in worlds for body in world.of(ToolReturned) if body.cached_from]
    assert len(given) > 10
    assert any(body.labels for body in given)
    assert any(body.state_read for body in given)
