"""Every event of a turn leads to the request of the turn."""

import pytest

from callboard.actors.protocol.errors import UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallModel, ModelReplied
from callboard.replay.grants import grant_of
from callboard.replay.recording import Recording
from tests.golden import SESSIONS, golden, recorded
from tests.replay.stories import ignored_report, poisoned_sum

GOLDEN = sorted(SESSIONS)


def turn_and_agent(recording: Recording, event: Event) -> tuple[str, int]:
    """Return the agent and the turn of a model call."""
    assert isinstance(event.body, CallModel)
    return event.body.agent, getattr(recording.event(event.body.request).body, "turn", 0)


def check(recording: Recording) -> set[str]:
    """Compare each event that names a turn with the turn of its request; return the kinds that have one."""
    kinds = set()
    for event in recording.events:
        found = grant_of(recording, event)
        if found is not None:
            kinds.add(event.kind)
            agent, turn = turn_and_agent(recording, found)
            assert agent in (event.sender, event.recipient, getattr(event.body, "agent", "")), event
            assert getattr(event.body, "turn", turn) in (0, turn), event
    return kinds


@pytest.mark.parametrize("name", GOLDEN)
def test_the_request_of_an_event_is_that_of_its_agent_and_turn(name: str) -> None:
    check(recorded(golden(name)))


def test_all_kinds_of_events_of_a_turn_have_its_request() -> None:
    kinds = check(poisoned_sum()) | check(ignored_report())
    wanted = {
        "TurnRequested",
        "CallModel",
        "ModelReplied",
        "CallTool",
        "ToolReturned",
        "Delegate",
        "DelegationEnded",
        "ReportBack",
        "ReportJudged",
    }
    assert wanted <= kinds
    assert not {"Ask", "Begin", "SessionOpened", "AskEnded", "SessionClosed"} & kinds


def test_calls_of_one_reply_have_the_request_of_this_reply() -> None:
    recording = poisoned_sum()
    for event in recording.events:
        if event.kind in ("CallTool", "Delegate", "ReportBack"):
            reply = recording.event(event.cause)
            assert isinstance(reply.body, ModelReplied)
            assert grant_of(recording, event) == recording.event(reply.cause)


def test_an_event_outside_of_turns_is_refused_with_the_first_calls() -> None:
    recording = ignored_report()
    with pytest.raises(UnknownName, match="event 2, Ask, belongs to no model call; the first of those: "):
        recording.request(2)
