"""Empty last words: one more attempt, then the ending `empty`."""

import pytest

from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    AnyMessage,
    Delegated,
    DelegationEnded,
    Finished,
    Told,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.value_types import Settled
from callboard.replay.testing.sessions.scenario import profile, program_profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, last_reply, task
from tests.actors.harness import RETRYABLE, SCHEMA, USED, AgentHarness

THOUGHT = b'{"type":"thinking","thinking":"hm","signature":"s"}'
EMPTY = [
    b"[]",
    b'[{"type":"text","text":" \\n"}]',
    b"[%b]" % THOUGHT,
    b'[%b,{"type":"redacted_thinking","data":"x"},{"type":"text","text":""}]' % THOUGHT,
]
NOTHING = Reply(content=b"[]")
PARENT = profile("host", ["kid"], ["look"], background=True)


def begun(**limits: int) -> AgentHarness:
    agent = AgentHarness()
    agent.begins(limits=Limits(**limits))
    return agent


def only(posts: list[AnyMessage]) -> AnyMessage:
    (post,) = posts
    return post


def asks_again(post: AnyMessage, attempt: int = 2) -> bool:
    return isinstance(post, TurnRequested) and (post.turn, post.attempt, post.after_ms) == (1, attempt, 0)


@pytest.mark.parametrize("content", EMPTY)
def test_an_empty_answer_is_asked_for_once_more_and_then_ends_as_empty(content: bytes) -> None:
    agent = begun()
    before = agent.state.history, agent.state.digest
    again = only(agent.reads(Reply(content=content)))
    assert asks_again(again)
    assert isinstance(again, TurnRequested)
    assert again.settled == Settled(USED)  # it is charged
    assert (agent.state.history, agent.state.digest) == before  # the request is the same
    assert only(agent.reads(Reply(content=content))) == Finished("empty", settled=Settled(USED))


def test_the_further_attempt_may_answer() -> None:
    agent = begun()
    agent.reads(NOTHING)
    assert only(agent.reads(Reply("Paris"))) == Finished("answered", "Paris", settled=Settled(USED))
    assert [one["role"] for one in agent.conversation()] == ["user", "assistant"]


def test_the_further_attempt_needs_no_turn_but_an_attempt() -> None:
    assert asks_again(only(begun(max_iterations=1).reads(NOTHING)))
    finished = only(begun(max_model_attempts=1).reads(NOTHING))
    assert finished == Finished("empty", settled=Settled(USED))


def test_attempts_that_failed_or_were_cut_off_are_no_empty_answers() -> None:
    agent = begun()
    agent.reads(Reply(failure=RETRYABLE))
    assert asks_again(only(agent.reads(NOTHING)), 3)
    assert asks_again(only(agent.hears(ModelReplied(1, 3, "lost"))), 4)
    finished = only(agent.reads(NOTHING))
    assert isinstance(finished, Finished)
    assert finished.kind == "empty"


def test_each_turn_has_its_further_attempt() -> None:
    agent = begun()
    agent.reads(NOTHING)
    agent.calls("look")
    agent.hears(Told(1, "hurry"))
    agent.hears(agent.returned(0))
    again = only(agent.reads(NOTHING))
    assert isinstance(again, TurnRequested)
    assert (again.turn, again.attempt) == (2, 2)


@pytest.mark.parametrize("stop_reason", ["end_turn", "max_tokens", "stop_sequence"])
def test_only_the_stop_reasons_with_a_meaning_of_their_own_are_other_ends(stop_reason: str) -> None:
    assert asks_again(only(begun().reads(Reply(content=b"[]", stop_reason=stop_reason))))


def test_an_empty_answer_cut_at_max_tokens_says_so() -> None:
    agent = begun(max_model_attempts=1)
    finished = only(agent.reads(Reply(content=b"[%b]" % THOUGHT, stop_reason="max_tokens")))
    assert finished == Finished("empty", "", "its answer was cut at max_tokens", Settled(USED))


def test_a_refusal_without_words_stays_a_refusal_and_a_paused_turn_goes_on() -> None:
    finished = only(begun().reads(Reply(content=b"[]", stop_reason="refusal")))
    assert isinstance(finished, Finished)
    assert finished.kind == "model_refused"
    wish = only(begun().reads(Reply(content=b"[]", stop_reason="pause_turn")))
    assert isinstance(wish, TurnRequested)
    assert (wish.turn, wish.attempt) == (2, 1)


@pytest.mark.parametrize("more", [b'{"type":"server_tool_use","id":"s"}', b'{"type":"image","source":{}}'])
def test_content_of_other_types_is_an_answer(more: bytes) -> None:
    finished = only(begun().reads(Reply(content=b"[%b,%b]" % (THOUGHT, more))))
    assert finished == Finished("answered", "(no summary)", settled=Settled(USED))


def test_an_agent_that_worked_and_says_nothing_has_answered() -> None:
    agent = begun()
    agent.calls("look")
    agent.hears(agent.returned(0))
    assert only(agent.reads(NOTHING)) == Finished("answered", "(no summary)", settled=Settled(USED))


@pytest.mark.parametrize("content", EMPTY)
def test_words_beside_a_call_are_the_answer_of_an_agent_that_then_says_nothing(content: bytes) -> None:
    agent = begun()
    agent.calls("look", text="All is well.")
    agent.hears(agent.returned(0))
    finished = only(agent.reads(Reply(content=content)))
    assert isinstance(finished, Finished)
    assert (finished.kind, finished.text) == ("answered", "All is well.")
    agent.begins(prompt="two")  # the words were those of the ask before
    agent.calls("look")
    agent.hears(agent.returned(0))
    assert only(agent.reads(NOTHING)) == Finished("answered", "(no summary)", settled=Settled(USED))


def test_sessions_of_the_first_rules_keep_their_answers_without_words() -> None:
    agent = AgentHarness(rules=1)
    agent.begins()
    agent.calls("look", text="All is well.")
    agent.hears(agent.returned(0))
    assert only(agent.reads(NOTHING)) == Finished("answered", "(no summary)", settled=Settled(USED))


def test_words_that_reach_an_agent_at_work_ask_for_an_answer_and_its_last_text_is_partial_work() -> None:
    agent = begun()
    agent.calls("look", text="looking")
    agent.hears(Told(1, "hurry"))
    agent.hears(agent.returned(0))
    agent.reads(NOTHING)
    assert only(agent.reads(NOTHING)) == Finished("empty", "looking", settled=Settled(USED))


def test_a_turn_that_only_delivers_words_asks_for_no_answer() -> None:
    agent = begun()
    agent.hears(Told(1, "hurry"))
    wish = only(agent.reads(Reply("Paris")))
    assert isinstance(wish, TurnRequested)
    assert wish.otherwise == "answered"
    assert only(agent.reads(NOTHING)) == Finished("answered", "Paris", settled=Settled(USED))


def test_an_agent_that_has_said_nothing_has_no_answer_to_fall_back_on_when_it_hears_words() -> None:
    agent = begun()
    agent.hears(Told(1, "hurry"))
    wish = only(agent.reads(NOTHING))
    assert isinstance(wish, TurnRequested)
    assert (wish.turn, wish.otherwise) == (2, "")
    agent.reads(NOTHING)
    assert only(agent.reads(NOTHING)) == Finished("empty", settled=Settled(USED))


def test_words_for_which_no_turn_is_left_change_nothing() -> None:
    agent = begun(max_iterations=1)
    agent.hears(Told(1, "hurry"))
    assert asks_again(only(agent.reads(NOTHING)))
    assert only(agent.reads(NOTHING)) == Finished("empty", settled=Settled(USED))


def test_an_agent_with_tasks_waits_for_them_and_their_end_asks_for_no_answer() -> None:
    agent = AgentHarness("host")
    agent.begins(who=PARENT)
    agent.reads(calls(task("kid", background=True)))
    agent.hears(Delegated(1, 0, "host.1"))
    agent.reads(NOTHING)
    assert agent.state.phase == "parked"
    agent.hears(DelegationEnded(1, 0, "answered", "host.1", text="found"))
    assert only(agent.reads(NOTHING)) == Finished("answered", "(no summary)", settled=Settled(USED))


def test_an_agent_that_owes_a_report_is_told_to_report() -> None:
    agent = AgentHarness()
    agent.begins(SCHEMA)
    wish = only(agent.reads(NOTHING))
    assert isinstance(wish, TurnRequested)
    assert (wish.turn, agent.state.is_forced) == (2, True)
    finished = only(agent.reads(NOTHING))
    assert isinstance(finished, Finished)
    assert finished.kind == "no_report"


def test_a_program_that_returns_an_empty_text_has_answered() -> None:
    agent = AgentHarness()
    agent.begins(who=program_profile("p"))
    finished = only(agent.reads(last_reply("", 1)))
    assert isinstance(finished, Finished)
    assert (finished.kind, finished.text) == ("answered", "")


def test_the_next_ask_of_a_host_asks_for_an_answer_of_its_own() -> None:
    agent = AgentHarness("host")
    agent.begins()
    agent.reads(Reply("one"))
    agent.begins(prompt="two")
    again = only(agent.reads(NOTHING))
    assert isinstance(again, TurnRequested)
    assert (again.turn, again.attempt) == (2, 2)
