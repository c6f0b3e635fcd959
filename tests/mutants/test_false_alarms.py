"""No rule is broken on the unchanged tree: scenarios with each kind of fault, and pairs of features.

Each kind comes alone, with timers that fire while other work is left, as in a real process, and with crashes.

A campaign with all faults at once seldom meets one kind often enough, and hides a rule that does not know it.
Two features that each keep the rules may break one together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from random import Random
from typing import Final

import pytest
from msgspec.structs import replace as with_values

from callboard.actors.protocol.limits import Limits
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.sessions.capacity_world import CapacityWorld
from callboard.replay.testing.sessions.faults import KINDS, Faults, faults
from callboard.replay.testing.sessions.fork_world import Fork
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.world import in_random_order
from tests.effort import IS_CAMPAIGN, effort
from tests.mutants.campaign import AnyScenario, Lane, hunted, sessions
from tests.mutants.downtime import Downtime
from tests.mutants.features import FAULT_RUNS, FEATURES, PAIR_RUNS, PAIRS, of_features
from tests.mutants.orchestrated import Orchestrated
from tests.mutants.parts import PARTS

GROUPS: Final = [*sorted(PARTS), "features"]

EVERY = effort(222, 1)
"""The suite tries each 222nd pair of a scenario and of faults, beginning at another one for each group.

`test_steady_faults` tries every scenario, at the moments at which a fault matters most.
"""

RUNS = effort(2, FAULT_RUNS)


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


def scenarios(group: str) -> Mapping[str, AnyScenario]:
    """Return the scenarios of a part of the campaign, or one for each feature."""
    if group == "features":
        return {name: of_features(name) for name in FEATURES}
    return sessions(PARTS[group])


def lanes(group: str) -> Iterator[Lane]:
    """Yield each scenario of a group with each kind of fault, alone or with jumps or crashes, or some."""
    # A fault that only the process after a crash meets, and again the one after that, is the fourth.
    mixes: list[tuple[tuple[str, ...], int]] = [((), 2), (("jump",), 3), (("crash",), 4)]
    every = list(product(scenarios(group).items(), sorted(KINDS), mixes))
    for (name, scenario), kind, (more, most) in every[GROUPS.index(group) :: EVERY]:
        chosen = faults(kind, *more, most=most, fault_mixes=5)
        yield Lane(
            f"{name} with {' and '.join((kind, *more))}", with_faults(scenario, chosen), "portfolio", "alarms"
        )


OTHER_LIMITS: Final = {
    "more": Limits(),
    "less": Limits(tokens=500_000, max_parallel_calls=2, max_children=2, max_depth=2, max_agents=20),
}
"""The limits with which each further process goes on: those by default, and some that many sessions reach."""

ENDS_OF_PROCESSES: Final = ("crash", "detach", "crashes", "cancel")


def lanes_under_other_limits(group: str) -> Iterator[Lane]:
    """Yield sessions of a group whose processes go on under other limits, or a selection of those."""
    alone = [(name, one) for name, one in scenarios(group).items() if isinstance(one, Scenario)]
    every = list(product(alone, OTHER_LIMITS.items()))
    chosen = faults(*ENDS_OF_PROCESSES, most=2, fault_mixes=7)
    for (name, scenario), (how, limits) in every[GROUPS.index(group) % 7 :: effort(7, 1)]:
        resumed = with_values(scenario.resumed, limits=limits)
        # Under other limits it may end otherwise.
        other = replace(scenario, resumed=resumed, faults=chosen, is_uncontended=False, expects=())
        yield Lane(f"{name} with {how}", other, "random", "limits")


EVERY_LENGTH = effort(3, 1)
"""The suite looks at each third beginning of a log."""

ORDERS = effort(1, 20)

RUNS_OF_PAIRS = effort(1, PAIR_RUNS)

SAMPLED: Final = Random("pairs").sample(PAIRS, 24)
"""The pairs of features that the suite tries; the campaign tries all."""


def broken(lane: Lane, runs: int) -> str:
    """Return the rule that some of these runs breaks, or ''."""
    made = (lane.run() for _ in range(runs))
    return next((run.violation.rule for run in made if run is not None and run.violation), "")


@pytest.mark.slow
@pytest.mark.timeout(3_000 if IS_CAMPAIGN else 120)
@pytest.mark.parametrize("group", GROUPS)
def test_no_kind_of_fault_alone_breaks_a_rule(group: str) -> None:
    found = {lane.name: rule for lane in lanes(group) if (rule := broken(lane, RUNS))}
    assert found == {}


@pytest.mark.slow
@pytest.mark.timeout(3_000 if IS_CAMPAIGN else 120)
@pytest.mark.parametrize("group", GROUPS)
def test_no_rule_is_broken_by_a_process_with_other_limits(group: str) -> None:
    runs = effort(3, 40)
    found = {lane.name: rule for lane in lanes_under_other_limits(group) if (rule := broken(lane, runs))}
    assert found == {}


@pytest.mark.slow
@pytest.mark.timeout(3_000 if IS_CAMPAIGN else 120)
@pytest.mark.parametrize("feature", FEATURES if IS_CAMPAIGN else sorted({one for one, _ in SAMPLED}))
def test_no_pair_of_features_breaks_a_rule(feature: str) -> None:
    found = {}
    for pair in PAIRS if IS_CAMPAIGN else SAMPLED:
        if pair[0] != feature:
            continue
        calm = Lane(" and ".join(pair), of_features(*pair), "portfolio", "pairs")
        rough = Lane(calm.name, of_features(*pair, chosen=faults(most=3)), "portfolio", "pairs")
        if rule := broken(calm, 1) or broken(rough, RUNS_OF_PAIRS):
            found[calm.name] = rule
    assert found == {}


@pytest.mark.slow
@pytest.mark.parametrize("feature", FEATURES)
def test_no_beginning_of_a_log_breaks_a_rule(feature: str) -> None:
    worlds, _ = hunted(of_features(feature))
    for order in range(ORDERS):
        world = worlds().run(in_random_order(order))
        log = world.sessions["a"].log if isinstance(world, CapacityWorld) else world.log
        # A store that fails leaves any of them.
        for length in range(len(log), 0, -EVERY_LENGTH):
            assert check_log(log[:length]) == []
