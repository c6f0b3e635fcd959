"""A part of a campaign that can be watched and stopped, and parts put together.

A campaign of one process is one shard; one of several has a shard for each. Its progress is a few numbers
that cost nothing to send.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from callboard.replay.testing.explore import Campaign, Counterexample, Explored, Plan
from callboard.replay.testing.monitors import unmet
from callboard.replay.testing.observed_scheduler import ObservedScheduler
from callboard.replay.testing.schedulers.portfolio import scheduler_named
from callboard.replay.testing.statistics import Figures, Statistics
from callboard.replay.testing.world import MakeWorld, Monitor, W, World


class CampaignProgress(NamedTuple):
    """How far a campaign is. faults: how many struck. kinds: how many different ones.

    The choice of a fault mix does not count as a fault.
    """

    runs: int = 0
    orders: int = 0
    situations: int = 0
    faults: int = 0
    kinds: int = 0

    @classmethod
    def at(cls, statistics: Statistics) -> "CampaignProgress":
        """Return the progress at these statistics."""
        injected = [count for name, count in statistics.faults.items() if not name.startswith("fault mix ")]
        return cls(
            statistics.runs, len(statistics.orders), len(statistics.coverage), sum(injected), len(injected)
        )


class ShardResult(NamedTuple):
    """What a part of a campaign found. is_stopped: it was told to end before it was through."""

    statistics: Statistics
    counterexamples: list[Counterexample]
    unmet_goals: tuple[str, ...]
    is_exhausted: bool
    is_stopped: bool


def run_shard(
    make_world: MakeWorld[W],
    monitors: Sequence[Monitor[W]],
    plan: Plan,
    begins: Callable[[Statistics], bool] = lambda statistics: True,
    finishes: Callable[[World], None] = lambda world: None,
) -> ShardResult:
    """Run a campaign. begins: asked before each run, whether to go on. finishes: told after each run."""
    scheduler = ObservedScheduler(
        scheduler_named(plan.scheduler, plan.seed), lambda: begins(campaign.statistics), finishes
    )
    campaign = Campaign(make_world, monitors, plan, scheduler)
    campaign.run()
    return ShardResult(
        campaign.statistics,
        list(campaign.counterexamples.values()),
        unmet(monitors),
        campaign.is_exhausted and not scheduler.is_stopped,
        scheduler.is_stopped,
    )


def merge_shards(shares: Sequence[ShardResult], plan: Plan, seconds: float) -> Explored:
    """Merge the results of all shards. Of each rule the smallest counterexample is kept."""
    statistics = Statistics()
    found: dict[str, Counterexample] = {}
    for share in shares:
        statistics.merge(share.statistics)
        for one in share.counterexamples:
            known = found.get(one.violation.rule)
            if known is None or len(one.steps) < len(known.steps):
                found[one.violation.rule] = one
    goals = [goal for goal in shares[0].unmet_goals if all(goal in share.unmet_goals for share in shares)]
    return Explored(
        figures=Figures.of(statistics),
        counterexamples=tuple(found.values()),
        unmet_goals=() if found else tuple(goals),
        is_exhausted=any(share.is_exhausted for share in shares),
        scheduler=plan.scheduler,
        seed=plan.seed,
        scenario=plan.scenario,
        seconds=seconds,
    )
