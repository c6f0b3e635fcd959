"""A long list of events is cut, but not where a person has to look."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.client_messages import SessionClosed, Tell
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage, Delegate, Finished, Told, TurnRequested
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallModel,
    CallTool,
    ModelReplied,
    SchemaChecked,
    ToolReturned,
)
from callboard.replay.steps import essential, is_bookkeeping, is_failure, matters
from callboard.runtime.log.protocol import event_of
from callboard.runtime.runtime import Runtime
from tests.cli.recorded import script, survey_host
from tests.replay.logs import states_after, steps_of
from tests.tables import table


@pytest.fixture(scope="module")
def events() -> list[Event]:
    async def main() -> list[Event]:
        async with Runtime(":memory:", model=script()) as runtime:
            await runtime.run(survey_host(), "How many files?", session_id="one")
            return [event_of("one", row) for row in await runtime.log.read("one")]

    return asyncio.run(main())


def first(events: list[Event], kind: type) -> int:
    return next(event.seq for event in events if isinstance(event.body, kind))


def test_a_step_has_the_decision_that_its_event_was_posted_in(events: list[Event]) -> None:
    step = steps_of(events).at(first(events, Delegate))
    assert [one.kind for one in step.decision] == ["Delegate", "Delegate"]
    assert step.event in step.decision


def test_a_step_has_what_its_event_led_to(events: list[Event]) -> None:
    steps = steps_of(events)
    reply = steps.at(first(events, ModelReplied))
    assert [one.kind for one in reply.outputs] == ["Delegate", "Delegate"]
    assert reply.decision == ()
    tool = steps.at(first(events, CallTool))
    assert [one.kind for one in tool.outputs] == ["ToolReturned"]


def test_a_step_has_its_recipients_state_after_it_as_verification_computes_it(events: list[Event]) -> None:
    steps = steps_of(events)
    for seq in (len(events), 1, 12, 9):
        assert steps.at(seq).state == states_after(events[:seq]).get(events[seq - 1].recipient)


def test_what_goes_to_a_port_or_a_client_changes_no_state(events: list[Event]) -> None:
    steps = steps_of(events)
    assert steps.at(first(events, CallTool)).state is None
    assert steps.at(first(events, SessionClosed)).state is None


def test_stepping_back_gives_the_same_as_stepping_forward(events: list[Event]) -> None:
    forward = steps_of(events)
    there = [forward.at(seq) for seq in range(1, len(events) + 1)]
    assert [forward.at(seq) for seq in range(len(events), 0, -1)] == there[::-1]
    state = forward.at(first(events, ModelReplied)).state
    assert isinstance(state, AgentState)
    assert state.phase == "acting"


def test_there_is_no_step_outside(events: list[Event]) -> None:
    steps = steps_of(events)
    assert len(steps) == len(events)
    for seq in (0, -1, len(events) + 1):
        with pytest.raises(IndexError):
            steps.at(seq)


EMPTY = Json(b"{}")
PLAIN = (CallTool(1, 0, "look", "read", EMPTY), ToolReturned(1, 0, "ok", EMPTY), Finished("answered"))
SILENT = (CallModel("host", 1), TurnRequested(1), SchemaChecked(1, "ok"))
LOUD = (
    ToolReturned(1, 0, "error", EMPTY),
    ModelReplied(1, 1, "error", EMPTY),
    ModelReplied(1, content=EMPTY, model="small"),
    TurnRequested(1, attempt=2),
    TurnRequested(1, model="small"),
    SchemaChecked(1, "invalid"),
    ApprovalGiven(1, 0, "denied"),
    ApprovalGiven(1, 0, "approved", arguments=EMPTY),
    Tell("r", "host", "Wait!"),
    Told(1, "Wait!"),
    Finished("budget"),
)


def event(seq: int, body: AnyMessage) -> Event:
    return Event(seq, 0, "host", "supervisor", 0, body)


@table("body", LOUD)
def test_failures_retries_other_models_and_messages_matter(body: AnyMessage) -> None:
    assert matters(event(1, body))
    assert not is_bookkeeping(event(1, body))


def test_grants_and_checks_are_bookkeeping_and_the_rest_is_not() -> None:
    assert all(is_bookkeeping(event(1, body)) and not matters(event(1, body)) for body in SILENT)
    assert not any(is_bookkeeping(event(1, body)) or matters(event(1, body)) for body in PLAIN)
    assert [is_failure(event(1, body)) for body in LOUD].count(True) == 5


@given(st.lists(st.sampled_from([*PLAIN, *SILENT, *LOUD])), st.integers(2, 12))
def test_a_cut_list_keeps_order_ends_and_all_that_matters(bodies: list[AnyMessage], most: int) -> None:
    events = [event(seq, body) for seq, body in enumerate(bodies, 1)]
    found = essential(events, most)
    assert [one.seq for one in found] == sorted({one.seq for one in found})
    assert {one.seq for one in events if matters(one)} <= {one.seq for one in found}
    assert found[:1] == events[:1]
    assert found[-1:] == events[-1:]
    assert len(found) <= max(most, sum(map(matters, events)) + 2)
    if len(events) > most and any(is_bookkeeping(one) for one in found[1:-1]):
        raise AssertionError("bookkeeping goes first")
