"""No rule is broken on the unchanged tree: every scenario with each kind of fault alone.

A campaign with all faults at once seldom meets one kind often enough, and hides a rule that does not know it.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from callboard.replay.testing.sessions.faults import KINDS, Faults, faults
from callboard.replay.testing.sessions.fork_world import Fork
from callboard.replay.testing.sessions.scenario import Scenario
from tests.effort import IS_CAMPAIGN, effort
from tests.mutants.campaign import AnyScenario, Lane, sessions
from tests.mutants.downtime import Downtime
from tests.mutants.orchestrated import Orchestrated
from tests.mutants.parts import PARTS

EVERY = effort(37, 1)
"""The suite tries each 37th pair of a scenario and a fault, beginning at another one for each part."""

RUNS = effort(2, 40)


def with_faults(scenario: AnyScenario, chosen: Faults) -> AnyScenario:
    """Return the same sessions with these faults and no others."""
    if isinstance(scenario, Scenario):
        return replace(scenario, faults=chosen)
    if isinstance(scenario, Fork | Downtime):
        return replace(scenario, scenario=replace(scenario.scenario, faults=chosen))
    if isinstance(scenario, Orchestrated):
        # Its own rule expects its own faults; those of all sessions hold with any.
        return replace(scenario.scenario, faults=chosen)
    each = {name: replace(one, faults=chosen) for name, one in scenario.sessions.items()}
    return replace(scenario, sessions=each)


def lanes(part: str) -> Iterator[Lane]:
    """Yield each scenario of a part with each kind of fault, or a selection of those."""
    every = list(product(sessions(PARTS[part]).items(), sorted(KINDS)))
    for (name, scenario), kind in every[sorted(PARTS).index(part) :: EVERY]:
        chosen = faults(kind, most=2, fault_mixes=5)
        yield Lane(f"{name} with {kind}", with_faults(scenario, chosen), "portfolio", "alarms")


@pytest.mark.slow
@pytest.mark.timeout(3_000 if IS_CAMPAIGN else 120)
@pytest.mark.parametrize("part", sorted(PARTS))
def test_no_kind_of_fault_alone_breaks_a_rule(part: str) -> None:
    found = {}
    for lane in lanes(part):
        made = (lane.run() for _ in range(RUNS))
        broken = next((run.violation.rule for run in made if run is not None and run.violation), None)
        if broken is not None:
            found[lane.name] = broken
    assert found == {}
