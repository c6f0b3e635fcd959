"""A program's decisions: calls open over turns, given up, in line; deadlines; its end."""

import msgspec
import pytest
from msgspec.structs import replace

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    AnyMessage,
    CancelTask,
    Delegate,
    DelegationEnded,
    Finished,
    ReportBack,
    ReportJudged,
    Stop,
    TurnRequested,
    Wake,
    Woken,
)
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallTool,
    CancelCall,
    ModelReplied,
    ToolReturned,
)
from callboard.actors.protocol.profiles import ModelSpec, read_profile
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.usage import NOTHING
from callboard.actors.protocol.value_types import ModelFailure, SchemaProblem
from callboard.replay.testing.sessions.scenario import NO_LIMITS, program_profile
from callboard.replay.testing.sessions.scripted_replies import (
    Asked,
    Failed,
    Reply,
    Step,
    crash,
    delegate,
    failed_reply,
    last_reply,
    question,
    reply_of,
    tool,
)
from tests.actors.harness import RETRYABLE, SCHEMA, AgentHarness, kinds, raw
from tests.tables import table

WHO = program_profile("p", ["helper"], ["look"], writes=["save"], asks=["pay"], models=[ModelSpec("big")])
A, B = tool("a", "look"), tool("b", "look")
PAY, KID, ASK = tool("p", "pay"), delegate("k", "helper"), question("q")


def started(*asks: Asked, wake: int | None = None, limits: Limits = NO_LIMITS) -> AgentHarness:
    """Return a program after its first step, with these asks open."""
    agent = AgentHarness()
    agent.begins(who=WHO, limits=limits)
    agent.reads(reply_of(Step(asks, wake), 1))
    return agent


def step(
    agent: AgentHarness, *asks: Asked, wake: int | None = None, cancels: tuple[str, ...] = ()
) -> list[str]:
    return kinds(agent.reads(reply_of(Step(asks, wake, cancels), agent.state.turn)))


def heard(agent: AgentHarness) -> list[tuple[object, object]]:
    """Return the id and status of each result in the last message: all but `ok` are errors."""
    content = agent.conversation()[-1]["content"]
    assert isinstance(content, list)
    assert [block.get("is_error", False) for block in content] == [
        block["status"] != "ok" for block in content
    ]
    return [(block["tool_use_id"], block["status"]) for block in content]


def only_result(agent: AgentHarness) -> dict[str, object]:
    """Return the one result in the last message."""
    content = agent.conversation()[-1]["content"]
    assert isinstance(content, list)
    (block,) = content
    assert isinstance(block, dict)
    return block


def returned(call: int, turn: int = 1, status: str = "ok") -> ToolReturned:
    return ToolReturned(turn, call, status, text_json("done"))  # type: ignore[arg-type]  # a ToolStatus


# --- eager turns ------------------------------------------------------------------


def test_a_step_costs_nothing_and_goes_to_the_model_at_once_from_rules_2_on() -> None:
    agent = AgentHarness(rules=1)
    (wish,) = agent.begins(who=WHO)
    assert isinstance(wish, TurnRequested)
    assert wish.need == NOTHING
    agent = AgentHarness(rules=2)
    (step,) = agent.begins(who=WHO)
    assert isinstance(step, RunStep)
    assert (step.turn, step.attempt, step.new) == (wish.turn, wish.attempt, wish.new)


def test_a_step_with_news_for_the_supervisor_is_requested_of_it() -> None:
    agent = started(A)
    (wish,) = agent.hears(replace(returned(0), labels=("untrusted",)))
    assert isinstance(wish, TurnRequested)
    assert wish.labels == ("untrusted",)
    assert step(agent, B) == ["CallTool"]
    assert kinds(agent.hears(returned(0, turn=2))) == ["RunStep"]


@pytest.mark.parametrize("is_direct", [True, False])
def test_a_stopped_program_drains_with_the_answer_to_its_step(is_direct: bool) -> None:
    agent = started(A)
    labels = () if is_direct else ("untrusted",)
    agent.hears(replace(returned(0), labels=labels))
    granted = (0, 0) if is_direct else (2, 1)
    assert agent.hears(Stop("cancelled", granted)) == []
    assert kinds(agent.hears(ModelReplied(2, status="cancelled"))) == ["Stopped"]


def test_a_step_is_settled_by_the_first_rules_and_later_only_if_it_has_a_text() -> None:
    posted = {}
    for rules in (1, 2):
        agent = AgentHarness(rules=rules)
        agent.begins(who=WHO)
        called = kinds(agent.reads(reply_of(Step((A, B)), 1)))
        answered = agent.hears(returned(0))[-1]
        assert isinstance(answered, TurnRequested if rules == 1 else RunStep)
        posted[rules] = called, kinds(agent.reads(last_reply("done", 2)))
    given_up = ["CancelCall", "TurnSettled"]
    assert posted == {
        1: (["CallTool", "CallTool", "TurnSettled"], given_up),
        2: (["CallTool", "CallTool"], given_up),
    }


def test_the_first_answer_asks_for_the_next_step_and_the_others_go_with_the_one_after() -> None:
    agent = started(A, B, KID)
    assert kinds(agent.hears(returned(1))) == ["RunStep"]
    assert heard(agent) == [("b", "ok")]
    assert agent.hears(DelegationEnded(1, 2, "answered", "host.1.1", text="yes")) == []
    assert agent.hears(returned(0)) == []
    assert step(agent) == ["RunStep"]
    assert heard(agent) == [("k", "ok"), ("a", "ok")]


def test_a_reply_without_calls_waits_while_some_are_open() -> None:
    agent = started(A, B)
    agent.hears(returned(0))
    assert step(agent) == []
    assert agent.state.phase == "acting"
    assert kinds(agent.hears(returned(1))) == ["RunStep"]


def test_an_answer_is_taken_once() -> None:
    agent = started(A, B)
    agent.hears(returned(0))
    before = agent.state
    assert agent.hears(returned(0)) == []
    assert agent.hears(returned(7)) == []
    assert agent.state == before


def test_a_useless_ask_is_answered_at_once() -> None:
    agent = started(A, question("q", ""), tool("x", "nonsense"))
    assert heard(agent) == [("q", "error"), ("x", "error")]


def test_a_result_has_its_status_value_and_last_words() -> None:
    agent = started(KID, ASK)
    agent.hears(DelegationEnded(1, 0, "reported", "host.1.1", Json(b'{"n":1}'), text="hm"))
    block = only_result(agent)
    assert (block["status"], block["value"]) == ("ok", {"n": 1})
    assert "text" not in block
    agent.hears(DelegationEnded(1, 1, "budget", "host.1.2", text="so far"))
    step(agent)
    block = only_result(agent)
    assert (block["status"], block["text"], block["is_error"]) == ("budget", "so far", True)


def test_a_step_that_is_cut_off_is_asked_for_again_without_the_answers_that_came() -> None:
    agent = started(A, B)
    agent.hears(returned(0))
    length = len(agent.conversation())
    agent.hears(returned(1))
    assert kinds(agent.reads(Reply(failure=RETRYABLE))) == ["TurnRequested"]
    assert len(agent.conversation()) == length
    assert step(agent) == ["RunStep"]
    assert heard(agent) == [("b", "ok")]


def test_a_program_that_waits_for_nothing_is_crashed() -> None:
    agent = started(A)
    agent.hears(returned(0))
    (finished,) = agent.reads(reply_of(Step(), 2))
    assert isinstance(finished, Finished)
    assert finished.kind == "crashed"


def test_a_program_that_gives_up_its_wake_up_and_waits_for_nothing_ends_after_that() -> None:
    agent = started(A, wake=70)
    agent.hears(returned(0))
    assert step(agent) == ["Wake", "Finished"]


# --- lines ------------------------------------------------------------------------


def test_tools_over_the_cap_stand_in_line_over_turns() -> None:
    agent = started(A, B, limits=Limits(max_parallel_tools=1))
    assert agent.state.calls.tools == 1
    assert kinds(agent.hears(returned(0))) == ["CallTool", "RunStep"]
    assert step(agent, tool("c", "look"), tool("d", "look")) == []
    (called, _) = agent.hears(returned(1))
    assert isinstance(called, CallTool)
    assert called.id == "c"


@table(
    "answer",
    [
        None,
        reply_of(Step((tool("c", "look"),)), 2),
        failed_reply(Failed("no way"), 2),
        last_reply("done", 2),
    ],
)
def test_a_call_that_a_fork_does_not_run_ends_the_program_before_or_after_its_step(
    answer: Reply | None,
) -> None:
    why = "call 0 of turn 1, save, has an effect and no recorded result"
    agent = started(tool("s", "save", text="x"), B)
    if answer is not None:  # a step is out
        agent.hears(returned(1))
        assert agent.hears(returned(0, status="needs_effect")) == []
        posts = agent.reads(answer)
    else:
        assert agent.hears(returned(0, status="needs_effect")) == [CancelCall(1, 1)]
        posts = agent.hears(returned(1))
    (end,) = posts
    assert isinstance(end, Finished)
    assert (end.kind, end.detail) == ("needs_effect", why)


def test_the_end_of_a_call_that_is_not_open_changes_nothing() -> None:
    agent = started(A, KID)
    before = agent.state
    assert agent.hears(DelegationEnded(7, 1, "answered", "host.1.1", labels=("secret",))) == []
    assert agent.state == before


def test_a_reply_may_have_more_calls_than_a_models() -> None:
    asks = [tool(f"a{at}", "look") for at in range(5)]
    agent = started(*asks, limits=Limits(max_tool_calls=2))
    assert agent.state.calls.tools == 5


# --- giving up --------------------------------------------------------------------


def gave_up(agent: AgentHarness, *cancels: str) -> list[AnyMessage]:
    return agent.reads(reply_of(Step((tool("z", "look"),), cancels=cancels), agent.state.turn))


def test_calls_are_given_up_where_they_are() -> None:
    agent = started(A, B, PAY, KID, ASK, limits=Limits(max_parallel_tools=1))
    agent.hears(DelegationEnded(1, 4, "answered", "host.1.2", text="yes"))
    posts = [post for post in gave_up(agent, "a", "b", "p", "k") if isinstance(post, CancelCall | CancelTask)]
    assert posts == [CancelCall(1, 0), CancelCall(1, 2), CancelTask(1, 3)]
    assert [post.recipient for post in agent.last][:3] == ["tools", "approvals", "supervisor"]


def test_the_answer_of_a_call_that_was_given_up_frees_its_place_and_is_not_heard() -> None:
    agent = started(A, ASK, limits=Limits(max_parallel_tools=1))
    agent.hears(DelegationEnded(1, 1, "answered", "host.1.1", text="yes"))
    gave_up(agent, "a")
    assert kinds(agent.hears(returned(0, status="cancelled"))) == ["CallTool"]
    agent.hears(returned(0, turn=2))
    assert heard(agent) == [("z", "ok")]


def test_a_cancel_that_crosses_the_answer_changes_nothing() -> None:
    agent = started(A, B)
    agent.hears(returned(0))
    agent.hears(returned(1))
    assert "CancelCall" not in kinds(gave_up(agent, "b"))
    assert heard(agent) == [("b", "ok")]


def test_an_approval_or_an_interruption_of_a_call_given_up_starts_nothing() -> None:
    agent = started(PAY, B)
    agent.hears(returned(1))
    gave_up(agent, "p")
    assert agent.hears(ApprovalGiven(1, 0, "approved")) == []
    agent = started(PAY, B)
    agent.hears(ApprovalGiven(1, 0, "approved"))
    agent.hears(returned(1))
    gave_up(agent, "p")
    assert agent.hears(returned(0, status="interrupted")) == []


def test_an_interrupted_call_asks_a_person_in_its_own_turn() -> None:
    agent = started(PAY, B)
    agent.hears(ApprovalGiven(1, 0, "approved"))
    agent.hears(returned(1))
    (asked,) = agent.hears(returned(0, status="interrupted"))
    assert (asked.turn, asked.call, asked.is_repeat) == (1, 0, True)  # type: ignore[union-attr]  # a RequestApproval
    (called,) = agent.hears(ApprovalGiven(1, 0, "approved", is_repeat=True, arguments=raw({"euros": 1})))
    assert isinstance(called, CallTool)
    assert (called.turn, bytes(called.arguments)) == (1, b'{"euros":1}')


@pytest.mark.parametrize("verdict", ["denied", "cancelled"])
def test_a_refusal_is_an_answer(verdict: str) -> None:
    agent = started(PAY, B)
    agent.hears(ApprovalGiven(1, 0, verdict))  # type: ignore[arg-type]  # a verdict of the table above
    assert heard(agent) == [("p", verdict)]


@pytest.mark.parametrize("verdict", ["denied", "cancelled"])
def test_a_refused_repeat_is_still_interrupted(verdict: str) -> None:
    agent = started(PAY, B)
    agent.hears(ApprovalGiven(1, 0, "approved"))
    agent.hears(returned(0, status="interrupted"))
    agent.hears(ApprovalGiven(1, 0, verdict, is_repeat=True))  # type: ignore[arg-type]  # from above
    assert heard(agent) == [("p", "interrupted")]


# --- deadlines --------------------------------------------------------------------


def test_a_deadline_wakes_the_program_without_an_answer() -> None:
    agent = started(A, wake=70)
    length = len(agent.conversation())
    (wish,) = agent.hears(Woken(70))
    assert isinstance(wish, RunStep)
    assert len(agent.conversation()) == length


def test_a_deadline_is_told_once_moved_and_dropped() -> None:
    agent = started(A, B, tool("c", "look"), tool("d", "look"), wake=70)
    assert agent.state.program is not None
    agent.hears(returned(0))
    assert step(agent, wake=70) == []
    agent.hears(returned(1))
    (wake,) = agent.reads(reply_of(Step(wake=90), 3))
    assert isinstance(wake, Wake)
    assert (wake.until, wake.settled) == (90, None)
    assert agent.hears(Woken(70)) == []
    agent.hears(returned(2))
    assert step(agent) == ["Wake"]
    assert agent.hears(Woken(90)) == []


def test_a_deadline_that_comes_while_a_step_is_out_is_set_again_if_the_step_missed_it() -> None:
    agent = started(A, B, wake=70)
    agent.hears(returned(0))
    assert agent.hears(Woken(70)) == []
    assert step(agent, wake=70) == ["Wake"]


# --- questions to models ----------------------------------------------------------


def test_a_question_begins_an_agent_of_its_own() -> None:
    agent = AgentHarness()
    agent.begins(who=WHO)
    asked = question("q", "why?", system="Be short.", model="big")
    (first, second) = agent.reads(reply_of(Step((asked, question("r", schema=SCHEMA))), 1))
    assert isinstance(first, Delegate)
    assert isinstance(second, Delegate)
    one, other = read_profile(bytes(first.implicit)), read_profile(bytes(second.implicit))
    assert (one.model, one.limits.max_iterations) == (ModelSpec("big"), 1)
    assert (other.model, other.limits.max_iterations) == (None, 5)
    assert bytes(one.instructions) == b'"Be short."'
    assert (first.closing, first.profiles) == (NOTHING, ("ask_model",))
    assert msgspec.json.decode(second.schema) == SCHEMA


@pytest.mark.parametrize(
    "arguments", [{"prompt": ""}, {"model": "small", "prompt": "x"}, {"system": 1, "prompt": "x"}]
)
def test_a_useless_question_says_what_is_there(arguments: dict[str, object]) -> None:
    agent = started(A, Asked("q", "ask_model", arguments))
    assert heard(agent) == [("q", "error")]
    assert "Models: big" in str(agent.conversation()[-1])


# --- the end ----------------------------------------------------------------------


@table(
    ("value", "text", "structured"),
    [("hi", "hi", None), ("", "", None), ({"n": 1}, '{"n":1}', {"n": 1}), ([], "[]", []), (7, "7", 7)],
)
def test_what_a_program_returns_is_its_text_and_its_value(
    value: object, text: str, structured: object
) -> None:
    agent = started(A)
    agent.hears(returned(0))
    (finished,) = agent.reads(last_reply(value, 2))
    assert isinstance(finished, Finished)
    assert (finished.kind, finished.text) == ("answered", text)
    assert msgspec.json.decode(finished.value) == structured


@pytest.mark.parametrize(("value", "sent"), [("hi", b'"hi"'), ({"n": 1}, b'{"n":1}'), (None, b"null")])
def test_what_a_program_returns_is_the_report_that_it_owes(value: object, sent: bytes) -> None:
    agent = AgentHarness()
    agent.begins(SCHEMA, who=WHO)
    (report,) = agent.reads(last_reply(value, 1))
    assert isinstance(report, ReportBack)
    assert bytes(report.value) == sent
    assert agent.state.phase == "judging"
    assert agent.hears(ReportJudged(1, 0, "late")) == []
    (finished,) = agent.hears(ReportJudged(1, 0, "accepted"))
    assert isinstance(finished, Finished)
    assert finished.kind == "reported"


def test_an_invalid_report_is_the_last() -> None:
    agent = AgentHarness()
    agent.begins(SCHEMA, who=WHO)
    agent.reads(last_reply("hi", 1))
    (finished,) = agent.hears(ReportJudged(1, 0, "invalid", (SchemaProblem("/n", "is missing"),)))
    assert isinstance(finished, Finished)
    assert finished.kind == "invalid_report"
    assert "/n" in finished.detail


@pytest.mark.parametrize(
    ("says", "kind", "detail"),
    [
        (last_reply("done", 2), "answered", ""),
        (crash("line 7: no"), "crashed", "line 7: no"),
        (Reply(failure=ModelFailure("other", "no")), "model_error", "other: no"),
        (Reply("no", stop_reason="refusal"), "model_refused", ""),
    ],
)
def test_an_end_gives_up_what_is_open_and_comes_when_that_has_drained(
    says: Reply, kind: str, detail: str
) -> None:
    agent = started(A, B, KID)
    agent.hears(returned(0))
    assert kinds(agent.reads(says)) == ["CancelCall", "CancelTask", "TurnSettled"]
    assert agent.hears(returned(1, status="cancelled")) == []
    assert agent.hears(Woken(7)) == []
    (finished,) = agent.hears(DelegationEnded(1, 2, "cancelled", "host.1.1"))
    assert isinstance(finished, Finished)
    assert (finished.kind, finished.detail) == (kind, detail)


def test_a_step_at_the_cap_asks_for_nothing() -> None:
    agent = AgentHarness()
    agent.begins(who=WHO, limits=Limits(max_steps=2, max_iterations=1))
    agent.reads(reply_of(Step((A,)), 1))
    agent.hears(returned(0))
    (finished,) = agent.reads(reply_of(Step((B,)), 2))
    assert isinstance(finished, Finished)
    assert (finished.kind, finished.detail) == ("iteration_cap", "max_steps")


def test_a_reply_without_a_step_is_garbage() -> None:
    agent = AgentHarness()
    agent.begins(who=WHO)
    assert kinds(agent.reads(Reply("hi"))) == ["TurnRequested"]


def test_an_answer_to_no_open_call_changes_nothing() -> None:
    agent = started(A, KID)
    agent.hears(DelegationEnded(1, 1, "answered", "host.1.1", text="yes"))
    before = agent.state
    for call in (0, 1, 9):
        assert agent.hears(ApprovalGiven(1, call, "approved")) == []
        assert agent.hears(returned(call or 9)) == []
        assert agent.hears(DelegationEnded(1, call or 9, "answered", "host.1.1", text="again")) == []
    assert agent.state == before


# --- stopping ---------------------------------------------------------------------


def test_a_stopped_program_drains_what_ports_owe_it() -> None:
    agent = started(A, B, PAY, KID, tool("c", "look"), limits=Limits(max_parallel_tools=2))
    assert agent.hears(Stop("cancelled")) == []
    assert agent.hears(returned(0, status="cancelled")) == []
    assert agent.hears(DelegationEnded(1, 3, "cancelled", "host.1.1")) == []
    assert agent.hears(ApprovalGiven(1, 2, "cancelled")) == []
    assert kinds(agent.hears(returned(1))) == ["Stopped"]
    assert agent.state.program is None


def test_a_stop_while_it_drains_by_itself_waits_for_the_same() -> None:
    agent = started(A, B)
    agent.hears(returned(0))
    agent.reads(last_reply("done", 2))
    assert agent.hears(Stop("cancelled")) == []
    assert kinds(agent.hears(returned(1))) == ["Stopped"]


def test_a_failed_program_counts_answers_until_it_is_stopped() -> None:
    agent = started(A, B)
    assert agent.fails(returned(0)) == []
    assert agent.hears(returned(1)) == []
    assert kinds(agent.hears(Stop("crashed"))) == ["Stopped"]


def test_the_next_ask_begins_with_the_prompt_alone() -> None:
    agent = started(A, B)
    agent.hears(returned(0))
    agent.hears(Stop("cancelled", (2, 1)))
    agent.hears(returned(1))
    agent.reads(Reply("late"))
    agent.begins(who=WHO, prompt="again")
    assert agent.conversation()[-1] == {"role": "user", "content": "again"}
