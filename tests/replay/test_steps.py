import asyncio

import pytest

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.client_messages import SessionClosed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Delegate
from callboard.actors.protocol.port_messages import CallTool, ModelReplied
from callboard.runtime.log.protocol import event_of
from callboard.runtime.runtime import Runtime
from tests.cli.recorded import script, survey_host
from tests.replay.logs import states_after, steps_of


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
