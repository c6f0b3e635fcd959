"""The answers to calls: which are errors, which count, and what a request reads of them."""

import msgspec
import pytest
from msgspec.structs import replace

from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.open_calls import find, put
from callboard.actors.protocol import prompts
from callboard.actors.protocol.conversation import text_json, tool_result
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    Delegated,
    DelegationEnded,
    Finished,
    ReportJudged,
    Stop,
    ToolsGiven,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import ApprovalGiven, CallTool
from callboard.actors.protocol.profiles import ToolsChange
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.replay.testing.sessions.scenario import NO_LIMITS, profile, tool_spec
from callboard.replay.testing.sessions.scripted_replies import Reply, calls
from tests.actors.harness import SCHEMA, AgentHarness, kinds


def begun(limits: Limits = NO_LIMITS, schema: object = None) -> AgentHarness:
    agent = AgentHarness()
    agent.begins(schema, limits=limits)
    return agent


def answers(agent: AgentHarness) -> list[Json]:
    return [answer.block for answer in agent.state.calls.answers.values()]


def ids(agent: AgentHarness) -> list[str]:
    """Return the ids of the calls of the last reply, in their order."""
    calls = agent.state.calls
    found = {call: msgspec.json.decode(one.block)["tool_use_id"] for call, one in calls.answers.items()}
    found |= {one.call: one.use.id for one in (*calls.open.values(), *calls.reports)}
    return [found[call] for call in sorted(found)]


def block(use_id: str, text: str, *, is_error: bool) -> Json:
    return tool_result(use_id, text_json(text), is_error)


def test_the_end_of_a_call_that_is_not_open_changes_nothing() -> None:
    agent = begun()
    agent.calls("look")
    before = agent.state
    assert agent.hears(DelegationEnded(7, 0, "answered", "host.1.1", labels=("secret",))) == []
    assert agent.state == before


def test_a_denied_call_is_answered_with_an_error_and_other_calls_go_on() -> None:
    agent = begun()
    agent.calls("pay", "pay")
    denied = ApprovalGiven(1, 0, "denied", "no")
    assert agent.hears(replace(denied, turn=9)) == []
    assert agent.state.calls.answers.size == 0
    agent.hears(denied)
    assert answers(agent) == [block(ids(agent)[0], prompts.not_approved(denied), is_error=True)]


def test_only_the_call_whose_arguments_were_changed_is_told_so() -> None:
    agent = begun()
    agent.calls("pay", "pay")
    agent.hears(ApprovalGiven(1, 0, "approved", arguments=Json(b'{"euros":3}')))
    agent.hears(ApprovalGiven(1, 1, "approved"))
    for call in (0, 1):
        agent.hears(agent.returned(call))
    texts = [
        str(one["content"])
        for one in msgspec.convert(agent.conversation()[-1]["content"], list[dict[str, object]])
    ]
    assert ['"euros":3' in text for text in texts] == [True, False]
    assert texts[1] == "done"


def test_an_answer_for_a_call_that_still_waits_for_its_place_is_ignored() -> None:
    agent = begun(Limits(max_parallel_tools=1))
    agent.calls("look", "pay")
    assert agent.hears(ApprovalGiven(1, 1, "approved")) == []
    assert agent.hears(agent.returned(1)) == []
    assert agent.state.calls.answers.size == 0
    assert kinds(agent.hears(agent.returned(0))) == ["CallTool"]


def test_a_result_that_sets_tools_is_no_error_and_frees_its_place() -> None:
    agent = begun(Limits(max_parallel_tools=1))
    agent.calls("look", "look")
    change = ToolsChange((tool_spec("find"),), profile="other")
    posts = agent.hears(replace(agent.returned(0), tools=change))
    assert kinds(posts) == ["ToolsChanged", "CallTool"]
    assert answers(agent) == [block(ids(agent)[0], "done", is_error=False)]
    assert agent.state.calls.tools == 1


def test_the_start_of_a_task_is_no_error() -> None:
    agent = AgentHarness("host")
    agent.begins(who=profile("host", ["helper"], ["look"], background=True))
    agent.reads(calls(("task", {"prompt": "work", "background": True}), ("look", {})))
    agent.hears(Delegated(1, 0, "host.1"))
    assert answers(agent) == [block(ids(agent)[0], prompts.started("host.1"), is_error=False)]
    for other in (Delegated(1, 0, "host.2"), Delegated(1, 7, "host.3"), Delegated(0, 1, "host.3")):
        assert agent.hears(other) == []
    assert [ordinal for ordinal, _ in agent.state.background.tasks.items()] == [1]


def test_a_stop_leaves_errors_for_the_calls_without_an_answer_and_those_beyond_the_limit() -> None:
    agent = begun(Limits(max_tool_calls=2))
    agent.calls("look", "task", "look")
    first, second, third = ids(agent)
    agent.hears(agent.returned(0))
    agent.hears(Stop("cancelled"))
    wanted = [
        block(first, "done", is_error=False),
        block(second, prompts.CANCELLED, is_error=True),
        block(third, prompts.too_many_calls(2), is_error=True),
    ]
    assert [one.block for one in agent.state.calls.answers.values()] == wanted


@pytest.mark.parametrize(("verdict", "kind"), [("accepted", "reported"), ("invalid", "invalid_report")])
def test_the_results_of_a_reply_with_the_last_report_stand_before_the_next_prompt(
    verdict: str, kind: str
) -> None:
    agent = begun(Limits(max_report_attempts=1), SCHEMA)
    agent.calls("look", "report_back")
    agent.hears(agent.returned(0))
    judged = ReportJudged(1, 1, verdict, (SchemaProblem("/n", "is wrong"),))  # type: ignore[arg-type]  # a text of the table
    (end,) = agent.hears(judged)
    assert isinstance(end, Finished)
    assert end.kind == kind
    assert agent.state.calls.answers.size == 2
    (wish,) = agent.begins(SCHEMA)
    assert isinstance(wish, TurnRequested)
    assert wish.new == (2, 3, 4, 5)  # the reply, both answers, and its own `Begin`


def test_the_problems_of_the_last_invalid_report_are_told_although_a_later_one_is_late() -> None:
    agent = begun(Limits(max_report_attempts=1), SCHEMA)
    agent.calls("report_back", "report_back")
    assert agent.hears(ReportJudged(1, 0, "invalid", (SchemaProblem("/n", "is wrong"),))) == []
    (end,) = agent.hears(ReportJudged(1, 1, "late"))
    assert isinstance(end, Finished)
    assert end.kind == "invalid_report"
    assert "is wrong" in end.detail


def test_a_request_after_an_unheard_end_names_the_end_and_its_own_begin() -> None:
    agent = AgentHarness("host")
    who = profile("host", ["helper"], background=True, on_finish="cancel")
    agent.begins(who=who)
    agent.reads(calls(("task", {"prompt": "work", "background": True})))
    agent.hears(Delegated(1, 0, "host.1"))
    assert kinds(agent.reads(Reply("so far"))) == ["Finished"]
    agent.hears(DelegationEnded(1, 0, "answered", "host.1", text="done"))
    before = agent.state.context_tokens
    (wish,) = agent.begins(who=who)
    assert isinstance(wish, TurnRequested)
    assert (wish.new[-2:], wish.ends, wish.told) == ((agent.seq - 1, agent.seq), 1, 0)
    assert (
        wish.need.tokens == before + len([*agent.state.history.values()][-1]) + agent.state.model.max_tokens
    )
    assert agent.state.background.words.size == agent.state.background.tells == 0


def test_the_need_of_a_request_counts_its_results_and_the_words_about_other_tools() -> None:
    agent = AgentHarness()
    agent.begins(who=profile("worker", [], ["look"], inline_tools=True))
    agent.calls("look", usage=None)
    agent.hears(ToolsGiven((tool_spec("find"),)))
    before, (use_id,) = agent.state.context_tokens, ids(agent)
    (wish,) = agent.hears(agent.returned(0))
    assert isinstance(wish, TurnRequested)
    told = len(block(use_id, "done", is_error=False)) + len([*agent.state.history.values()][-1])
    assert wish.need.tokens == before + told + agent.state.model.max_tokens


def test_calls_keep_their_arguments_and_their_tool_until_their_answer() -> None:
    agent = begun()
    posts = agent.calls("look", "task")
    assert isinstance(posts[0], CallTool)
    look, task = [call.use for call in agent.state.calls.open.values()]
    assert (look.name, look.input) == ("look", posts[0].arguments)
    assert task == ToolUse(task.id, "task", Json(b"null"))


def test_words_about_changed_arguments_stand_before_those_about_a_form_that_was_declined() -> None:
    agent = begun()
    agent.calls("look")
    call = find(agent.state.calls, agent.state.turn, 0)
    assert call is not None
    call = replace(call, is_changed=True, use=replace(call.use, declined="No form."))
    agent.state = replace(agent.state, calls=put(agent.state.calls, call))
    agent.hears(agent.returned(0))
    words = [one["text"] for one in agent.conversation()[-1]["content"][-1]["content"]]  # type: ignore[index]  # blocks
    assert words == [prompts.changed_arguments(call.use.input), "No form.", "done"]
