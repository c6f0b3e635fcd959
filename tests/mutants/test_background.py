"""Mutants of background tasks and words: each fits the source, and sessions with such tasks find it."""

from collections.abc import Callable

import pytest

from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.findings import lines
from callboard.replay.testing.sessions.monitors import breaches_of, session_monitors
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.world import SessionWorld, Worlds, in_random_order
from callboard.replay.verify import Verifier
from tests.mutants import scenarios_background as scenarios
from tests.mutants.mutant import Mutant
from tests.mutants.seeded import BACKGROUND, CAPACITY, MUTANTS
from tests.mutants.test_mutants import child

RUNS = 3_000
"""`heard-when-wanted` needs two texts at once, and is the rarest: 550 and more runs."""


def test_there_are_at_least_20_mutants_and_no_name_twice() -> None:
    assert len(BACKGROUND) >= 20
    assert not BACKGROUND.keys() & (MUTANTS | CAPACITY).keys()


@pytest.mark.parametrize("mutant", BACKGROUND.values(), ids=str)
def test_each_mutant_fits_the_source_in_exactly_one_place_and_compiles(mutant: Mutant) -> None:
    compile(mutant.applied(mutant.path.read_text()), mutant.name, "exec")


@pytest.mark.slow
def test_the_unchanged_core_survives_the_same_runs() -> None:
    assert child("none", "background", "portfolio", "suite", str(RUNS)) == {"killed": False, "runs": RUNS}


@pytest.mark.slow
@pytest.mark.parametrize("name", BACKGROUND)
def test_sessions_with_background_tasks_find_the_mutant(name: str) -> None:
    told = child(name, "background", "portfolio", "suite", str(RUNS))
    assert told["killed"], f"{name} survives {RUNS} runs"


EXHAUSTED = {
    "two_tasks": scenarios.two_tasks(),
    "nested_tasks": scenarios.nested_tasks(),
    "first_of_two": scenarios.first_of_two(),
    "words_at_the_cap": scenarios.words_at_the_cap(),
    "words_without_budget": scenarios.words_without_budget(),
    "one_slot": scenarios.one_slot(),
}


@pytest.mark.slow
@pytest.mark.parametrize("scenario", EXHAUSTED.values(), ids=EXHAUSTED)
def test_every_order_of_a_small_session_keeps_all_rules(scenario: Scenario) -> None:
    found = explore(Worlds(scenario), session_monitors(10), Plan("exhaustive", runs=2_000))
    assert found.is_ok, "\n".join(lines(found))
    assert found.is_exhausted


@pytest.mark.parametrize("make", scenarios.SMALL, ids=lambda make: make.__name__)
def test_a_crash_at_every_prefix_breaks_no_rule(make: Callable[[], Scenario]) -> None:
    scenario = make()
    for seed in range(2):
        log = SessionWorld(scenario).run(in_random_order(seed)).log
        for length in range(1, len(log) + 1):
            world = SessionWorld(scenario)
            world.resume(log[:length])
            assert not breaches_of(world.run(in_random_order(seed))), f"after event {length}"
            assert Verifier(world.log).run() is None
