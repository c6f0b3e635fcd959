"""Model calls without an answer, of an agent with several models: which is asked next, and on what terms."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from callboard.actors.agent.compaction import Compaction
from callboard.actors.agent.failed_calls import ask_again
from callboard.actors.agent.retry import FIRST_MS, spread_ms
from callboard.actors.agent.shortening import conversation_of
from callboard.actors.agent.state import request_of
from callboard.actors.protocol.failures import PASSING, FailureKind
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import AnyMessage, Delegate, Finished, TurnRequested, TurnSettled
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.profiles import CompactRules, ModelSpec, Prices
from callboard.actors.protocol.usage import Need, Usage, bound
from callboard.actors.protocol.value_types import ModelFailure, Settled
from callboard.replay.testing.sessions.scenario import profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from tests.actors.harness import AgentHarness
from tests.tables import table

CHEAP = Prices(input_usd=1, output_usd=2)
DEAR = Prices(input_usd=10, output_usd=20)
SECOND = ModelSpec("second", 40, prices=DEAR)
THIRD = ModelSpec("third", 300, prices=CHEAP)
BUSY = ModelFailure("overloaded_error", "busy", is_retryable=True)
FULL = ModelFailure("context_full", "too long")
EVERY: tuple[FailureKind, ...] = (*PASSING, "context_full", "refusal")


def begun(*others: ModelSpec, on: tuple[FailureKind, ...] = PASSING, attempts: int = 6) -> AgentHarness:
    agent = AgentHarness()
    who = profile("host", ["kid"], ["look"], prices=CHEAP, fallback=others or (SECOND,), fallback_on=on)
    agent.begins(who=who, limits=Limits(max_model_attempts=attempts))
    return agent


def asked(posts: Sequence[AnyMessage]) -> TurnRequested:
    (wish,) = posts
    assert isinstance(wish, TurnRequested)
    return wish


def fails(agent: AgentHarness, failure: ModelFailure = BUSY) -> TurnRequested:
    return asked(agent.reads(Reply(failure=failure)))


@table(
    "code",
    ["rate_limit_error", "overloaded_error", "connection", "timeout", "broken_stream", "api_error"],
)
def test_after_a_passing_failure_the_next_model_is_asked_at_once(code: str) -> None:
    agent = begun()
    wish = fails(agent, ModelFailure(code, is_retryable=True))
    assert (wish.turn, wish.attempt, wish.model, wish.after_ms) == (1, 2, "second", 0)
    assert wish.breaks_cache
    assert request_of(agent.state).model == SECOND


def test_its_need_is_that_of_the_next_model() -> None:
    agent = begun()
    known = agent.state.context_tokens
    assert fails(agent).need == bound(known, 40, DEAR)


def test_its_answer_is_charged_at_its_own_prices() -> None:
    agent = begun()
    fails(agent)
    (finished,) = agent.reads(Reply("done"), usage=Usage(input_tokens=1_000, output_tokens=100))
    assert isinstance(finished, Finished)
    assert finished.settled is not None
    assert finished.settled.usage is not None
    assert finished.settled.usage.micro_usd == 10 * 1_000 + 20 * 100


def test_a_turn_begins_with_the_model_that_answered_last_and_an_ask_with_the_first() -> None:
    agent = begun()
    fails(agent)
    agent.calls("look")
    wish = asked(agent.hears(agent.returned(0)))
    assert (wish.turn, wish.attempt, wish.model, wish.breaks_cache) == (2, 1, "second", False)
    agent.reads(Reply("done"))
    who = profile("host", ["kid"], ["look"], prices=CHEAP, fallback=(SECOND,))
    wish = asked(agent.begins(who=who))
    assert (wish.turn, wish.model, wish.breaks_cache) == (3, "", True)


def test_after_a_whole_round_the_agent_waits() -> None:
    agent = begun(SECOND, THIRD)
    told = [fails(agent) for _ in range(6 - 1)]
    assert [wish.model for wish in told] == ["second", "third", "", "second", "third"]
    waits = [0, 0, spread_ms(FIRST_MS, 3, agent.state.address), 0, 0]
    assert [wish.after_ms for wish in told] == waits
    (finished,) = agent.reads(Reply(failure=BUSY))
    assert isinstance(finished, Finished)
    assert (finished.kind, finished.detail) == ("model_error", "overloaded_error: busy")


def test_the_model_that_may_be_asked_soonest_begins_the_next_round() -> None:
    agent = begun()
    fails(agent, ModelFailure("rate_limit_error", is_retryable=True, retry_after_ms=60_000))
    wish = fails(agent)
    assert (wish.model, wish.after_ms) == ("second", spread_ms(FIRST_MS, 2, agent.state.address))


@pytest.mark.parametrize("code", ["invalid_request_error", "authentication_error", "context_full"])
def test_a_bad_request_and_an_unlisted_kind_end_the_agent(code: str) -> None:
    (finished,) = begun().reads(Reply(failure=ModelFailure(code, "no")))
    assert isinstance(finished, Finished)
    assert finished.detail == f"{code}: no"


def test_an_unlisted_failure_that_may_pass_is_tried_again_with_the_same_model() -> None:
    agent = begun()
    wish = fails(agent, ModelFailure("garbage", is_retryable=True))
    assert (wish.model, wish.breaks_cache) == ("", False)
    assert wish.after_ms


UNREAD = ModelFailure("garbage", "no list", is_retryable=True, digest="d1")


def test_the_same_unreadable_answer_twice_ends_the_agent() -> None:
    agent = begun()
    assert fails(agent, UNREAD).attempt == 2
    (finished,) = agent.reads(Reply(failure=UNREAD))
    assert isinstance(finished, Finished)
    assert finished.kind == "model_error"
    assert finished.detail == "garbage: no list (the same answer came twice)"


def test_other_unreadable_answers_follow_the_schedule() -> None:
    agent = begun(attempts=6)
    others = [UNREAD, replace(UNREAD, digest="d2"), UNREAD, BUSY, UNREAD]
    assert [fails(agent, failure).attempt for failure in others] == [2, 3, 4, 5, 6]


def test_failures_of_old_logs_have_no_digest_and_follow_the_schedule() -> None:
    agent = begun(attempts=6)
    old = replace(UNREAD, digest="")
    assert [fails(agent, old).attempt for _ in range(5)] == [2, 3, 4, 5, 6]


def test_an_unreadable_answer_of_the_turn_before_does_not_count() -> None:
    agent = begun()
    fails(agent, UNREAD)
    agent.calls("look")
    agent.hears(agent.returned(0))
    assert fails(agent, UNREAD).attempt == 2


@pytest.mark.parametrize("status", ["lost", "detached"])
def test_an_attempt_that_was_cut_off_between_two_answers_does_not_count(status: str) -> None:
    agent = begun()
    fails(agent, UNREAD)
    agent.hears(ModelReplied(1, 2, status))  # type: ignore[arg-type]  # a status
    (finished,) = agent.reads(Reply(failure=UNREAD))
    assert isinstance(finished, Finished)


def test_the_same_content_that_is_no_list_twice_ends_the_agent() -> None:
    agent = begun()
    assert asked(agent.reads(Reply(content=b'{"no":"list"}'))).attempt == 2
    assert asked(agent.reads(Reply(content=b"[1]"))).attempt == 3
    (finished,) = agent.reads(Reply(content=b"[1]"))
    assert isinstance(finished, Finished)


def test_a_session_of_the_first_rules_keeps_its_schedule() -> None:
    agent = begun(ModelSpec("second", 40))
    agent.state = replace(agent.state, rules=1, fallback=None)
    assert fails(agent).after_ms == spread_ms(500, 1, agent.state.address)
    agent.reads(Reply(content=b"[1]"))
    assert asked(agent.reads(Reply(content=b"[1]"))).attempt == 4


def test_a_refusal_falls_back_only_if_it_is_listed() -> None:
    refusal = Reply("I will not.", stop_reason="refusal")
    (finished,) = begun().reads(refusal)
    assert isinstance(finished, Finished)
    assert (finished.kind, finished.text) == ("model_refused", "I will not.")
    agent = begun(on=EVERY)
    wish = asked(agent.reads(refusal))
    assert (wish.model, wish.after_ms) == ("second", 0)
    assert wish.settled is not None
    assert (wish.settled.text, agent.state.text) == ("", "")
    (finished,) = agent.reads(refusal)
    assert isinstance(finished, Finished)
    assert finished.kind == "model_refused"


def test_a_model_that_is_full_is_not_asked_again_in_that_turn() -> None:
    agent = begun(on=EVERY)
    assert fails(agent, FULL).model == "second"
    wish = fails(agent)
    assert wish.model == "second"
    assert wish.after_ms


@pytest.mark.parametrize("status", ["lost", "detached"])
def test_a_call_that_was_cut_off_asks_the_same_model(status: str) -> None:
    agent = begun()
    fails(agent)
    wish = asked(agent.hears(ModelReplied(1, 2, status)))  # type: ignore[arg-type]  # a status
    assert (wish.attempt, wish.model, wish.after_ms, wish.breaks_cache) == (3, "second", 0, False)


def test_a_delegation_leaves_the_need_of_the_dearest_model() -> None:
    agent = begun(SECOND, THIRD)
    posts = agent.reads(calls(task("kid")))
    closing = next(post.closing for post in posts if isinstance(post, Delegate | TurnSettled))
    known = closing.tokens - THIRD.max_tokens
    assert closing == Need(
        known + 300, max(bound(known, 40, DEAR).micro_usd, bound(known, 300, CHEAP).micro_usd)
    )


@table("is_open", [False, True])
@table("place", [0, 1])
@table("writer", [None, ModelSpec("writer")])
def test_an_attempt_states_the_model_that_it_is_for_and_whether_it_has_a_bound(
    is_open: bool, place: int, writer: ModelSpec | None
) -> None:
    state = begun().state
    assert state.fallback is not None
    state = replace(state, fallback=replace(state.fallback, place=place, is_open=is_open))
    (again,) = [post.body for post in ask_again(state, Settled(), 5)[1]]
    assert isinstance(again, TurnRequested)
    assert (again.model, again.is_unbounded, again.purpose) == ("second" if place else "", is_open, "")
    compaction = Compaction(CompactRules(model=writer))
    (again,) = [post.body for post in ask_again(replace(state, compaction=compaction), Settled(), 5)[1]]
    assert isinstance(again, TurnRequested)
    assert again.purpose == ""
    summing = replace(compaction, saved=conversation_of(state, compaction))
    (again,) = [post.body for post in ask_again(replace(state, compaction=summing), Settled(), 5)[1]]
    assert isinstance(again, TurnRequested)
    own = "writer" if writer else ""
    assert (again.model, again.is_unbounded) == ("second" if place else own, is_open)
    assert again.purpose == "summary"


def test_a_round_of_all_models_is_waited_for_before_the_next_one() -> None:
    agent = begun(attempts=9)
    waits = [fails(agent).after_ms for _ in range(6)]
    assert waits[::2] == [0, 0, 0]
    assert 0 < waits[1] < waits[3] < waits[5]
