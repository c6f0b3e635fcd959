"""The end of an agent, by itself or drained after a stop; and its conversation afterwards."""

import msgspec
import pytest

from callboard.actors.agent.state import initial_agent, need_of
from callboard.actors.agent.turns import NewMessage, ask_turn
from callboard.actors.protocol import prompts
from callboard.actors.protocol.conversation import rolled, text_json, user_message
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    DelegationEnded,
    Finished,
    ReportJudged,
    Stop,
    Stopped,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.usage import ZERO
from callboard.actors.protocol.value_types import Settled
from callboard.replay.testing.sessions.scenario import NO_LIMITS
from callboard.replay.testing.sessions.scripted_replies import Reply, calls
from tests.actors.harness import FINAL, SCHEMA, USED, AgentHarness


def begun(schema: object = None, limits: Limits = NO_LIMITS) -> AgentHarness:
    agent = AgentHarness()
    agent.begins(schema, limits=limits)
    return agent


def behind_the_calls(agent: AgentHarness) -> list[tuple[object, object]]:
    """Begin again, and return the blocks of the user's message that answers the last reply."""
    agent.begins(prompt="again")
    blocks = msgspec.convert(agent.conversation()[-1]["content"], list[dict[str, object]])
    return [(one["type"], one.get("content", one.get("text"))) for one in blocks]


def test_a_message_adds_to_the_digest_the_bound_and_the_new_events() -> None:
    message = user_message((), text_json("hello"))
    first, _ = ask_turn(initial_agent("host"), None, NewMessage(message, 10, names=(4,)))
    state, (post,) = ask_turn(first, None, NewMessage(message, 5, names=(6, 7)))
    assert (len(state.history), state.context_tokens, state.fresh) == (2, 15, ())
    assert state.digest == rolled(rolled("", message), message)
    assert isinstance(post.body, TurnRequested)
    assert (post.body.digest, post.body.new, post.body.need) == (state.digest, (6, 7), need_of(state))


def test_an_agent_that_is_stopped_before_its_grant_waits_for_nothing() -> None:
    assert begun().hears(Stop("cancelled")) == [Stopped()]


def test_an_agent_that_is_stopped_during_its_model_call_settles_the_answer() -> None:
    agent = begun()
    assert agent.hears(Stop("cancelled", (1, 1))) == []
    assert agent.hears(ModelReplied(1, 1, "cancelled", usage=ZERO)) == [Stopped(Settled(ZERO))]


def test_an_answer_of_unknown_use_is_settled_as_unknown() -> None:
    agent = begun()
    agent.hears(Stop("cancelled", (1, 1)))
    assert agent.hears(ModelReplied(1, 1, "lost")) == [Stopped(Settled(None))]


def test_a_stopped_agent_does_not_wait_for_a_grant_that_was_answered_before() -> None:
    # The stop names a grant whose answer was handled, and settled, before the stop came.
    agent = begun()
    agent.calls("look")
    assert agent.hears(Stop("cancelled", (1, 1))) == []
    assert agent.hears(agent.returned(0)) == [Stopped()]
    retried = begun()
    retried.reads(Reply(failure=msgspec.structs.replace(FINAL, is_retryable=True)))
    assert retried.hears(Stop("cancelled", (1, 1))) == [Stopped()]


def test_a_stopped_agent_waits_for_every_tool_but_for_no_delegation() -> None:
    agent = begun()
    agent.calls("look", "task", "save")
    assert agent.hears(Stop("cancelled")) == []
    assert agent.hears(agent.returned(2)) == []
    assert agent.hears(agent.returned(0)) == [Stopped()]


def test_a_stopped_agent_starts_nothing_when_answers_come() -> None:
    agent = begun(SCHEMA)
    agent.calls("look", "report_back")
    agent.hears(Stop("cancelled"))
    assert agent.hears(agent.returned(0)) == [Stopped()]
    assert agent.state.phase == "idle"


def test_a_stop_that_crosses_the_agents_own_end_changes_nothing() -> None:
    agent = begun()
    assert agent.reads(Reply("done")) == [Finished("answered", "done", settled=Settled(USED))]
    assert agent.hears(Stop("cancelled", (1, 1))) == []


# --- and begins again -------------------------------------------------------------


def test_after_a_cancel_every_call_of_the_conversation_has_a_result_in_call_order() -> None:
    agent = begun(SCHEMA)
    agent.calls("look", "task", "save", "nonsense", "report_back")
    agent.hears(agent.returned(2, "saved"))
    agent.hears(Stop("cancelled"))
    agent.hears(agent.returned(0, "looked"))
    assert behind_the_calls(agent) == [
        ("tool_result", "looked"),
        ("tool_result", prompts.CANCELLED),
        ("tool_result", "saved"),
        ("tool_result", prompts.unknown_tool("nonsense", ("look", "save", "pay"))),
        ("tool_result", prompts.CANCELLED),
        ("text", "again"),
    ]


def test_a_delegation_that_ends_while_its_parent_drains_is_remembered() -> None:
    agent = begun()
    agent.calls("look", "task")
    agent.hears(Stop("cancelled"))
    agent.hears(DelegationEnded(1, 1, "cancelled", detail="the agent that delegated has ended"))
    agent.hears(agent.returned(0))
    assert "the agent that delegated has ended" in str(behind_the_calls(agent)[1][1])


def test_reports_that_were_not_judged_are_answered_as_cancelled() -> None:
    agent = begun(SCHEMA)
    agent.reads(calls(("report_back", {"m": 1}), ("report_back", {"n": 1})))
    agent.hears(ReportJudged(1, 0, "late"))
    agent.hears(Stop("cancelled"))
    results = behind_the_calls(agent)
    assert "Too late" in str(results[0][1])
    assert results[1] == ("tool_result", prompts.CANCELLED)


def test_after_a_cap_the_last_results_stand_before_the_next_prompt() -> None:
    agent = begun(limits=Limits(max_iterations=1))
    agent.calls("look")
    assert agent.hears(agent.returned(0, "found")) == [Finished("iteration_cap")]
    assert behind_the_calls(agent) == [("tool_result", "found"), ("text", "again")]


def test_after_a_report_its_judgement_stands_before_the_next_prompt() -> None:
    agent = begun(SCHEMA)
    agent.calls("report_back")
    agent.hears(ReportJudged(1, 0, "accepted"))
    assert behind_the_calls(agent) == [("tool_result", "Accepted."), ("text", "again")]


def test_after_an_answer_the_next_prompt_stands_alone() -> None:
    agent = begun()
    agent.reads(Reply("done"))
    agent.begins(prompt="again")
    assert agent.conversation()[-1] == {"role": "user", "content": "again"}


def test_a_cancelled_turn_leaves_no_trace_of_the_model() -> None:
    agent = begun()
    agent.hears(Stop("cancelled", (1, 1)))
    agent.reads(Reply("half a thought"))
    agent.begins(prompt="again")
    assert [one["content"] for one in agent.conversation()] == ["go", "again"]


def test_the_next_asks_first_request_names_every_event_whose_content_is_new_in_it() -> None:
    agent = begun()  # 1: Begin
    agent.calls("look", "task")  # 2: the reply
    agent.hears(agent.returned(0))  # 3
    agent.hears(Stop("cancelled"))  # 4: drains at once, the delegation has no answer
    (wish,) = agent.begins()  # 5: Begin
    assert isinstance(wish, TurnRequested)
    assert wish.new == (2, 3, 5)


@pytest.mark.parametrize("schema", [None, SCHEMA, {"type": "array"}])
def test_another_schema_changes_the_fixed_parts_and_keeps_the_conversation(schema: object) -> None:
    agent = begun()
    agent.reads(Reply("done"))
    before = agent.state
    agent.begins(schema, prompt="again")
    assert list(agent.state.history.values())[:2] == list(before.history.values())
    assert agent.state.prefix is not None
    assert before.prefix is not None
    assert (agent.state.prefix == before.prefix) == (schema is None)
    assert agent.state.context_tokens >= before.context_tokens
