"""The sessions that mutants are hunted in: one for each thing that rules are about, and a few random plans.

None is written for a single mutant. How many there are decides how many runs each gets.
"""

from collections.abc import Mapping
from typing import Final

from callboard.replay.testing.sessions.plans import Plan
from callboard.replay.testing.sessions.scenario import Scenario
from tests.mutants import scenarios_rich as rich
from tests.mutants import scenarios_small as small

PLANS: Final = (3, 7, 12)
"""Random plans that are long enough to be worth it."""

SCENARIOS: Final[Mapping[str, Scenario]] = {
    one.__name__: one()
    for one in (
        rich.races, rich.trees, rich.budgets, rich.one_budget, rich.costs, rich.slots, rich.retries,
        rich.tools, rich.asks, rich.reports, rich.caps, rich.deadlines, rich.schemas, rich.processes,
        small.deaths, small.repeats, small.asked_again, small.in_time, small.alone, small.fresh_schemas,
        small.to_the_token, small.inner_budgets, small.spent_by_the_reply, small.approvals,
        small.one_crash_after_the_other,
    )
} | {f"plan {seed}": Plan(seed).scenario() for seed in PLANS}  # fmt: skip
"""By name, in the order in which runs are made."""
