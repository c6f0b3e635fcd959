import msgspec

from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.monitors import always, sometimes
from callboard.replay.testing.shards import Glance, Share, share_of, together
from callboard.replay.testing.statistics import Seen
from tests.replay.testing.programs import collector

WORLD = collector(*"abcde").world


def test_a_campaign_of_one_share_is_the_campaign() -> None:
    rules = [always("b is never last", lambda world: world.states["c"][4:] != ("b",))]
    plan = Plan(runs=300, seed=2, scenario="five")
    found = together([share_of(WORLD, rules, plan)], plan, 0.0)
    assert found.counterexamples
    other = explore(WORLD, rules, runs=300, seed=2, scenario="five")
    assert found == msgspec.structs.replace(other, seconds=0.0)


def test_shares_are_added_up_and_of_each_rule_the_smallest_example_is_kept() -> None:
    rule = always("e comes after a", lambda world: "e" not in world.states["c"] or "a" in world.states["c"])
    plans = (Plan(runs=300, seed=seed, shrinks=False) for seed in range(100))
    shares = (share_of(WORLD, [rule], plan) for plan in plans)
    large = next(share for share in shares if len(share.counterexamples[0].steps) > 1)
    small = share_of(WORLD, [rule], Plan(runs=300, seed=2))
    found = together([large, small, large], Plan(runs=900), 1.0)
    assert found.figures.runs == 2 * large.seen.runs + small.seen.runs
    (one,) = found.counterexamples
    assert (one.is_minimal, len(one.steps)) == (True, 1)


def test_a_goal_is_unmet_if_no_share_met_it_and_broken_rules_go_before_goals() -> None:
    def share(letter: str) -> Share:
        goals = [
            sometimes("a is first", lambda world: world.states["c"][:1] == (letter,)),
            sometimes("f is first", lambda world: world.states["c"][:1] == ("f",)),
        ]
        return share_of(WORLD, goals, Plan(runs=50))

    shares = [share("nobody"), share("a")]
    found = together(shares, Plan(), 0.0)
    assert found.unmet_goals == ("f is first",)
    broken = share_of(WORLD, [always("no", lambda world: False)], Plan(runs=5))
    assert together([*shares, broken], Plan(), 0.0).unmet_goals == ()


def test_a_share_that_is_told_to_end_keeps_what_it_has() -> None:
    share = share_of(WORLD, [], Plan(), lambda seen: seen.runs < 7)
    assert (share.seen.runs, share.is_stopped, share.is_exhausted) == (7, True, False)


def test_a_glance_counts_what_struck_and_not_the_weather() -> None:
    seen = Seen()
    seen.runs = 5
    seen.faults.update({"fault: error": 3, "fault: cancel": 1, "weather 4": 5})
    assert Glance.at(seen) == Glance(runs=5, faults=4, kinds=2)
