import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.run import perform
from callboard.replay.testing.schedulers.portfolio import NAMES, PARTS, Portfolio, scheduler_named
from tests.replay.testing.programs import all_runs, collector


def test_every_name_has_a_scheduler_and_portfolio_is_the_first() -> None:
    assert NAMES[0] == "portfolio"
    for name in NAMES[1:]:
        assert scheduler_named(name).name in (name, "exhaustive")


@pytest.mark.parametrize("name", ["", "nonsense", "random:2", "pct:two", "pct:-1", "portfolio:3"])
def test_an_unknown_name_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(MisuseError, match="take one of portfolio, random, pos"):
        scheduler_named(name)


def ends(name: str, runs: int = 200) -> int:
    """Count the different ends of some runs of four messages that race."""
    scheduler, found = scheduler_named(name), set()
    for _ in range(runs):
        world = collector("1", "2", "3", "4").world()
        if not scheduler.begin(world):
            break
        perform(world, (), scheduler.choose, scheduler.choose)
        scheduler.finish(world)
        found.add(world.digest())
    return len(found)


def test_numbers_are_depth_delays_and_preemptions() -> None:
    assert ends("delays:0") == 1
    assert 1 < ends("delays:1") < ends("delays:3")
    assert ends("pct:1") == 24
    assert ends("exhaustive:0") == 24


def test_its_parts_take_turns() -> None:
    portfolio, world = scheduler_named("portfolio"), collector("1", "2", "3", "4", "5").world
    assert isinstance(portfolio, Portfolio)
    names = []
    for _ in range(8):
        one = world()
        assert portfolio.begin(one)
        names.append(portfolio.name)
        perform(one, (), portfolio.choose, portfolio.choose)
        portfolio.finish(one)
    assert names == [*PARTS, *PARTS]


def test_it_is_done_when_one_part_has_made_every_run() -> None:
    portfolio = scheduler_named("portfolio")
    found = all_runs(collector("1", "2", "3").world, portfolio)
    assert len(found.ends) == 6
    assert found.runs == 6 * len(PARTS)


def test_parts_have_seeds_of_their_own() -> None:
    alone = all_runs(collector("1", "2", "3").world, scheduler_named("random", 5))
    turns = all_runs(collector("1", "2", "3").world, scheduler_named("portfolio", 5))
    assert turns.orders[:: len(PARTS)] == alone.orders
