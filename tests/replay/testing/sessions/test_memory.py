"""What runs have in common is kept, by identity; and a full memory forgets without harm."""

import pytest

from callboard.actors.agent.state import AgentState, request_of
from callboard.actors.session.step import initial
from callboard.replay.testing.sessions.memory import Memory
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
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
    assert memory.request(one).messages == request_of(one).messages
    assert memory.request(one) is memory.request(one)
    assert memory.request(other).digest == other.digest
    memory.forget()
    assert memory.request(other) is memory.request(other)
