import pytest

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.errors import UnknownName
from callboard.actors.protocol.port_messages import CallModel
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryReader
from tests.replay.logs import survey
from tests.replay.stories import endless_loop


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
