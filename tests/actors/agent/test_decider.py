"""An agent: its posts after a reply, results, judgements, and a failure of its own decider."""

import msgspec
import pytest
from msgspec.structs import replace

from callboard.actors.agent.decider import first_turn_of
from callboard.actors.agent.retry import backoff_ms
from callboard.actors.protocol import prompts
from callboard.actors.protocol.client_messages import RULES
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    AnyMessage,
    Begin,
    DelegationEnded,
    Finished,
    ReportBack,
    ReportJudged,
    Stop,
    Stopped,
    TurnRequested,
    TurnSettled,
)
from callboard.actors.protocol.port_messages import CallModel, ModelReplied, ToolReturned
from callboard.actors.protocol.profiles import CompactRules, ModelSpec, Prices
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.protocol.value_types import FirstTurn, ModelFailure, SchemaProblem, Settled
from callboard.replay.testing.sessions.scenario import profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, report, request
from tests.actors.agent.test_compacting import asked_for_summary
from tests.actors.agent.test_whole_requests import asks, waiting
from tests.actors.harness import FINAL, RETRYABLE, SCHEMA, USED, AgentHarness, kinds


def begun(schema: object = None, **limits: int) -> AgentHarness:
    agent = AgentHarness()
    agent.begins(schema, limits=Limits(**limits))
    return agent


# --- asking for turns -------------------------------------------------------------


def test_begin_requests_the_first_turn_and_names_the_events_that_are_new_in_it() -> None:
    agent = AgentHarness()
    (wish,) = agent.begins()
    assert isinstance(wish, TurnRequested)
    assert (wish.turn, wish.attempt, wish.new, wish.settled) == (1, 1, (1,), None)
    assert wish.digest == agent.state.digest


def test_a_turn_needs_every_byte_sent_and_the_longest_answer() -> None:
    agent = AgentHarness()
    (wish,) = agent.begins(who=profile("plain", max_tokens=300))
    assert isinstance(wish, TurnRequested)
    sent = len(b'"You are plain."') + len(b'{"role":"user","content":"go"}')
    assert wish.need == Need(sent + 300)


def test_the_usage_of_the_last_answer_replaces_the_bound_on_the_bytes_sent() -> None:
    agent = AgentHarness()
    agent.begins(who=profile("plain", tools=["look"]))
    agent.calls("look")
    (wish,) = agent.hears(agent.returned(0))
    assert isinstance(wish, TurnRequested)
    result = b'{"type":"tool_result","tool_use_id":"c1.0","content":"done"}'
    assert wish.need == Need(USED.tokens + len(result) + 100)


def test_without_known_usage_the_answers_own_bytes_are_added_to_the_bound() -> None:
    agent = AgentHarness()
    (first,) = agent.begins(who=profile("plain", tools=["look"]))
    says = calls(("look", {}))
    agent.reads(says, usage=None)
    (second,) = agent.hears(agent.returned(0))
    assert isinstance(first, TurnRequested)
    assert isinstance(second, TurnRequested)
    added = len(says.blocks(1)) + len(b'{"type":"tool_result","tool_use_id":"c1.0","content":"done"}')
    assert second.need == Need(first.need.tokens + added)


def test_the_cost_of_an_answer_is_worked_out_at_the_prices_in_begin() -> None:
    agent = AgentHarness()
    agent.begins(who=profile("dear", prices=Prices(1, 2)))
    (finished,) = agent.reads(Reply("done"))
    assert isinstance(finished, Finished)
    assert finished.settled == Settled(Usage(7, 3, micro_usd=13))


# --- what a model can say ---------------------------------------------------------


def test_text_alone_is_the_answer_of_an_agent_that_owes_no_report() -> None:
    (finished,) = begun().reads(Reply("Paris"))
    assert finished == Finished("answered", "Paris", settled=Settled(USED))


@pytest.mark.parametrize("content", [b"[]", b"[ ]", b'[{"type":"text","text":""}]'])
def test_by_the_first_rules_an_empty_answer_is_no_summary_and_leaves_no_trace(content: bytes) -> None:
    agent = AgentHarness(rules=1)
    agent.begins()
    (finished,) = agent.reads(Reply(content=content))
    assert finished == Finished("answered", "(no summary)", settled=Settled(USED))
    assert len(agent.conversation()) == 1


def test_an_answer_cut_at_max_tokens_is_an_answer_that_says_so() -> None:
    (finished,) = begun().reads(Reply("Par", stop_reason="max_tokens"))
    assert finished == Finished("answered", "Par", "its answer was cut at max_tokens", Settled(USED))


@pytest.mark.parametrize(
    ("stop_reason", "kind"), [("refusal", "model_refused"), ("model_context_window_exceeded", "context_full")]
)
def test_a_refusal_and_a_full_context_end_with_the_text_of_the_reply(stop_reason: str, kind: str) -> None:
    (finished,) = begun().reads(Reply("I will not", (("look", {}),), stop_reason))
    assert isinstance(finished, Finished)
    assert (finished.kind, finished.text) == (kind, "I will not")


def test_a_paused_turn_goes_on_in_another_turn_with_nothing_added() -> None:
    agent = begun()
    (wish,) = agent.reads(Reply("searching", stop_reason="pause_turn"))
    assert isinstance(wish, TurnRequested)
    assert (wish.turn, wish.new, wish.settled) == (2, (2,), Settled(USED, "searching"))
    assert [one["role"] for one in agent.conversation()] == ["user", "assistant"]


def test_the_calls_of_a_reply_that_was_paused_run() -> None:
    assert kinds(begun().reads(Reply("", (("look", {}),), "pause_turn"))) == ["CallTool", "TurnSettled"]


def test_a_reply_that_cannot_be_read_is_asked_for_again_whatever_it_stopped_for() -> None:
    (wish,) = begun().reads(Reply(content=b"[1]", stop_reason="refusal"))
    assert isinstance(wish, TurnRequested)
    assert (wish.turn, wish.attempt) == (1, 2)


def test_the_last_turn_cannot_be_paused() -> None:
    (finished,) = begun(max_iterations=1).reads(Reply("searching", stop_reason="pause_turn"))
    assert isinstance(finished, Finished)
    assert (finished.kind, finished.text) == ("iteration_cap", "searching")


def test_a_pause_after_an_invalid_report_ends_as_an_invalid_report() -> None:
    agent = begun(SCHEMA, max_iterations=2)
    agent.calls("report_back")
    agent.hears(ReportJudged(1, 0, "invalid"))
    (finished,) = agent.reads(Reply("searching", stop_reason="pause_turn"))
    assert isinstance(finished, Finished)
    assert finished.kind == "invalid_report"


def test_blocks_are_kept_byte_for_byte() -> None:
    agent = begun()
    content = b'[ {"type":"thinking","signature":"s\\u00e9","thinking":""}, {"text":"x","type":"text"} ]'
    agent.reads(Reply(content=content, stop_reason="pause_turn"))
    assert content in bytes(list(agent.state.history.values())[-1])


# --- model failures ---------------------------------------------------------------


def test_a_retry_settles_waits_and_asks_for_the_same_request_again() -> None:
    agent = begun()
    digest = agent.state.digest
    (wish,) = agent.reads(Reply(failure=RETRYABLE), usage=Usage(input_tokens=2))
    assert isinstance(wish, TurnRequested)
    assert (wish.turn, wish.attempt, wish.digest, wish.new) == (1, 2, digest, ())
    assert wish.settled == Settled(Usage(input_tokens=2))
    assert wish.after_ms > 0


@pytest.mark.parametrize("attempts", [1, 2, 6])
def test_a_model_call_has_exactly_as_many_attempts_as_the_limit_says(attempts: int) -> None:
    agent = begun(max_model_attempts=attempts)
    said = [agent.reads(Reply(failure=RETRYABLE))[0] for _ in range(attempts)]
    assert kinds(said) == ["TurnRequested"] * (attempts - 1) + ["Finished"]
    assert said[-1] == Finished("model_error", detail="overloaded: ", settled=Settled(USED))


def test_a_final_failure_ends_at_once_with_the_services_own_words() -> None:
    (finished,) = begun().reads(Reply(failure=FINAL))
    assert isinstance(finished, Finished)
    assert (finished.kind, finished.detail) == ("model_error", "invalid_request: no such model")


def test_a_context_that_the_service_refuses_as_too_long_is_context_full() -> None:
    (finished,) = begun().reads(Reply(failure=ModelFailure("context_full")))
    assert isinstance(finished, Finished)
    assert finished.kind == "context_full"


def test_garbage_is_charged_and_tried_again() -> None:
    agent = begun(max_model_attempts=2)
    (wish,) = agent.reads(Reply(content=b'{"no":"list"}'))
    assert isinstance(wish, TurnRequested)
    assert (wish.attempt, wish.settled) == (2, Settled(USED))
    (finished,) = agent.reads(Reply(content=b"[1]"))
    assert isinstance(finished, Finished)
    assert finished.detail == "garbage: the answer's content cannot be read"


def test_a_lost_answer_is_asked_for_again_at_once_even_in_the_last_attempt() -> None:
    agent = begun(max_model_attempts=1)
    (wish,) = agent.hears(ModelReplied(1, 1, "lost"))
    assert isinstance(wish, TurnRequested)
    assert (wish.attempt, wish.after_ms, wish.settled) == (2, 0, Settled())
    (finished,) = agent.reads(Reply(failure=RETRYABLE))
    assert isinstance(finished, Finished)
    assert finished.kind == "model_error"


@pytest.mark.parametrize("status", ["lost", "detached"])
def test_attempts_that_a_process_cut_off_do_not_count(status: str) -> None:
    agent = begun(max_model_attempts=2)
    for attempt in range(1, 6):
        (wish,) = agent.hears(ModelReplied(1, attempt, status, usage=USED))  # type: ignore[arg-type]  # a status
        assert isinstance(wish, TurnRequested)
        assert (wish.attempt, wish.after_ms, wish.settled) == (attempt + 1, 0, Settled(USED))
    (wish,) = agent.reads(Reply(failure=RETRYABLE))
    assert isinstance(wish, TurnRequested)
    assert (wish.attempt, wish.after_ms) == (7, backoff_ms(RETRYABLE, 1, 2, agent.state.address, RULES))
    (finished,) = agent.reads(Reply(failure=RETRYABLE))
    assert isinstance(finished, Finished)
    assert finished.kind == "model_error"


def test_the_attempts_of_the_next_turn_are_counted_afresh() -> None:
    agent = begun(max_model_attempts=2)
    agent.hears(ModelReplied(1, 1, "detached", usage=USED))
    agent.calls("look")
    agent.hears(agent.returned(0))
    assert (agent.state.turn, agent.state.attempt, agent.state.cut_attempts) == (2, 1, 0)


@pytest.mark.parametrize(("status", "code"), [("cancelled", "cancelled"), ("error", "unknown")])
def test_an_answer_that_explains_nothing_is_a_model_error(status: str, code: str) -> None:
    (finished,) = begun().hears(ModelReplied(1, 1, status))  # type: ignore[arg-type]  # a status
    assert isinstance(finished, Finished)
    assert (finished.kind, finished.detail.split(":")[0]) == ("model_error", code)


def test_no_turn_is_forced_when_an_agent_begins_again() -> None:
    agent = begun(SCHEMA)
    assert not agent.state.is_forced
    agent.reads(Reply("hm"))
    agent.reads(Reply("still nothing"))
    agent.begins(SCHEMA)
    assert not agent.state.is_forced


def test_a_retry_of_a_forced_turn_is_forced_as_well() -> None:
    agent = begun(SCHEMA)
    agent.reads(Reply("hm"))
    assert agent.state.is_forced
    agent.reads(Reply(failure=RETRYABLE))
    assert agent.state.is_forced


# --- turns run out ----------------------------------------------------------------


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_an_agent_has_exactly_as_many_turns_as_the_limit_says(turns: int) -> None:
    agent = begun(max_iterations=turns)
    last: list[AnyMessage] = []
    for turn in range(1, turns + 1):
        assert agent.state.turn == turn
        agent.calls("look", text=f"turn {turn}")
        last = agent.hears(agent.returned(0))
    assert last == [Finished("iteration_cap", f"turn {turns}")]


def test_the_last_words_are_kept_when_the_last_turn_has_none() -> None:
    agent = begun(max_iterations=2)
    agent.calls("look", text="I look")
    agent.hears(agent.returned(0))
    agent.calls("look")
    assert agent.hears(agent.returned(0)) == [Finished("iteration_cap", "I look")]


def test_retries_use_no_turns() -> None:
    agent = begun(max_iterations=1)
    agent.reads(Reply(failure=RETRYABLE))
    (finished,) = agent.reads(Reply("done"))
    assert isinstance(finished, Finished)
    assert finished.kind == "answered"


def test_turns_and_report_attempts_are_counted_from_zero_in_every_ask() -> None:
    agent = begun(SCHEMA, max_iterations=2, max_report_attempts=2)
    agent.calls("report_back")
    agent.hears(ReportJudged(1, 0, "invalid"))
    agent.calls("report_back")
    assert agent.hears(ReportJudged(2, 0, "invalid")) == [Finished("invalid_report")]
    agent.begins(SCHEMA, limits=Limits(max_iterations=2, max_report_attempts=2))
    assert (agent.state.turn, agent.state.turns_used, agent.state.report_attempts) == (3, 1, 0)


# --- reports ----------------------------------------------------------------------


def test_silence_without_a_report_is_told_once_and_then_forced() -> None:
    agent = begun(SCHEMA)
    (wish,) = agent.reads(Reply("I think it is 3"))
    assert isinstance(wish, TurnRequested)
    assert wish.settled == Settled(USED, "I think it is 3")
    assert agent.conversation()[-1] == {"role": "user", "content": prompts.REPORT_NOW}
    (finished,) = agent.reads(Reply("as I said: 3"))
    assert finished == Finished("no_report", "as I said: 3", settled=Settled(USED))


def test_silence_in_the_last_turn_is_no_report_at_once() -> None:
    (finished,) = begun(SCHEMA, max_iterations=1).reads(Reply("3"))
    assert finished == Finished("no_report", "3", settled=Settled(USED))


def test_an_agent_that_was_told_and_acts_first_is_not_told_again() -> None:
    agent = begun(SCHEMA)
    agent.reads(Reply("hm"))
    agent.calls("look")
    agent.hears(agent.returned(0))
    assert not agent.state.is_forced
    (finished,) = agent.reads(Reply("still nothing"))
    assert isinstance(finished, Finished)
    assert finished.kind == "no_report"


def test_calls_without_a_report_until_the_turns_run_out_are_an_iteration_cap() -> None:
    agent = begun(SCHEMA, max_iterations=1)
    agent.calls("look", text="looking")
    assert agent.hears(agent.returned(0)) == [Finished("iteration_cap", "looking")]


def test_an_invalid_report_in_the_last_turn_is_an_invalid_report() -> None:
    agent = begun(SCHEMA, max_iterations=1)
    agent.calls("report_back", text="here")
    assert agent.hears(ReportJudged(1, 0, "invalid")) == [Finished("invalid_report", "here")]


@pytest.mark.parametrize("is_last_turn", [True, False])
def test_an_end_without_a_valid_report_has_the_problems_of_the_last_one(is_last_turn: bool) -> None:
    agent = begun(
        SCHEMA, max_iterations=2 if is_last_turn else 9, max_report_attempts=9 if is_last_turn else 2
    )
    agent.calls("report_back")
    agent.hears(ReportJudged(1, 0, "invalid", (SchemaProblem("/old", "is gone"),)))
    agent.calls("report_back")
    problems = tuple(SchemaProblem(f"/{place}", "is wrong") for place in range(5))
    (finished,) = agent.hears(ReportJudged(2, 0, "invalid", problems))
    told = "its last report did not match: /0: is wrong; /1: is wrong; /2: is wrong; and 2 more"
    assert finished == Finished("invalid_report", detail=told)


def test_a_new_ask_forgets_the_problems_of_the_last_report() -> None:
    agent = begun(SCHEMA, max_report_attempts=1)
    agent.calls("report_back")
    agent.hears(ReportJudged(1, 0, "invalid", (SchemaProblem("/old", "is gone"),)))
    assert agent.state.report_problems
    agent.begins(SCHEMA)
    assert agent.state.report_problems == ()


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_invalid_reports_end_at_the_limit_and_not_before(attempts: int) -> None:
    agent = begun(SCHEMA, max_report_attempts=attempts)
    last: list[AnyMessage] = []
    for attempt in range(1, attempts + 1):
        agent.calls("report_back")
        last = agent.hears(ReportJudged(attempt, 0, "invalid"))
    assert (agent.state.turn, last) == (attempts, [Finished("invalid_report")])


def test_the_model_reads_the_problems_of_its_report_and_may_try_again() -> None:
    agent = begun(SCHEMA)
    agent.calls("report_back")
    agent.hears(ReportJudged(1, 0, "invalid", (SchemaProblem("/n", "is missing"),)))
    (result,) = msgspec.convert(agent.conversation()[-1]["content"], list[dict[str, object]])
    assert result["is_error"]
    assert "/n: is missing" in str(result["content"])
    assert agent.state.phase == "thinking"


def test_an_accepted_report_ends_the_agent_once_all_are_judged() -> None:
    agent = begun(SCHEMA)
    agent.reads(calls(("report_back", {"n": 1}), ("report_back", {"n": 2}), text="two"))
    assert agent.hears(ReportJudged(1, 0, "accepted")) == []
    assert agent.hears(ReportJudged(1, 1, "late")) == [Finished("reported", "two")]


def test_an_accepted_report_counts_even_if_the_others_reach_the_limit_of_attempts() -> None:
    agent = begun(SCHEMA, max_report_attempts=1)
    agent.reads(calls(("report_back", {"m": 1}), ("report_back", {"n": 2})))
    agent.hears(ReportJudged(1, 0, "invalid"))
    assert agent.hears(ReportJudged(1, 1, "accepted")) == [Finished("reported")]


def test_reports_wait_until_every_other_call_of_the_turn_is_answered() -> None:
    agent = begun(SCHEMA)
    assert kinds(agent.calls("report_back", "look", "task", "report_back")) == ["CallTool", "Delegate"]
    assert agent.hears(agent.returned(1)) == []
    said = agent.hears(DelegationEnded(1, 2, "answered", "host.1.1", text="ok"))
    assert said == [ReportBack(1, 0, Json(b'{"n":1}')), ReportBack(1, 3, Json(b'{"n":1}'))]


def test_results_go_back_in_call_order_in_every_order_of_arrival() -> None:
    agent = begun()
    agent.calls("look", "task", "save")
    agent.hears(agent.returned(2, "third"))
    agent.hears(DelegationEnded(1, 1, "answered", "host.1.1", text="second"))
    (wish,) = agent.hears(agent.returned(0, "first"))
    content = msgspec.convert(agent.conversation()[-1]["content"], list[dict[str, object]])
    assert [one["content"] for one in content] == ["first", "second", "third"]
    assert isinstance(wish, TurnRequested)
    assert wish.new == (2, 5, 4, 3)


@pytest.mark.parametrize(
    ("status", "is_error"), [("ok", False), ("error", True), ("cancelled", True), ("interrupted", True)]
)
def test_whether_a_tool_failed_reaches_the_model(status: str, is_error: bool) -> None:
    agent = begun()
    agent.calls("look")
    agent.hears(ToolReturned(1, 0, status, Json(b'"out"')))  # type: ignore[arg-type]  # a status
    (result,) = msgspec.convert(agent.conversation()[-1]["content"], list[dict[str, object]])
    assert result.get("is_error", False) == is_error


def test_a_settlement_is_posted_alone_only_if_nothing_else_goes_to_the_supervisor() -> None:
    assert kinds(begun().calls("look", "nonsense")) == ["CallTool", "TurnSettled"]
    (_, settled) = begun().calls("look", text="hm")
    assert settled == TurnSettled(USED, "hm")
    delegate = begun().calls("look", "task", "task")
    assert [getattr(body, "settled", None) for body in delegate] == [None, Settled(USED), None]
    reports = begun(SCHEMA).reads(calls(("report_back", {}), ("report_back", {})))
    assert [getattr(body, "settled", None) for body in reports] == [Settled(USED), None]


def test_an_agent_knows_only_its_begin() -> None:
    one, other = AgentHarness("host.1"), AgentHarness("host.1")
    begin = one.begin(SCHEMA)
    assert isinstance(begin, Begin)
    assert one.hears(begin) == other.hears(begin)
    assert one.state == other.state


def test_a_report_is_judged_by_its_own_turn() -> None:
    agent = begun(SCHEMA)
    agent.reads(report({"m": 1}))
    assert agent.hears(ReportJudged(9, 0, "accepted")) == []
    assert agent.state.phase == "judging"


def test_an_agent_begins_again_without_what_was_of_its_last_ask() -> None:
    agent = AgentHarness()
    compact = replace(profile("worker", [], ["look"]), compact=CompactRules())
    agent.begins(who=compact)
    agent.reads(Reply("done"))
    fresh = agent.state
    agent.state = replace(
        fresh,
        turns_used=7,
        is_told_to_report=True,
        is_forced=True,
        report_attempts=3,
        report_problems=(SchemaProblem("n", "wrong"),),
        text="old",
        has_spoken=True,
        is_accepted=True,
        permissions=(("old",),),
    )
    agent.begins(who=compact, limits=Limits(max_iterations=9))
    state = agent.state
    assert (state.turns_used, state.is_told_to_report, state.is_forced, state.is_accepted) == (
        1,
        False,
        False,
        False,
    )
    assert (state.report_attempts, state.report_problems, state.text, state.has_spoken) == (0, (), "", False)
    assert (state.permissions, state.limits.max_iterations) == ((), 9)
    assert state.compaction is not None
    agent.reads(Reply("done"))
    agent.begins(who=profile("worker", [], ["look"]))
    assert agent.state.compaction is None


# --- a turn that is granted with the Begin ------------------------------------------


def test_an_agent_that_begins_with_a_grant_calls_its_model_with_the_turn_that_it_would_request() -> None:
    usual, granted = AgentHarness(), AgentHarness()
    begin = usual.begin()
    (wish,) = usual.hears(begin)
    assert isinstance(wish, TurnRequested)
    first = first_turn_of("host.1", begin)
    assert first == FirstTurn(wish.need, wish.digest)
    assert granted.hears(replace(begin, granted=wish.need)) == [CallModel("host.1", 1, first)]
    assert granted.last[0].recipient == "model"
    assert granted.state == usual.state


IMAGE = Json(b'[{"type":"image","source":{"type":"url","url":"https://a.example/b.png"}}]')


def test_an_agent_that_cannot_begin_fails_alone_since_nothing_is_granted_with_its_begin() -> None:
    broken = replace(AgentHarness().begin(), profile=Json(b"{"))
    with pytest.raises(msgspec.DecodeError):
        AgentHarness().hears(broken)
    assert first_turn_of("host.1", broken) is None


def test_a_turn_without_an_upper_bound_is_requested() -> None:
    begin = replace(AgentHarness().begin(), prompt=IMAGE)
    assert first_turn_of("host.1", begin) is None


def test_an_empty_reply_to_a_whole_request_is_its_answer_and_not_asked_for_again() -> None:
    (one,) = asks(waiting(), request("a", "one"))
    agent = AgentHarness("host.1.1")
    limits = agent.state.limits
    agent.hears(Begin(one.implicit, one.prompt, ModelSpec("big", 100), limits, rules=RULES, asked=one.asked))
    (finished,) = agent.reads(Reply(content=b"[]"))
    assert isinstance(finished, Finished)
    assert (finished.kind, finished.value) == ("answered", Json(b"[]"))


def test_a_summary_that_comes_after_its_agent_has_failed_is_charged_and_not_taken() -> None:
    agent = asked_for_summary()
    agent.fails(ReportJudged(99, 0, "late"))
    said = Json(b'[{"type":"text","text":"short"}]')
    assert agent.hears(ModelReplied(agent.state.turn, 1, "ok", said, "end_turn", USED)) == []
    assert agent.hears(Stop("crashed")) == [Stopped(Settled(USED))]
