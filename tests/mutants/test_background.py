"""Sessions with background tasks and words: every order of the smallest, and a crash at every prefix."""

import pytest

from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.findings import lines
from callboard.replay.testing.sessions.monitors import breaches_of, session_monitors
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.world import SessionWorld, Worlds, in_random_order
from callboard.replay.verify import Verifier
from tests.effort import effort, long_search
from tests.mutants.scenarios_background import BACKGROUND, SMALL

EXHAUSTED = (
    "two_tasks",
    pytest.param("nested_tasks", marks=long_search),
    pytest.param("first_of_two", marks=long_search),
    "words_at_the_cap",
    "words_without_budget",
    "one_slot",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXHAUSTED)
def test_every_order_of_a_small_session_keeps_all_rules(name: str) -> None:
    found = explore(Worlds(BACKGROUND[name]), session_monitors(10), Plan("exhaustive", runs=2_000))
    assert found.is_ok, "\n".join(lines(found))
    assert found.is_exhausted


@pytest.mark.parametrize("scenario", [make() for make in SMALL], ids=[make.__name__ for make in SMALL])
def test_a_crash_at_a_prefix_breaks_no_rule(scenario: Scenario) -> None:
    for seed in range(effort(1, 4)):
        log = SessionWorld(scenario).run(in_random_order(seed)).log
        for length in range(1, len(log) + 1, effort(2, 1)):
            world = SessionWorld(scenario)
            world.resume(log[:length])
            assert not breaches_of(world.run(in_random_order(seed))), f"after event {length}"
            assert Verifier(world.log).run() is None
