"""A log that was read is not read again, and never taken for another."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.messages import DelegationEnded
from callboard.replay.testing.explore import Campaign, Plan
from callboard.replay.testing.rules.base import Breach
from callboard.replay.testing.sessions.breach_cache import BreachCache
from callboard.replay.testing.sessions.monitors import LogRules, Requests
from callboard.replay.testing.sessions.world import SessionWorld, Worlds, in_random_order
from tests.replay.testing.scenarios import RICH, TWO


def breach(detail: str) -> list[Breach]:
    """Make one finding with this detail."""
    return [Breach("some", "A rule.", 1, detail)]


class Finder:
    """Finds something else each time. asked: how often."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> list[Breach]:
        self.asked += 1
        return breach(f"finding {self.asked}")


def test_the_same_objects_in_the_same_order_are_looked_at_once() -> None:
    verdicts, find = BreachCache(), Finder()
    one, other = object(), object()
    assert verdicts.of([one, other], find) == breach("finding 1")
    assert verdicts.of([one, other], find) == breach("finding 1")
    assert verdicts.of([other, one], find) == breach("finding 2")
    assert verdicts.of([one], find) == breach("finding 3")
    assert verdicts.of([one, other], find) == breach("finding 1")
    assert find.asked == 3


def test_equal_objects_that_are_not_the_same_are_looked_at_again() -> None:
    verdicts, find = BreachCache(), Finder()
    verdicts.of([[1]], find)
    verdicts.of([[1]], find)
    assert find.asked == 2


@given(st.integers(1, 4), st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=40))
def test_a_cache_of_any_size_returns_the_findings(most: int, asked: list[list[int]]) -> None:
    objects, verdicts = [object() for _ in range(4)], BreachCache(most)
    for places in asked:
        told = verdicts.of([objects[index] for index in places], partial(breach, str(places)))
        assert told == breach(str(places))
        kept = [len(objects) for objects, _ in verdicts._known.values()]
        assert sum(kept) <= max(most, *kept)


def test_the_given_objects_live_as_long_as_their_verdict() -> None:
    verdicts = BreachCache()
    for number in range(100):  # lists that are gone give their identity to the next ones
        assert verdicts.of([[number]], partial(breach, str(number))) == breach(str(number))


def test_rules_with_a_memory_find_what_those_without_find() -> None:
    worlds, rules = Worlds(RICH), (LogRules(), Requests())
    broken = 0
    for seed in range(20):
        world = worlds().run(in_random_order(seed))
        ended = next(n for n, event in enumerate(world.log) if isinstance(event.body, DelegationEnded))
        for log in (world.log, world.log[:ended] + world.log[ended + 1 :], world.log):
            world.log = log
            found = [rule.found(world) for rule in rules]
            assert found == [rule.found(world) for rule in (LogRules(), Requests())]
            broken += bool(found[0])
    assert broken == 20


def test_a_campaign_reads_fewer_logs_than_it_makes_runs() -> None:
    read = []

    class Counted(LogRules):
        def found(self, world: SessionWorld) -> list[Breach]:
            def look() -> list[Breach]:
                read.append(world)
                return []

            return self._verdicts.of(world.log, look)

    found = Campaign(Worlds(TWO), [Counted()], Plan(runs=300, seed="1"))
    found.run()
    assert found.statistics.runs == 300
    assert 0 < len(read) < 150
