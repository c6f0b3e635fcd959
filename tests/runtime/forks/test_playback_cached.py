"""Results that are given again, in a fork."""

import asyncio
from typing import Any

import pytest

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import call, say
from callboard.runtime.tools.tool import tool
from tests.runtime.forks.kit import events_of, forked, recorded, said

RUNS: list[int] = []


@tool(effect="read", cache=True)
def look(place: int) -> str:
    """Look at a place."""
    RUNS.append(place)
    return f"seen {place}"


def looking(request: ModelRequest) -> Any:
    """Look at one place three times, then report the results."""
    steps = [call("look", place=1), call("look", place=1), call("look", place=1), say(said(request))]
    return steps[request.turn - 1]


HOST = Agent("host", tools=[look])


@pytest.fixture
def log() -> MemoryLog:
    RUNS.clear()
    made = MemoryLog()
    asyncio.run(recorded(made, looking, HOST))
    assert RUNS == [1]
    return made


def answers(events: list[Event]) -> list[tuple[int, ToolReturned]]:
    return [(event.seq, event.body) for event in events if isinstance(event.body, ToolReturned)]


def test_a_changed_result_is_changed_wherever_it_was_given_again(log: MemoryLog) -> None:
    outcome, _ = asyncio.run(forked(log, looking, HOST, changes={("host", 1, 0): "changed"}, fork_id="f"))
    assert RUNS == [1], "no tool runs again"
    assert (outcome.text or "").count("changed") == 3
    assert "seen 1" not in (outcome.text or "")
    assert check_log(events_of(log, "f")) == []


def test_a_fork_behind_the_first_result_finds_it(log: MemoryLog) -> None:
    events = events_of(log, "origin")
    (_, first), (second_at, second), _ = answers(events)
    asyncio.run(
        forked(log, looking, HOST, at=second_at - 1, changes={("host", 2, 0): "changed"}, fork_id="f")
    )
    assert RUNS == [1]
    given = [body for _, body in answers(events_of(log, "f"))]
    assert given[0] == first
    assert given[2].output == second.output, "only the second answer was changed"


def test_the_source_of_a_repeated_value_is_the_tool_that_ran(log: MemoryLog) -> None:
    events = events_of(log, "origin")
    (first, _), _, (third, _) = answers(events)
    assert Recording.open(MemoryReader(log), "origin").why(third, "seen 1").source[-1].seq == first
