"""Work in the background and words: when an agent waits, what wakes it, and how it hears of it."""

import msgspec
import pytest
from msgspec.structs import replace

from callboard.actors.agent import tasks
from callboard.actors.agent.state import closing_need
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    AnyMessage,
    CancelTask,
    Delegate,
    Delegated,
    DelegationEnded,
    Finished,
    Stop,
    Told,
    TurnRequested,
    TurnSettled,
)
from callboard.actors.protocol.profiles import OnFinish
from callboard.replay.testing.sessions.scenario import profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, report
from tests.actors.harness import FINAL, RETRYABLE, SCHEMA, USED, AgentHarness, kinds
from tests.tables import table

BEHIND = ("task", {"prompt": "work", "background": True})
SO_FAR = Reply("so far")


def lead(
    count: int = 2, *, schema: object = None, turns: int = 9, on_finish: OnFinish = "wait"
) -> AgentHarness:
    """Return an agent host with so many background tasks, at its second turn."""
    agent = AgentHarness("host")
    who = profile("host", ["helper"], ["look"], background=True, on_finish=on_finish)
    agent.begins(schema, who, Limits(max_iterations=turns))
    agent.reads(calls(*[BEHIND] * count))
    for call in range(count):
        agent.hears(Delegated(1, call, f"host.{call + 1}"))
    return agent


def ends(agent: AgentHarness, task: int, text: str = "done") -> list[AnyMessage]:
    return agent.hears(DelegationEnded(1, task - 1, "answered", f"host.{task}", text=text))


def blocks(agent: AgentHarness) -> list[dict[str, object]]:
    """Return the blocks of the last message, which is the user's."""
    last = agent.conversation()[-1]
    assert last["role"] == "user"
    return msgspec.convert(last["content"], list[dict[str, object]])


def texts(agent: AgentHarness) -> list[str]:
    return [str(one.get("text", one.get("content"))) for one in blocks(agent)]


def wish_of(posts: list[AnyMessage]) -> TurnRequested:
    (wish,) = posts
    assert isinstance(wish, TurnRequested)
    return wish


def test_a_start_answers_its_call_and_names_the_task() -> None:
    agent = lead(1)
    assert agent.state.turn == 2
    assert "background task host.1" in texts(agent)[0]


def test_only_a_profile_that_may_delegate_in_the_background_is_offered_it() -> None:
    plain, bold = AgentHarness(), AgentHarness()
    plain.begins(who=profile("worker", ["helper"]))
    bold.begins(who=profile("worker", ["helper"], background=True))
    named = [
        [msgspec.json.decode(tool)["name"] for tool in one.state.prefix.tools]
        for one in (plain, bold)
        if one.state.prefix
    ]
    assert named == [["task"], ["task", "task_wait", "task_cancel"]]
    assert not any(isinstance(one, Delegate) for one in plain.reads(calls(BEHIND)))
    assert texts(plain) == [prompts.NO_BACKGROUND]


def test_by_rules_1_a_task_of_an_agent_without_background_is_awaited() -> None:
    plain = AgentHarness()
    plain.hears(replace(plain.begin(who=profile("worker", ["helper"])), rules=1))
    assert [one.mode for one in plain.reads(calls(BEHIND)) if isinstance(one, Delegate)] == ["await"]


def test_a_silent_agent_is_parked_and_the_last_end_wakes_one_turn_with_all_words() -> None:
    agent = lead(2)
    (settled,) = agent.reads(SO_FAR)
    assert isinstance(settled, TurnSettled)
    assert agent.state.phase == "parked"
    assert ends(agent, 2, "second") == []
    wish = wish_of(ends(agent, 1, "first"))
    assert (wish.turn, wish.new) == (3, (agent.seq - 2, agent.seq - 1, agent.seq))
    assert [text.splitlines()[1] for text in texts(agent)] == ["second", "first"]


def test_a_reply_beside_a_task_is_settled_with_the_need_of_the_turn_after_it() -> None:
    agent = lead(1)
    said = agent.calls("look")
    assert kinds(said) == ["CallTool", "TurnSettled"]
    assert said[1] == TurnSettled(USED, "", closing_need(agent.state, agent.state.context_tokens))


def test_ends_that_come_while_the_model_works_take_a_turn_after_its_silence() -> None:
    agent = lead(1)
    assert ends(agent, 1) == []
    assert wish_of(agent.reads(SO_FAR)).turn == 3
    assert kinds(agent.reads(SO_FAR)) == ["Finished"]


def test_words_stand_after_the_results_of_their_message() -> None:
    agent = lead(1)
    agent.reads(calls(("look", {})))
    agent.hears(Told(1, "hurry"))
    ends(agent, 1)
    wish = wish_of(agent.hears(agent.returned(0)))
    assert [one["type"] for one in blocks(agent)] == ["tool_result", "text", "text"]
    assert "hurry" in texts(agent)[1]
    assert (wish.told, wish.ends) == (1, 1)


def test_a_retry_and_a_continuation_send_what_was_sent_before() -> None:
    agent = lead(1)
    ends(agent, 1)
    size = len(agent.state.history)
    assert wish_of(agent.reads(Reply(failure=RETRYABLE))).new == ()
    assert wish_of(agent.reads(Reply("searching", stop_reason="pause_turn"))).told == 0
    assert len(agent.state.history) == size + 1


@table(
    ("schema", "has_ended", "kind"),
    [(None, False, "iteration_cap"), (None, True, "iteration_cap"), (SCHEMA, False, "no_report")],
)
def test_without_a_turn_left_nothing_is_waited_for_and_no_end_is_heard(
    schema: object, has_ended: bool, kind: str
) -> None:
    agent = lead(1, schema=schema, turns=2)
    if has_ended:
        ends(agent, 1)
    (finished,) = agent.reads(SO_FAR)
    assert isinstance(finished, Finished)
    assert (finished.kind, finished.text) == (kind, "so far")


def test_a_profile_that_cancels_at_its_last_word_waits_for_nothing() -> None:
    agent = lead(1, on_finish="cancel")
    assert kinds(agent.reads(SO_FAR)) == ["Finished"]


def test_an_end_that_comes_while_the_model_works_is_no_reason_to_go_on_for_a_profile_that_cancels() -> None:
    agent = lead(1, on_finish="cancel")
    assert ends(agent, 1) == []
    assert kinds(agent.reads(SO_FAR)) == ["Finished"]


def test_the_end_of_a_task_that_the_last_word_cancelled_stands_before_the_next_prompt() -> None:
    agent = lead(1, on_finish="cancel")
    agent.reads(SO_FAR)
    ends(agent, 1, "cut off")
    agent.begins(who=profile("host", ["helper"], ["look"], background=True), prompt="again")
    assert texts(agent)[1] == "again"
    assert "cut off" in texts(agent)[0]
    assert agent.state.background.tasks.size == 0


def test_an_agent_that_owes_a_report_is_not_told_to_report_while_its_tasks_run() -> None:
    agent = lead(1, schema=SCHEMA)
    agent.reads(SO_FAR)
    assert not agent.state.is_told_to_report
    ends(agent, 1)
    agent.reads(SO_FAR)
    assert agent.state.is_told_to_report


def test_a_report_waits_for_no_task() -> None:
    agent = lead(1, schema=SCHEMA)
    assert kinds(agent.reads(report({"n": 1}))) == ["ReportBack"]


def test_a_task_wait_returns_at_the_last_end_and_any_at_the_first() -> None:
    every, first = lead(2), lead(2)
    for agent, is_any in ((every, False), (first, True)):
        assert kinds(agent.reads(calls(("task_wait", {"any": is_any})))) == ["TurnSettled"]
    assert ends(every, 2) == []
    assert kinds(ends(every, 1)) == ["TurnRequested"]
    assert kinds(ends(first, 2)) == ["TurnRequested"]
    assert texts(first)[0] == "Still running: host.1."


def test_a_task_wait_names_tasks_and_the_same_task_may_be_waited_for_twice() -> None:
    agent = lead(2)
    wait = ("task_wait", {"tasks": ["host.1"]})
    agent.reads(calls(wait, wait))
    assert ends(agent, 2) == []
    assert kinds(ends(agent, 1)) == ["TurnRequested"]
    assert texts(agent)[:2] == ["No background task runs any more."] * 2


@table("name", ["host.9", "host.01", "host.1.1", "host", "", "kid", "host.1 ", "🎭"])
def test_a_task_that_does_not_run_is_answered_at_once(name: str) -> None:
    agent = lead(1)
    agent.reads(calls(("task_wait", {"tasks": [name]}), ("task_cancel", {"task": name})))
    assert agent.state.turn == 3
    assert texts(agent) == ["Still running: host.1.", f"No background task '{name}' of yours runs."]


@pytest.mark.parametrize("arguments", [{"tasks": "host.1"}, {"tasks": [1]}, {"any": "yes"}])
def test_unusable_arguments_are_errors(arguments: dict[str, object]) -> None:
    agent = lead(1)
    agent.reads(calls(("task_wait", arguments), ("task_cancel", arguments)))
    assert all(one["is_error"] for one in blocks(agent))


def test_a_cancel_names_the_delegation_of_its_task_and_its_end_answers_it() -> None:
    agent = lead(2)
    cancel = ("task_cancel", {"task": "host.2"})
    posts = agent.reads(calls(cancel, cancel))
    assert posts[:2] == [CancelTask(1, 1)] * 2
    assert [post.recipient for post in agent.last] == [SUPERVISOR] * 3
    end = DelegationEnded(1, 1, "cancelled", "host.2", detail="the agent that delegated has cancelled it")
    assert kinds(agent.hears(end)) == ["TurnRequested"]
    assert texts(agent)[0] == "Still running: host.1."


def test_a_wait_for_all_waits_for_the_tasks_of_its_own_reply() -> None:
    agent = AgentHarness("host")
    agent.begins(who=profile("host", ["helper"], background=True))
    agent.reads(calls(BEHIND, ("task_wait", {}), BEHIND))
    assert agent.hears(Delegated(1, 0, "host.1")) == []
    assert agent.hears(DelegationEnded(1, 0, "answered", "host.1", text="done")) == []
    refused = DelegationEnded(1, 2, "denied", "host.2", detail="at most 1")
    assert kinds(agent.hears(refused)) == ["TurnRequested"]
    assert [one["type"] for one in blocks(agent)] == ["tool_result"] * 3 + ["text"]


def test_words_answer_a_wait_and_not_a_cancel() -> None:
    agent = lead(1)
    agent.reads(calls(("task_wait", {}), ("task_cancel", {"task": "host.1"})))
    assert agent.hears(Told(1, "hurry")) == []
    assert kinds(ends(agent, 1)) == ["TurnRequested"]
    assert texts(agent)[0] == "Still running: host.1."


def test_words_wake_a_parked_agent_only_if_two_turns_are_left() -> None:
    for turns, then in ((4, ["TurnRequested"]), (3, [])):
        agent = lead(1, turns=turns)
        agent.reads(SO_FAR)
        assert kinds(agent.hears(Told(1, "hurry"))) == then


def test_the_last_words_take_a_turn_with_the_answer_in_hand() -> None:
    agent = AgentHarness("host")
    agent.begins(limits=Limits(max_iterations=2))
    agent.hears(Told(1, "hurry"))
    wish = wish_of(agent.reads(SO_FAR))
    assert (wish.told, wish.otherwise) == (1, "answered")
    agent.hears(Told(2, "again"))
    assert kinds(agent.reads(SO_FAR)) == ["Finished"]


def test_words_of_a_client_are_refused_with_their_agent_and_ends_are_kept() -> None:
    agent = lead(1)
    agent.hears(Told(1, "hurry"))
    ends(agent, 1, "the end")
    agent.reads(Reply(failure=FINAL))
    assert [word.number for word in agent.state.background.words.values()] == [0]


def test_a_turn_that_was_never_granted_gives_its_ends_back_and_drops_the_words() -> None:
    agent = lead(1)
    agent.hears(Told(1, "hurry"))
    ends(agent, 1, "the end")
    wish_of(agent.reads(SO_FAR))
    agent.hears(Stop("cancelled"))
    wish = wish_of(agent.begins(who=profile("host", ["helper"], background=True), prompt="again"))
    assert len(texts(agent)) == 2
    assert "the end" in texts(agent)[0]
    assert (wish.told, wish.ends) == (0, 1)


def test_ends_that_are_given_back_stand_before_those_that_came_later() -> None:
    agent = lead(3)
    ends(agent, 2, "first")
    ends(agent, 1, "second")
    agent.hears(Told(1, "hurry"))
    wish_of(agent.reads(SO_FAR))  # a turn for the words, with both ends
    ends(agent, 3, "third")
    agent.hears(Stop("cancelled"))
    agent.begins(who=profile("host", ["helper"], background=True), prompt="again")
    assert [one.split()[-1] for one in texts(agent)] == ["first", "second", "third", "again"]


@table(
    ("address", "ordinal"),
    [("host.1", 1), ("host.12", 12), ("host.1.1", -1), ("host", -1), ("host.01", -1), ("kid.1", -1)],
)
def test_the_ordinal_of_a_task_is_read_strictly(address: str, ordinal: int) -> None:
    assert tasks.ordinal_of("host", address) == ordinal


@pytest.mark.parametrize("address", ["", "host", "host.1.1", "tools"])
def test_the_start_of_a_task_that_is_no_child_changes_nothing(address: str) -> None:
    agent = AgentHarness("host")
    agent.begins(who=profile("host", ["helper"], background=True))
    agent.reads(calls(BEHIND))
    before = agent.state
    assert agent.hears(Delegated(1, 0, address)) == []
    assert agent.state == before
