"""A small cluster under every fault at once keeps the promises; `make growth` runs the large ones."""

import pytest

from tests.effort import effort
from tests.growth.world import Plan, World


@pytest.mark.parametrize("seed", range(effort(3, 60)))
def test_a_cluster_that_loses_and_pauses_workers_keeps_its_promises(seed: int) -> None:
    workers = 8 + seed
    plan = Plan(
        workers,
        200 * workers,
        active=20,
        places=(12, 60, 5 * workers)[seed % 3],
        lost=2,
        pauses=8,
        set_back_ms=2_000,
        seed=seed,
    )
    seconds = World(plan).run(70_000)  # each step checks them
    assert any(one.waiting for one in seconds)
    assert seconds[-1].waiting == 0
    assert seconds[-1].calls > 0
    assert sum(one.lapsed for one in seconds) > 0


def test_the_world_finds_places_that_are_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.actors.cluster.shares.capacity_free_at", lambda ends_ms, timeout_ms: 0)
    with pytest.raises(AssertionError, match=r"\d+, \d+, 60\)"):
        World(Plan(8, 1_600, active=20, places=60, lost=2, pauses=3)).run(45_000)


def test_figures_grow_with_the_workers_until_the_server_is_busy() -> None:
    small, large = (World(Plan(count, count * 100, cores=1)).run(12_000)[6:] for count in (5, 60))
    assert sum(one.events for one in large) > 8 * sum(one.events for one in small)
    assert max(one.cpu for one in small) < 0.5 < max(one.cpu for one in large)
