"""What runs have in common is kept, by identity, and never taken for another; a full memory does no harm."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.agent.state import AgentState, request_of
from callboard.actors.protocol.messages import DelegationEnded
from callboard.actors.session.step import initial
from callboard.replay.testing.explore import Campaign, Plan
from callboard.replay.testing.rules.base import Breach
from callboard.replay.testing.sessions.memory import BreachCache, Memory
from callboard.replay.testing.sessions.monitors import LogRules, Requests
from callboard.replay.testing.sessions.world import SessionWorld, Worlds, in_random_order
from tests.replay.testing.scenarios import RICH, TWO


def test_a_decision_is_made_once_for_the_same_state_and_event() -> None:
    memory, world = Memory(), SessionWorld(TWO)
    event = world.inboxes["supervisor"][0]
    state = world.supervisor
    assert memory.step(state, event) is memory.step(state, event)
    assert memory.initial("host") is memory.initial("host") == initial("host")


def test_events_are_told_apart_by_all_that_they_are() -> None:
    memory = Memory()
    body = SessionWorld(TWO).log[1].body
    one = memory.event(1, 5, "client", "supervisor", 0, body)
    assert memory.event(1, 5, "client", "supervisor", 0, body) is one
    assert memory.event(1, 6, "client", "supervisor", 0, body).at == 6
    assert memory.event(1, 5, "client", "supervisor", 1, body).cause == 1
    assert memory.event(2, 5, "client", "supervisor", 0, body).seq == 2


@pytest.mark.parametrize("most", [1, 7, 20_000])
def test_runs_with_a_memory_of_any_size_are_the_runs_without(most: int) -> None:
    memory = Memory(most)
    for seed in range(12):
        world = SessionWorld(RICH, memory).run(in_random_order(seed))
        assert world.log == SessionWorld(RICH).run(in_random_order(seed)).log
    assert len(memory._decisions) <= most


def test_a_request_is_made_once_for_the_same_state() -> None:
    memory, worlds = Memory(1), [SessionWorld(TWO).run(in_random_order(seed)) for seed in range(2)]
    one, other = (world.states["host"] for world in worlds)
    assert isinstance(one, AgentState)
    assert isinstance(other, AgentState)
    first, second = (world.states.get for world in worlds)
    assert memory.request(one, first).messages == request_of(one, first).messages
    assert memory.request(one, first) is memory.request(one, first)
    assert memory.request(other, second).digest == other.digest
    memory.forget()
    assert memory.request(other, second) is memory.request(other, second)


# --- breaches -----------------------------------------------------------------------


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

            return self._cache.of(world.log, look)

    found = Campaign(Worlds(TWO), [Counted()], Plan(runs=300, seed="1"))
    found.run()
    assert found.statistics.runs == 300
    assert 0 < len(read) < 150
