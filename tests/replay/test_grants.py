"""Every event of a turn leads to the request of the turn."""

import pytest

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.errors import UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallModel, ModelReplied
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.wishes import first_turn
from callboard.replay.grants import grant_of
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryReader
from tests.golden import SESSIONS, golden, recorded
from tests.replay.logs import survey
from tests.replay.stories import endless_loop, ignored_report, poisoned_sum
from tests.tables import table

GOLDEN = sorted(SESSIONS)


def turn_and_agent(recording: Recording, event: Event) -> tuple[str, int]:
    """Return the agent and the turn of a model call."""
    if isinstance(event.body, RunStep):
        return event.sender, event.body.turn
    assert isinstance(event.body, CallModel)
    wish = first_turn(event.body) or recording.event(event.body.request).body
    return event.body.agent, getattr(wish, "turn", 0)


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


@table("name", GOLDEN)
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


def test_each_agents_own_usage_adds_up_to_the_sessions() -> None:
    recording = Recording.open(MemoryReader(survey()), "one")
    report = recording.budget()
    (total,) = (event.body.usage for event in recording.events if isinstance(event.body, AskEnded))
    assert sum(account.own.tokens for account in report.accounts) == total.tokens
    assert report.accounts[0].subtree.tokens == total.tokens
    assert report.refusal is None


def test_a_call_in_flight_is_reserved_at_its_agent_and_above_it() -> None:
    recording = endless_loop()
    grant = next(
        event
        for event in recording.events
        if isinstance(event.body, CallModel) and event.body.agent == "host.1"
    )
    host, child = recording.budget(grant.seq).accounts
    assert child.reserved.tokens > 0
    assert host.reserved == child.reserved
    assert host.tokens_max == 20_000


def test_the_first_refusal_names_its_agent_and_nothing_before_it() -> None:
    recording = endless_loop()
    refusal = recording.budget().refusal
    assert refusal is not None
    assert refusal.agent == "host.1"
    assert recording.budget(refusal.seq - 1).refusal is None
    assert recording.budget(refusal.seq).refusal == refusal


def test_an_event_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnknownName):
        endless_loop().budget(10**9)
