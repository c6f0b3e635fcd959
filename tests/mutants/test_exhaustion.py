"""Every order of a small session with background tasks, with a crash after every event of each.

`make exhaust` does the same with larger ones.
"""

import pytest

from callboard.replay.testing.sessions.scenario import Scenario
from tests.effort import long_search
from tests.mutants.exhaustion import LONG, SMALL, exhaust
from tests.mutants.scenarios_background import crowded
from tests.tables import table


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "wait for one",
        "small budget",
        pytest.param("words at the cap", marks=long_search),
        pytest.param("one slot", marks=long_search),
    ],
)
def test_every_order_and_every_crash_of_a_small_session_keeps_all_rules(name: str) -> None:
    found = exhaust(SMALL[name](), 2_000)
    assert not found.faults
    assert found.is_exhausted
    assert found.crashes > found.orders


def test_a_bound_is_told() -> None:
    assert not exhaust(crowded(), 3).is_exhausted


@table("name", [*SMALL, *LONG])
def test_each_session_can_be_made(name: str) -> None:
    assert isinstance({**SMALL, **LONG}[name](), Scenario)


def test_a_crash_that_breaks_a_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.mutants.exhaustion.breaches_of", lambda world: ["no rule"])
    assert exhaust(SMALL["wait for one"](), 10).faults
