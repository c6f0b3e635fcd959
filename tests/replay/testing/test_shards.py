import msgspec

from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.monitors import always, sometimes
from callboard.replay.testing.shards import CampaignProgress, ShardResult, merge_shards, run_shard
from callboard.replay.testing.statistics import Statistics
from tests.replay.testing.programs import collector

WORLD = collector(*"abcde").world


def test_a_campaign_of_one_share_is_the_campaign() -> None:
    rules = [always("b is never last", lambda world: world.states["c"][4:] != ("b",))]
    plan = Plan(runs=300, seed=2, scenario="five")
    found = merge_shards([run_shard(WORLD, rules, plan)], plan, 0.0)
    assert found.counterexamples
    other = explore(WORLD, rules, runs=300, seed=2, scenario="five")
    assert found == msgspec.structs.replace(other, seconds=0.0)


def test_shares_are_added_up_and_of_each_rule_the_smallest_example_is_kept() -> None:
    rule = always("e comes after a", lambda world: "e" not in world.states["c"] or "a" in world.states["c"])
    plans = (Plan(runs=300, seed=seed, shrinks=False) for seed in range(100))
    shares = (run_shard(WORLD, [rule], plan) for plan in plans)
    large = next(share for share in shares if len(share.counterexamples[0].steps) > 1)
    small = run_shard(WORLD, [rule], Plan(runs=300, seed=2))
    found = merge_shards([large, small, large], Plan(runs=900), 1.0)
    assert found.figures.runs == 2 * large.statistics.runs + small.statistics.runs
    (one,) = found.counterexamples
    assert (one.is_minimal, len(one.steps)) == (True, 1)


def test_a_goal_is_unmet_if_no_share_met_it_and_broken_rules_go_before_goals() -> None:
    def share(letter: str) -> ShardResult:
        goals = [
            sometimes("a is first", lambda world: world.states["c"][:1] == (letter,)),
            sometimes("f is first", lambda world: world.states["c"][:1] == ("f",)),
        ]
        return run_shard(WORLD, goals, Plan(runs=50))

    shares = [share("nobody"), share("a")]
    found = merge_shards(shares, Plan(), 0.0)
    assert found.unmet_goals == ("f is first",)
    broken = run_shard(WORLD, [always("no", lambda world: False)], Plan(runs=5))
    assert merge_shards([*shares, broken], Plan(), 0.0).unmet_goals == ()


def test_a_share_that_is_asked_to_end_keeps_its_findings() -> None:
    share = run_shard(WORLD, [], Plan(), lambda seen: seen.runs < 7)
    assert (share.statistics.runs, share.is_stopped, share.is_exhausted) == (7, True, False)


def test_progress_counts_the_faults_and_not_the_fault_mix() -> None:
    seen = Statistics()
    seen.runs = 5
    seen.faults.update({"fault: error": 3, "fault: cancel": 1, "fault mix 4": 5})
    assert CampaignProgress.at(seen) == CampaignProgress(runs=5, faults=4, kinds=2)
