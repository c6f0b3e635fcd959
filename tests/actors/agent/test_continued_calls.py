"""Calls that ask for input: each round is a question and another call; the model reads the last result."""

from typing import cast

import pytest
from msgspec.structs import replace

from callboard.actors.agent.continued_calls import asked_of, note_effect
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import Stop, Stopped, TurnRequested, TurnSettled
from callboard.actors.protocol.port_messages import ApprovalGiven, CallTool, RequestApproval, ToolReturned
from callboard.actors.protocol.value_types import INPUT_ROUNDS_MAX, InputAction, InputAsked, InputGiven
from callboard.replay.testing.sessions.scenario import profile, program_profile
from callboard.replay.testing.sessions.scripted_replies import Step, reply_of, tool
from callboard.replay.testing.sessions.scripted_replies import calls as says
from tests.actors.harness import AgentHarness

FORMS = Json(b'{"go":{"message":"Where to?","schema":{"type":"object"}}}')
VALUES = Json(b'{"go":{"city":"Oslo"}}')


def agent_with(*calls: str) -> AgentHarness:
    """Return an agent that has made these calls, of write tools."""
    agent = AgentHarness("host")
    agent.begins(who=profile("host", writes=["save", "put"]))
    agent.reads(says(*[(name, {}) for name in calls]))
    return agent


def asks(call: int = 0, kept: str = "") -> ToolReturned:
    return ToolReturned(1, call, "input_required", text_json("it asks"), asked=InputAsked(FORMS, kept))


def gives(number: int, call: int = 0) -> ApprovalGiven:
    return ApprovalGiven(1, call, "approved", round=number, values=VALUES)


def test_a_call_that_asks_for_input_is_a_question_and_then_its_next_round() -> None:
    agent = agent_with("save")
    (question,) = agent.hears(asks(kept="step 1"))
    assert isinstance(question, RequestApproval)
    assert (question.round, question.form, question.tool) == (1, FORMS, "save")
    (call,) = agent.hears(gives(1))
    assert isinstance(call, CallTool)
    assert call.given == InputGiven(1, VALUES, "step 1")
    assert (call.turn, call.call, call.tool, call.effect) == (1, 0, "save", "write")
    (again,) = agent.hears(asks(kept="step 2"))
    assert isinstance(again, RequestApproval)
    assert again.round == 2
    (last,) = agent.hears(gives(2))
    assert isinstance(last, CallTool)
    assert last.given == InputGiven(2, VALUES, "step 2")
    (turn,) = agent.hears(ToolReturned(1, 0, "ok", text_json("booked")))
    assert isinstance(turn, TurnRequested)


def test_other_calls_go_on_while_one_waits_for_a_person() -> None:
    agent = agent_with("save", "put")
    agent.hears(asks(0))
    assert agent.hears(ToolReturned(1, 1, "ok", text_json("put"))) == []
    assert [type(post) for post in agent.hears(gives(1))] == [CallTool]


def test_an_answer_to_another_round_brings_no_values() -> None:
    agent = agent_with("save")
    agent.hears(asks())
    (call,) = agent.hears(gives(3))
    assert isinstance(call, CallTool)
    assert call.given == InputGiven(1, NULL)


@pytest.mark.parametrize(("digest", "action"), [("seen", "decline"), ("", "cancel")])
def test_a_tool_is_told_that_a_person_declines_or_does_not_answer(digest: str, action: str) -> None:
    agent = agent_with("save")
    agent.hears(asks(kept="step 1"))
    (call,) = agent.hears(ApprovalGiven(1, 0, "denied", "not today", digest, round=1))
    assert isinstance(call, CallTool)
    assert call.given == InputGiven(1, Json(b'{"go":null}'), "step 1", cast(InputAction, action))
    (turn,) = agent.hears(ToolReturned(1, 0, "ok", text_json("not booked")))
    assert isinstance(turn, TurnRequested)
    conversation = str(agent.conversation())
    assert "did not get it: not today" in conversation
    assert "not booked" in conversation


def test_a_tool_may_ask_again_after_a_person_has_declined() -> None:
    agent = agent_with("save")
    agent.hears(asks())
    agent.hears(ApprovalGiven(1, 0, "denied", "not today", "seen", round=1))
    (question,) = agent.hears(asks())
    assert isinstance(question, RequestApproval)
    assert question.round == 2
    (call,) = agent.hears(gives(2))
    assert isinstance(call, CallTool)
    assert call.given == InputGiven(2, VALUES)
    agent.hears(ToolReturned(1, 0, "ok", text_json("booked")))
    assert "not today" not in str(agent.conversation())


def test_a_question_that_is_withdrawn_ends_the_call() -> None:
    agent = agent_with("save")
    agent.hears(asks())
    (turn,) = agent.hears(ApprovalGiven(1, 0, "cancelled", round=1))
    assert isinstance(turn, TurnRequested)


def test_the_tool_of_a_program_is_told_that_a_person_declines() -> None:
    agent = AgentHarness()
    agent.begins(who=program_profile("p", writes=["save"]))
    agent.reads(reply_of(Step((tool("a", "save"),)), 1))
    agent.hears(asks())
    (call,) = agent.hears(ApprovalGiven(1, 0, "denied", "no", "seen", round=1))
    assert isinstance(call, CallTool)
    assert call.given == InputGiven(1, Json(b'{"go":null}'), "", "decline")


def test_a_call_that_asks_too_often_is_ended() -> None:
    agent = agent_with("save")
    for number in range(1, INPUT_ROUNDS_MAX + 1):
        assert [type(post) for post in agent.hears(asks())] == [RequestApproval]
        assert [type(post) for post in agent.hears(gives(number))] == [CallTool]
    (turn,) = agent.hears(asks())
    assert isinstance(turn, TurnRequested)
    assert "it asks" in str(agent.conversation())


def test_a_wish_for_input_without_a_form_is_an_error() -> None:
    agent = agent_with("save")
    (turn,) = agent.hears(replace(asks(), asked=None))
    assert isinstance(turn, TurnRequested)


def test_an_interrupted_round_runs_again_with_its_values_if_a_person_says_so() -> None:
    agent = AgentHarness("host")
    agent.begins(who=profile("host", asks=["pay"]))
    agent.reads(says(("pay", {})))
    agent.hears(ApprovalGiven(1, 0, "approved"))
    agent.hears(asks(kept="step 1"))
    agent.hears(gives(1))
    (question,) = agent.hears(ToolReturned(1, 0, "interrupted", text_json("cut")))
    assert isinstance(question, RequestApproval)
    assert (question.is_repeat, question.round) == (True, 0)
    (call,) = agent.hears(ApprovalGiven(1, 0, "approved", is_repeat=True))
    assert isinstance(call, CallTool)
    assert call.given == InputGiven(1, VALUES, "step 1")


def test_a_stopped_agent_asks_no_person() -> None:
    agent = agent_with("save")
    agent.hears(Stop("cancelled"))
    posts = agent.hears(asks())
    assert [type(post) for post in posts if not isinstance(post, TurnSettled)] == [Stopped]


def test_the_input_that_a_call_asks_for_is_known_while_it_is_open() -> None:
    agent = agent_with("put", "save")
    agent.hears(asks(1, "kept"))
    wanted = InputAsked(FORMS, "kept")
    places = [(1, 0), (1, 1), (1, 2), (0, 1), (2, 1)]
    assert [asked_of(agent.state, *place) for place in places] == [None, wanted, None, None, None]
    program = AgentHarness()
    program.begins(who=program_profile("p", [], writes=["save"]))
    program.reads(reply_of(Step((tool("a", "save"), tool("b", "save"))), 1))
    program.hears(asks(1))
    found = [asked_of(program.state, *place) for place in places]
    assert found == [None, InputAsked(FORMS), None, None, None]


@pytest.mark.parametrize("same", [0, 44])
def test_the_first_call_that_a_fork_does_not_run_is_noted(same: int) -> None:
    state = agent_with("save", "put").state
    returned = ToolReturned(1, 1, "needs_effect", NULL, same=same)
    noted = note_effect(state, returned, "put").needs_effect
    more = "; event 44 of the recording is the result of the same call" if same else ""
    assert noted == f"call 1 of turn 1, put, has an effect and no recorded result{more}"
    assert note_effect(replace(state, needs_effect="before"), returned, "put").needs_effect == "before"
    assert note_effect(state, replace(returned, status="ok"), "put") is state
