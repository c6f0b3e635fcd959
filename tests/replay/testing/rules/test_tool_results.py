"""The rules of results that are given again, on sessions whose tools allow it."""

from collections.abc import Callable, Sequence
from dataclasses import replace as with_fields

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.shared_state import StateKey, StateUpdate
from callboard.actors.protocol.telemetry import Telemetry
from callboard.replay.testing.rules.changes import ToolsPassedOn
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.tool_results import (
    CachedAnswers,
    LinesOfTools,
    StateUpdates,
    TelemetryOfCalls,
)
from callboard.replay.testing.sessions.monitors import STATE_IS_FOLD, breaches_of
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.mutants.scenarios_cache import CACHED
from tests.mutants.scenarios_later import changing_in_line, changing_one_by_one
from tests.mutants.scenarios_state import shared_states
from tests.replay.testing.edited_logs import edited, limited, of_kind
from tests.tables import table

LOG = list(SessionWorld(CACHED["given-again"]).run(in_random_order(0)).log)
LINES_LOG = SessionWorld(changing_one_by_one()).run().log


def repeats(event: Event) -> bool:
    return isinstance(event.body, ToolReturned) and bool(event.body.cached_from)


def edited_cached_results(which: Callable[[Event], bool], **fields: object) -> list[Event]:
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


@table(
    "log",
    [
        edited_cached_results(repeats, cached_from="simulated#1"),
        edited_cached_results(repeats, output=text_json("another")),
        edited_cached_results(repeats, labels=("new",)),
        edited_cached_results(repeats, status="error"),
        edited_cached_results(origin, cached_from="simulated#2"),
        edited_cached_results(origins_call, arguments=text_json("another")),
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
    assert broken(edited_cached_results(repeats, telemetry=named)) == ["telemetry"]
    right = Telemetry(call.tool, execution=f"s#{event.cause}", cache="hit")
    assert broken(edited_cached_results(repeats, telemetry=right)) == []


def broken_lines(log: Sequence[Event]) -> list[str]:
    return [one.detail for one in check_log(log, kinds=[LinesOfTools])]


def starts() -> list[Event]:
    return [one for one in LINES_LOG if isinstance(one.body, CallTool)]


def test_sessions_with_lines_of_tools_keep_the_rule_in_any_order() -> None:
    for scenario in (changing_in_line(), changing_one_by_one()):
        for seed in range(5):
            assert broken_lines(SessionWorld(scenario).run(in_random_order(seed)).log) == []


def test_a_call_that_starts_out_of_order_is_found() -> None:
    third = starts()[2]
    assert isinstance(third.body, CallTool)
    log = [replace(one, body=replace(third.body, call=3)) if one is third else one for one in LINES_LOG]
    assert broken_lines(log)[0] == "host starts call 3 as number 3"


def test_a_call_that_starts_without_a_free_place_is_found() -> None:
    second = starts()[1]
    log = [replace(one, cause=starts()[0].cause) if one is second else one for one in LINES_LOG]
    assert broken_lines(log)[0] == "host starts call 1, and no place is free for it"


def test_a_call_that_is_never_started_is_found() -> None:
    last = [one for one in starts() if isinstance(one.body, CallTool) and one.body.turn == 1][-1]
    log = edited(LINES_LOG, lambda one: one.seq == last.seq, turn=99)
    assert any("has not started" in one for one in broken_lines(log))


def test_a_change_that_is_not_told_to_the_supervisor_is_found() -> None:
    seq = next(one.seq for one in LINES_LOG if isinstance(one.body, ToolReturned) and one.body.tools)
    log = [
        replace(one, cause=seq - 1) if one.kind == "ToolsChanged" and one.cause == seq else one
        for one in LINES_LOG
    ]
    found = [one.detail for one in check_log(log, kinds=[ToolsPassedOn])]
    assert f"host does not tell the change of event {seq}" in found


def test_the_line_is_as_long_as_the_limit_of_the_agent_says() -> None:
    assert broken_lines(limited(LINES_LOG, of_kind(Begin), max_parallel_tools=2))


def world() -> SessionWorld:
    return SessionWorld(shared_states()).run()


def broken_of_shared_state(**fields: object) -> list[Event]:
    log = list(world().log)
    at = next(place for place, one in enumerate(log) if isinstance(one.body, ToolReturned))
    log[at] = replace(log[at], body=replace(log[at].body, **fields))
    return log


def test_good_sessions_break_nothing_and_give_every_call_a_state() -> None:
    made = world()
    assert breaches_of(made) == []
    assert {seq for seq, _ in made.states_given} == {event.seq for event in made.events(CallTool)}
    assert made.gate.shared.values()["count"] == len(made.states_given)


@table(
    "fields",
    [
        {"state_update": (StateUpdate("gone", Json(b"1")),)},
        {"state_update": (StateUpdate("count", Json(b'"1"')),)},
        {"state_update": (StateUpdate("stage", Json(b"1")),)},
        {"state_read": ("gone",)},
        {"status": "error"},
    ],
)
def test_a_log_that_breaks_the_rule_is_found(fields: dict[str, object]) -> None:
    assert [one.name for one in check_log(broken_of_shared_state(**fields), kinds=(StateUpdates,))] == [
        "state-updates"
    ]


def test_a_call_that_was_given_another_state_is_found() -> None:
    made = world()
    seq, values = made.states_given[-1]
    made.states_given[-1] = seq, {**values, "count": -1}
    assert STATE_IS_FOLD.breach(made).startswith(f"event {seq}: ")


def test_a_simulated_tool_with_an_update_that_does_not_fit_is_an_error() -> None:
    def bad(who: str, call: CallTool, state: object) -> ToolReturned:
        update = (StateUpdate("count", Json(b"true")),)
        return ToolReturned(call.turn, call.call, "ok", text_json("done"), state_update=update)

    keys = [StateKey("count", "add", Json(b"0"))]
    made = SessionWorld(with_fields(shared_states(), stateful=bad, state=keys))
    returned = made.run().of(ToolReturned)
    assert {one.status for one in returned} == {"error"}
    assert b"InvalidState" in bytes(returned[0].output)
