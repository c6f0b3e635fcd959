"""Sessions of ends: every rule in every order, with crashes anywhere, and the same by the first rules."""

from dataclasses import replace

import pytest

from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.findings import lines
from callboard.replay.testing.sessions.monitors import session_monitors
from callboard.replay.testing.sessions.world import Worlds
from tests.effort import effort
from tests.mutants.scenarios_endings import ENDINGS


@pytest.mark.slow
@pytest.mark.parametrize("rules", [2, 1])
@pytest.mark.parametrize("name", ENDINGS)
def test_every_order_and_fault_of_ends_keeps_all_rules(name: str, rules: int) -> None:
    scenario = replace(ENDINGS[name], rules=rules)
    found = explore(Worlds(scenario), session_monitors(20), Plan(runs=effort(12, 3_000), seed=rules))
    assert found.is_ok, "\n".join(lines(found))
