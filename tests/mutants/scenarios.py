"""The sessions in which mutants are hunted: one for each subject of the rules, and a few random plans.

No session is written for a single mutant. The number of sessions determines how many runs each gets.
"""

from collections.abc import Mapping
from typing import Final

from callboard.replay.testing.sessions.scenario import Scenario
from tests.mutants import scenarios_rich as rich
from tests.mutants import scenarios_small as small
from tests.mutants import scenarios_state as state
from tests.session_plans import Plan

PLANS: Final = (3, 7, 12)
"""Seeds of random plans that are long enough to be useful."""

SCENARIOS: Final[Mapping[str, Scenario]] = {
    one.__name__: one()
    for one in (
        rich.races, rich.trees, rich.budgets, rich.one_budget, rich.costs, rich.slots, rich.retries,
        rich.tools, rich.asks, rich.reports, rich.caps, rich.deadlines, rich.schemas, rich.processes,
        small.deaths, small.repeats, small.asked_again, small.in_time, small.alone, small.fresh_schemas,
        small.rooms, small.taken_back, small.to_the_token, small.inner_budgets, small.spent_by_the_reply,
        small.approvals,
        small.one_crash_after_the_other, small.polite_ends, small.answers_of_people,
        state.shared_states, state.contexts, state.handed_histories, state.changing_tools, state.other_tools,
        small.reopened, small.closed, small.resumed_with_limits, small.resumed_with_small_limits,
        small.resumed_with_wide_limits, small.resumed_with_time,
    )
} | {f"plan {seed}": Plan(seed).scenario() for seed in PLANS}  # fmt: skip
"""By name, in the order in which runs are made."""
