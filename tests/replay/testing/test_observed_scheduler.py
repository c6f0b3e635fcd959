from callboard.replay.testing.explore import Campaign, Plan
from callboard.replay.testing.observed_scheduler import ObservedScheduler
from callboard.replay.testing.schedulers.portfolio import scheduler_named
from callboard.replay.testing.world import World
from tests.replay.testing.programs import collector


def test_a_watched_scheduler_picks_the_same_and_tells_of_every_run() -> None:
    make_world = collector(*"abcd").world
    plain = Campaign(make_world, [], Plan(runs=60, seed=3))
    plain.run()
    begun: list[int] = []
    ends: list[bytes] = []

    def begins() -> bool:
        begun.append(len(ends))
        return True

    def finishes(world: World) -> None:
        ends.append(world.digest())

    watched = ObservedScheduler(scheduler_named("portfolio", 3), begins, finishes)
    campaign = Campaign(make_world, [], Plan(runs=60, seed=3), watched)
    campaign.run()
    assert vars(campaign.statistics)["orders"].hashes == vars(plain.statistics)["orders"].hashes
    assert campaign.statistics.runs == plain.statistics.runs == len(ends)
    assert begun[: len(ends)] == list(range(len(ends)))
    assert (watched.name in ("random", "pos", "pct", "delays"), watched.is_stopped) == (True, False)


def test_a_run_that_is_not_to_be_ends_the_campaign_and_is_told_apart_from_having_tried_all() -> None:
    left = [True, True, False]
    watched = ObservedScheduler(scheduler_named("random"), lambda: left.pop(0))
    campaign = Campaign(collector(*"abcd").world, [], Plan(), watched)
    campaign.run()
    assert (campaign.statistics.runs, watched.is_stopped) == (2, True)
    all_tried = ObservedScheduler(scheduler_named("exhaustive"))
    campaign = Campaign(collector(*"ab").world, [], Plan(), all_tried)
    campaign.run()
    assert (campaign.statistics.runs, campaign.is_exhausted, all_tried.is_stopped) == (2, True, False)
