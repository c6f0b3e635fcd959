"""The shared state: a fold of the log that takes any log, and is the same in every interpreter."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import Resumed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.shared_state import StateKey, StateUpdate
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.shared_state import NO_STATE, SharedState, folded
from callboard.replay.testing.rules.tool_results import states_at
from tests.strategies import json_values


def raw(value: object) -> Json:
    return Json(msgspec.json.encode(value))


KEYS = (
    StateKey("stage", "replace", raw("start")),
    StateKey("notes", "append", raw(["zero"])),
    StateKey("count", "add", raw(10)),
    StateKey("any"),
)
DECLARED = NO_STATE.declaring(KEYS)


def returned(
    seq: int, *updates: tuple[str, object], status: str = "ok", who: str = "host", cause: int = 0
) -> Event:
    body = ToolReturned(1, 0, state_update=tuple(StateUpdate(key, raw(value)) for key, value in updates))
    return Event(seq, 0, "tools", who, cause, replace(body, status=status))


def test_each_reducer_updates_its_key_and_the_last_writer_is_known() -> None:
    first = returned(3, ("stage", "middle"), ("notes", "one"), ("count", -4), ("notes", "two"))
    state = DECLARED.after(first).after(returned(5, ("count", 1), who="host.1"))
    assert state.values() == {
        "stage": "middle", "notes": ["zero", "one", "two"], "count": 7, "any": None,
    }  # fmt: skip
    assert {name: (cell.by, cell.seq) for name, cell in state.cells.items()} == {
        "stage": ("host", 3), "notes": ("host", 3), "count": ("host.1", 5), "any": ("", 0),
    }  # fmt: skip
    assert DECLARED.values()["count"] == 10  # the state before stays as it was


def test_only_calls_that_returned_ok_count() -> None:
    for status in ("error", "cancelled", "interrupted"):
        assert DECLARED.after(returned(3, ("count", 1), status=status)) is DECLARED


def test_an_update_that_does_not_fit_changes_nothing_and_those_beside_it_count() -> None:
    state = DECLARED.after(returned(3, ("gone", 1), ("count", "1"), ("count", 2), ("stage", 1)))
    assert state.values() == {**DECLARED.values(), "count": 12}
    assert DECLARED.why_refused((StateUpdate("gone", raw(1)),)).startswith(
        "the session declares no state key 'gone'; there are: stage, notes, count, any"
    )


def test_an_unknown_key_is_named_with_the_keys_that_there_are() -> None:
    for state, known in ((DECLARED, "stage, notes, count, any"), (NO_STATE, "none")):
        why = f"the session declares no state key 'x'; there are: {known}"
        assert state.why_refused([StateUpdate("x", raw(1))]) == why
        with pytest.raises(KeyError, match=f"^{re.escape(repr(why))}$"):
            state.cell_of("x")


def test_the_labels_of_some_keys_are_those_of_their_values() -> None:
    updates = (
        StateUpdate("stage", raw("end"), labels=("web",)),
        StateUpdate("count", raw(1), labels=("mail",)),
    )
    body = ToolReturned(1, 0, "ok", state_update=updates[:1])
    other = replace(body, state_update=updates[1:])
    state = DECLARED
    for seq, one in enumerate((body, other), 5):
        state = state.after(Event(seq, 0, "tools", "host", 4, one))
    assert state.labels_of(["stage"]) == ("web",)
    assert set(state.labels_of(["count", "stage", "unknown"])) == {"web", "mail"}
    assert state.labels_of(["notes"]) == state.labels_of([]) == ()


def test_a_resume_declares_further_keys_and_changes_no_known_one() -> None:
    changed = StateKey("count", "append", raw([]))
    unusable = StateKey("odd", "add", raw("x"))
    state = DECLARED.after(
        Event(2, 0, "client", "supervisor", 0, Resumed(1, state=(changed, StateKey("new"), unusable)))
    )
    assert state.values() == {**DECLARED.values(), "new": None}


def test_a_sum_may_be_larger_than_any_update() -> None:
    state = DECLARED
    for seq in range(2_000):
        state = state.after(returned(seq, ("count", 2**53 - 1)))
    assert state.values()["count"] == 10 + 2_000 * (2**53 - 1)


updates = st.tuples(st.sampled_from(["stage", "notes", "count", "any", "gone"]), json_values)


@given(st.lists(st.tuples(st.lists(updates, max_size=4), st.sampled_from(["ok", "error"])), max_size=8))
def test_the_fold_takes_any_log_and_agrees_with_a_naive_one_on_the_updates_that_fit(
    calls: list[tuple[list[tuple[str, object]], str]],
) -> None:
    events = [Event(1, 0, "client", "supervisor", 0, Resumed(1, state=KEYS))]
    for made, status in calls:
        event = returned(len(events) + 1, *made, status=status)
        body = event.body
        assert isinstance(body, ToolReturned)
        fitting = tuple(one for one in body.state_update if not DECLARED.why_refused((one,)))
        assert folded([*events, event]) == folded(
            [*events, replace(event, body=replace(body, state_update=fitting))]
        )
        events.append(replace(event, body=replace(body, state_update=fitting)))
    end = len(events) + 1
    asked = Event(end, 0, "host", "tools", 0, CallTool(1, 0, "look", "read", raw({})))
    assert states_at([*events, asked], [end])[end] == folded(events).values()


def call(seq: int) -> Event:
    return Event(seq, 0, "host", "tools", 1, CallTool(1, seq, "look", "read", raw({})))


def test_the_gate_keeps_for_each_open_call_the_state_as_of_its_event() -> None:
    gate = PortGate()
    opened = Event(1, 0, "client", "supervisor", 0, Resumed(1, state=KEYS))
    gate.on_events([opened, call(2), returned(3, ("count", 1), cause=9), call(4)])
    assert gate.state_for(call(2)) == SharedState(DECLARED.cells)
    assert gate.state_for(call(4)).values()["count"] == 11
    gate.on_events([returned(5, ("count", 1), cause=2)])
    assert gate.state_for(call(4)).values()["count"] == 11
    assert gate.shared.values()["count"] == 12


def test_a_state_without_keys_is_false() -> None:
    assert (bool(NO_STATE), bool(SharedState({})), bool(DECLARED)) == (False, False, True)
