"""The rules of the shared state, on sessions whose tools update it."""

from dataclasses import replace as with_fields

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.shared_state import StateKey, StateUpdate
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.shared_state import StateUpdates
from callboard.replay.testing.sessions.monitors import STATE_IS_FOLD, breaches_of
from callboard.replay.testing.sessions.world import SessionWorld
from tests.mutants.scenarios_state import shared_states


def world() -> SessionWorld:
    return SessionWorld(shared_states()).run()


def broken(**fields: object) -> list[Event]:
    log = list(world().log)
    at = next(place for place, one in enumerate(log) if isinstance(one.body, ToolReturned))
    log[at] = replace(log[at], body=replace(log[at].body, **fields))
    return log


def test_good_sessions_break_nothing_and_give_every_call_a_state() -> None:
    made = world()
    assert breaches_of(made) == []
    assert {seq for seq, _ in made.states_given} == {event.seq for event in made.events(CallTool)}
    assert made.gate.shared.values()["count"] == len(made.states_given)


@pytest.mark.parametrize(
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
    assert [one.name for one in check_log(broken(**fields), kinds=(StateUpdates,))] == ["state-updates"]


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
