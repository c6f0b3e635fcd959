"""Sessions whose calls ask for input: orders of a small one, and a crash at every prefix."""

import pytest

from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.findings import lines
from callboard.replay.testing.sessions.monitors import breaches_of, session_monitors
from callboard.replay.testing.sessions.world import SessionWorld, Worlds, in_random_order
from callboard.replay.verify import Verifier
from tests.mutants.scenarios_rounds import ROUNDS, two_rounds


@pytest.mark.slow
def test_orders_of_a_small_session_keep_all_rules() -> None:
    found = explore(Worlds(two_rounds()), session_monitors(10), Plan("exhaustive", runs=1_000))
    assert found.is_ok, "\n".join(lines(found))


@pytest.mark.parametrize("name", ROUNDS)
def test_a_crash_at_every_prefix_breaks_no_rule(name: str) -> None:
    scenario = ROUNDS[name]
    log = SessionWorld(scenario).run(in_random_order(0)).log
    for length in range(1, len(log) + 1):
        world = SessionWorld(scenario)
        world.resume(log[:length])
        assert not breaches_of(world.run(in_random_order(0))), f"after event {length}"
        assert Verifier(world.log).run() is None
