"""`max_tool_calls` and `max_parallel_tools`: which calls run, how many at a time, and in what order."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.agent.open_calls import NO_CALLS, in_order
from callboard.actors.agent.state import AgentState
from callboard.actors.protocol import prompts
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    AnyMessage,
    Delegate,
    DelegationEnded,
    Stop,
    Stopped,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import ApprovalGiven, CallTool, RequestApproval, ToolReturned
from callboard.replay.testing.sessions.scripted_replies import Reply
from tests.actors.harness import ARGUMENTS, SCHEMA, AgentHarness, kinds

TWO_AT_A_TIME = Limits(max_parallel_tools=2)


def begun(limits: Limits, schema: object = None) -> AgentHarness:
    agent = AgentHarness()
    agent.begins(schema, limits=limits)
    return agent


def tools_in(posted: list[AnyMessage]) -> list[int]:
    """Return the calls whose tools are posted."""
    return [body.call for body in posted if isinstance(body, CallTool)]


def results(blocks: list[object]) -> list[str]:
    return [str(block["content"]) for block in msgspec.convert(blocks, list[dict[str, object]])]


def results_read(agent: AgentHarness) -> list[str]:
    """Return the results in the newest message of the conversation."""
    return results(msgspec.convert(agent.conversation()[-1]["content"], list[object]))


# --- max_tool_calls ---------------------------------------------------------------


def test_calls_beyond_the_limit_are_answered_with_an_error() -> None:
    agent = begun(Limits(max_tool_calls=2))
    posted = agent.calls("look", "look", "look", "task")
    assert kinds(posted) == ["CallTool", "CallTool", "TurnSettled"]
    agent.hears(agent.returned(1))
    agent.hears(agent.returned(0))
    assert results_read(agent) == ["done", "done", *[prompts.too_many_calls(2)] * 2]


def test_calls_of_every_kind_count_in_call_order() -> None:
    agent = begun(Limits(max_tool_calls=4), SCHEMA)
    posted = agent.calls("nonsense", "pay", "task", "look", "report_back", "save")
    assert kinds(posted) == ["RequestApproval", "Delegate", "CallTool"]
    assert agent.state.calls.reports == ()


def test_a_cut_call_beyond_the_limit_is_one_of_those_that_are_too_many() -> None:
    agent = begun(Limits(max_tool_calls=1))
    agent.reads(Reply("", (("look", {}), ("look", {})), "max_tokens"))
    agent.hears(agent.returned(0))
    assert results_read(agent) == ["done", prompts.too_many_calls(1)]


def test_a_reply_whose_first_calls_fail_at_once_goes_on_without_a_request() -> None:
    agent = begun(Limits(max_tool_calls=1))
    assert kinds(agent.calls("nonsense", "look")) == ["TurnRequested"]
    assert results_read(agent)[1] == prompts.too_many_calls(1)


# --- max_parallel_tools -----------------------------------------------------------


def test_tools_run_up_to_the_limit_and_each_answer_starts_the_next_in_call_order() -> None:
    agent = begun(TWO_AT_A_TIME)
    assert tools_in(agent.calls(*["look"] * 5)) == [0, 1]
    assert tools_in(agent.hears(agent.returned(1))) == [2]
    assert tools_in(agent.hears(agent.returned(2))) == [3]
    assert tools_in(agent.hears(agent.returned(0))) == [4]
    assert agent.hears(agent.returned(4)) == []
    assert kinds(agent.hears(agent.returned(3))) == ["TurnRequested"]


def test_delegations_and_approvals_take_no_place() -> None:
    agent = begun(TWO_AT_A_TIME)
    posted = agent.calls("task", "look", "pay", "look", "look", "task", "pay")
    assert kinds(posted) == [
        "Delegate",
        "CallTool",
        "RequestApproval",
        "CallTool",
        "Delegate",
        "RequestApproval",
    ]
    assert tools_in(agent.hears(DelegationEnded(1, 0, "answered", text="helped"))) == []
    assert tools_in(agent.hears(ApprovalGiven(1, 2, "denied"))) == []
    assert tools_in(agent.hears(agent.returned(1))) == [4]


def test_an_approved_call_takes_its_place_in_line() -> None:
    agent = begun(TWO_AT_A_TIME)
    agent.calls("look", "pay", "look", "look", "pay")
    assert agent.hears(ApprovalGiven(1, 4, "approved")) == []
    assert agent.hears(ApprovalGiven(1, 1, "approved")) == []
    started = [tools_in(agent.hears(agent.returned(call))) for call in (0, 2, 1)]
    assert started == [[1], [3], [4]]


def test_an_approved_call_starts_at_once_where_a_place_is_free() -> None:
    agent = begun(TWO_AT_A_TIME)
    agent.calls("look", "pay")
    assert tools_in(agent.hears(ApprovalGiven(1, 1, "approved"))) == [1]


def test_an_interrupted_call_leaves_its_place_while_a_person_is_asked() -> None:
    agent = begun(Limits(max_parallel_tools=1))
    agent.calls("pay", "look")
    agent.hears(ApprovalGiven(1, 0, "approved"))
    agent.hears(agent.returned(1))
    posted = agent.hears(ToolReturned(1, 0, "interrupted", text_json("?")))
    assert kinds(posted) == ["RequestApproval"]
    assert tools_in(agent.hears(ApprovalGiven(1, 0, "approved", is_repeat=True))) == [0]


def test_an_interrupted_call_lets_the_next_one_start_in_the_same_decision() -> None:
    agent = begun(Limits(max_parallel_tools=1))
    agent.calls("pay", "look", "look")
    agent.hears(ApprovalGiven(1, 0, "approved"))
    agent.hears(agent.returned(1))
    posted = agent.hears(ToolReturned(1, 0, "interrupted", text_json("?")))
    assert kinds(posted) == ["RequestApproval", "CallTool"]
    assert tools_in(posted) == [2]


def test_a_stopped_agent_starts_no_waiting_call_and_gives_it_a_cancelled_result() -> None:
    agent = begun(TWO_AT_A_TIME)
    agent.calls(*["look"] * 4)
    agent.hears(Stop("cancelled"))
    assert agent.hears(agent.returned(0)) == []
    assert kinds(agent.hears(agent.returned(1))) == ["Stopped"]
    assert agent.state.calls.line.size == 0
    blocks = [msgspec.json.decode(block) for block in in_order(agent.state.calls.answers)[0]]
    assert results(blocks) == ["done", "done", prompts.CANCELLED, prompts.CANCELLED]


def test_the_next_life_of_a_stopped_host_starts_without_waiting_calls() -> None:
    agent = begun(TWO_AT_A_TIME)
    agent.calls(*["look"] * 4)
    for body in (Stop("cancelled"), agent.returned(0), agent.returned(1), agent.begin(limits=TWO_AT_A_TIME)):
        agent.hears(body)
    assert tools_in(agent.calls("save")) == [0]
    assert kinds(agent.hears(agent.returned(0))) == ["TurnRequested"]


def test_an_agent_whose_actor_failed_starts_no_waiting_call() -> None:
    agent = begun(TWO_AT_A_TIME)
    agent.calls(*["look"] * 3)
    agent.fails(agent.returned(0))
    assert agent.hears(agent.returned(1)) == []
    assert kinds(agent.hears(Stop("crashed"))) == ["Stopped"]


@pytest.mark.parametrize("call", [1, 2], ids=["waiting", "asked-about"])
def test_an_answer_of_a_tool_that_was_not_called_changes_nothing(call: int) -> None:
    agent = begun(Limits(max_parallel_tools=1))
    agent.calls("look", "look", "pay")
    before = agent.state
    assert agent.hears(agent.returned(call)) == []
    assert agent.state == before


def test_an_approval_that_was_not_asked_for_changes_nothing() -> None:
    agent = begun(Limits(max_parallel_tools=1))
    agent.calls("look", "look", "task")
    before = agent.state
    for call in (-1, 0, 1, 2, 3):
        assert agent.hears(ApprovalGiven(1, call, "approved")) == []
    assert agent.state == before


# --- any reply, any order of answers ----------------------------------------------


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    names=st.lists(st.sampled_from(sorted(ARGUMENTS)), min_size=1, max_size=12),
    most=st.integers(1, 14),
    places=st.integers(1, 4),
    data=st.data(),
)
def test_every_call_runs_once_in_its_turn_in_every_order_of_answers(
    names: list[str], most: int, places: int, data: st.DataObject
) -> None:
    agent = begun(Limits(max_tool_calls=most, max_parallel_tools=places))
    waits, started = agent.calls(*names), []
    requests = open_requests(waits)
    while requests:
        at = data.draw(st.integers(0, len(requests) - 1))
        request = requests.pop(at)
        started += [request.call] * isinstance(request, CallTool)
        posted = agent.hears(answer(request, data))
        requests += open_requests(posted)
        running = sum(isinstance(one, CallTool) for one in requests)
        assert running <= places
        assert running == places or not agent.state.calls.line.size
        if any(isinstance(body, TurnRequested) for body in posted):
            assert not requests
    assert isinstance(agent.last[-1].body, TurnRequested)
    assert len(started) == len(set(started))
    assert len(results_read(agent)) == len(names)
    assert_at_rest(agent.state)


def open_requests(posted: list[AnyMessage]) -> list[CallTool | RequestApproval | Delegate]:
    return [body for body in posted if isinstance(body, CallTool | RequestApproval | Delegate)]


def answer(
    request: CallTool | RequestApproval | Delegate, data: st.DataObject
) -> ToolReturned | ApprovalGiven | DelegationEnded:
    if isinstance(request, CallTool):
        return ToolReturned(request.turn, request.call, "ok", Json(b'"done"'))
    if isinstance(request, Delegate):
        return DelegationEnded(request.turn, request.call, "answered", text="helped")
    verdict = data.draw(st.sampled_from(["approved", "denied"]))
    return ApprovalGiven(request.turn, request.call, verdict)  # type: ignore[arg-type]  # a verdict


def assert_at_rest(state: AgentState) -> None:
    assert state.calls == NO_CALLS


def test_a_stopped_agent_says_so_after_the_last_answer_that_it_waits_for() -> None:
    agent = begun(TWO_AT_A_TIME)
    agent.calls("look", "pay", "look", "look")
    assert agent.hears(Stop("deadline")) == []
    assert agent.hears(agent.returned(2)) == []
    assert agent.hears(ApprovalGiven(1, 1, "cancelled")) == []
    (stopped,) = agent.hears(agent.returned(0))
    assert isinstance(stopped, Stopped)
