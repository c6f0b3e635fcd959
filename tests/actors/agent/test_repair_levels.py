"""An agent whose service refuses its conversation: the next repair level, and an ending to get over."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from callboard.actors.agent.state import request_of
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import AnyMessage, Finished, Stop, Stopped, TurnRequested
from callboard.actors.protocol.repair_levels import START, Repair
from callboard.actors.protocol.usage import ZERO
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.testing.sessions.scripted_replies import Reply
from tests.actors.harness import AgentHarness

REFUSED = ModelFailure("invalid_request_error", "the service answered 400: messages.1: no")


def called(attempts: int = 6) -> AgentHarness:
    """Return an agent that has called a tool and asks for its second turn."""
    agent = AgentHarness("host")
    agent.begins(limits=Limits(max_model_attempts=attempts))
    agent.calls("look")
    agent.hears(agent.returned(0))
    return agent


def refused(agent: AgentHarness, failure: ModelFailure = REFUSED) -> Sequence[AnyMessage]:
    return agent.reads(Reply(failure=failure), ZERO)


def wish(posts: Sequence[AnyMessage]) -> TurnRequested:
    (one,) = posts
    assert isinstance(one, TurnRequested)
    return one


def test_a_refused_request_is_followed_by_one_attempt_at_the_next_level() -> None:
    agent = called()
    before, bound = agent.state.digest, agent.state.context_tokens
    again = wish(refused(agent))
    assert (again.turn, again.attempt, again.after_ms) == (2, 2, 0)
    assert (again.repair, again.breaks_cache) == (Repair(1, 1), True)
    assert again.digest == agent.state.digest != before
    assert agent.state.context_tokens > bound
    assert request_of(agent.state).repair == Repair(1, 1)
    (end,) = refused(agent)
    assert isinstance(end, Finished)
    assert (end.kind, end.detail) == ("model_error", "invalid_request_error: " + REFUSED.message)


def test_a_later_ask_goes_on_at_the_level_after_and_every_later_request_says_so() -> None:
    agent = called()
    refused(agent)
    refused(agent)
    asked = wish(agent.begins())
    assert (asked.repair, asked.breaks_cache) == (Repair(2, 1), True)
    agent.calls("look")
    later = wish(agent.hears(agent.returned(0)))
    assert (later.repair, later.breaks_cache) == (Repair(2, 1), False)


def test_at_the_last_level_a_refusal_is_final() -> None:
    agent = called()
    for _ in range(2):
        refused(agent)
        refused(agent)
        agent.begins()
    assert agent.state.repair == Repair(2, 1)
    assert isinstance(refused(agent)[0], Finished)
    assert wish(agent.begins()).repair == Repair(2, 1)


def test_without_an_attempt_left_the_level_is_for_the_next_ask() -> None:
    agent = called(attempts=1)
    assert isinstance(refused(agent)[0], Finished)
    asked = wish(agent.begins(limits=Limits(max_model_attempts=1)))
    assert (asked.repair, asked.breaks_cache) == (Repair(1, 1), True)


def test_a_turn_that_is_taken_back_leaves_the_level_and_the_next_one_says_that_it_breaks_the_cache() -> None:
    agent = called(attempts=1)
    refused(agent)
    agent.begins()
    (stopped,) = agent.hears(Stop("cancelled"))
    assert isinstance(stopped, Stopped)
    asked = wish(agent.begins())
    assert (asked.repair, asked.breaks_cache) == (Repair(1, 1), True)


def test_other_failures_raise_no_level() -> None:
    for failure in (
        ModelFailure("authentication_error", "no"),
        ModelFailure("context_full", "too long"),
        ModelFailure("invalid_request_error", "Your credit balance is too low"),
        ModelFailure("invalid_request_error", "nothing was sent: no form"),
    ):
        agent = called()
        assert isinstance(refused(agent, failure)[0], Finished)
        assert agent.state.repair is None
        assert request_of(agent.state).repair == START
    agent = called()
    assert wish(refused(agent, replace(REFUSED, is_retryable=True))).repair is None


def test_a_request_without_a_reply_in_it_has_nothing_to_repair() -> None:
    agent = AgentHarness("host")
    agent.begins()
    assert isinstance(refused(agent)[0], Finished)
    assert wish(agent.begins()).repair is None


def test_a_session_under_the_first_rules_keeps_them() -> None:
    agent = AgentHarness("host")
    agent.hears(replace(agent.begin(), rules=1))
    agent.calls("look")
    agent.hears(agent.returned(0))
    assert isinstance(refused(agent)[0], Finished)
    assert agent.state.repair is None


@pytest.mark.parametrize("code", ["http_400", "http_422", "BadRequestError", "INVALID_ARGUMENT"])
def test_services_have_several_codes_for_a_refused_request(code: str) -> None:
    assert wish(refused(called(), ModelFailure(code, "no"))).repair == Repair(1, 1)
