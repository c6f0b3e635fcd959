"""The rules of results that are given again, on sessions whose tools allow it."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.telemetry import Telemetry
from callboard.replay.testing.rules.cached_results import CachedAnswers, TelemetryOfCalls
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.mutants.scenarios_cache import CACHED

LOG = list(SessionWorld(CACHED["given-again"]).run(in_random_order(0)).log)


def repeats(event: Event) -> bool:
    return isinstance(event.body, ToolReturned) and bool(event.body.cached_from)


def edited(which: Callable[[Event], bool], **fields: object) -> list[Event]:
    """Return the log with other fields in the body of the first such event."""
    place = next(place for place, event in enumerate(LOG) if which(event))
    log = list(LOG)
    log[place] = replace(log[place], body=replace(log[place].body, **fields))
    return log


def broken(log: list[Event]) -> list[str]:
    return [one.name for one in check_log(log, kinds=(CachedAnswers, TelemetryOfCalls))]


def origin(event: Event) -> bool:
    """Return True for the answer that the first repeated one repeats."""
    first = next(one for one in LOG if repeats(one))
    assert isinstance(first.body, ToolReturned)
    return f"simulated#{event.seq}" == first.body.cached_from


def origins_call(event: Event) -> bool:
    return event.seq == next(one for one in LOG if origin(one)).cause


def test_the_sessions_give_results_again_and_break_nothing() -> None:
    assert sum(map(repeats, LOG)) > 5
    assert check_log(LOG) == []


@pytest.mark.parametrize(
    "log",
    [
        edited(repeats, cached_from="simulated#1"),
        edited(repeats, output=text_json("another")),
        edited(repeats, labels=("new",)),
        edited(repeats, status="error"),
        edited(origin, cached_from="simulated#2"),
        edited(origins_call, arguments=text_json("another")),
    ],
    ids=["no-origin", "output", "labels", "status", "chain", "arguments"],
)
def test_a_log_that_gives_a_wrong_result_is_found(log: list[Event]) -> None:
    assert "cached-answers" in broken(log)


@pytest.mark.parametrize(
    "told",
    [
        Telemetry("other", execution="s#{}", cache="hit"),
        Telemetry("{tool}", execution="s#1", cache="hit"),
        Telemetry("{tool}", execution="s#{}", cache="miss"),
    ],
)
def test_telemetry_of_another_call_is_found(told: Telemetry) -> None:
    event = next(one for one in LOG if repeats(one))
    call = LOG[event.cause - 1].body
    assert isinstance(call, CallTool)
    named = replace(told, tool=told.tool.format(tool=call.tool), execution=told.execution.format(event.cause))
    assert broken(edited(repeats, telemetry=named)) == ["telemetry"]
    right = Telemetry(call.tool, execution=f"s#{event.cause}", cache="hit")
    assert broken(edited(repeats, telemetry=right)) == []
