"""Calls that wait for tasks: for which they wait, when they are answered at once, and what they cancel."""

from typing import Literal

import msgspec
import pytest

from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.state import NO_ANSWERS, AgentState, Answer
from callboard.actors.agent.tasks import NO_BACKGROUND, Background, Task, Wait, ended
from callboard.actors.agent.waiting import answer_waits, open_waits, waits_size
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.conversation import text_json, tool_result
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.messages import CancelTask, Delegate, Delegated
from callboard.actors.protocol.usage import Need
from callboard.replay.testing.sessions.replies import calls
from callboard.replay.testing.sessions.scenario import profile
from tests.actors.harness import AgentHarness, raw

ONE, TWO = Task(1, 0), Task(1, 4)
TASKS: IntMap[Task] = IntMap[Task]().put(1, ONE).put(2, TWO)
RUNNING = Background(tasks=TASKS, waits=IntMap[Wait]().put(7, Wait(TASKS)))
"""Two tasks, and a wait of the reply before."""


def used(name: str, arguments: object) -> ToolUse:
    return ToolUse("t1", name, raw(arguments))


def opened(
    use: ToolUse, background: Background = RUNNING, *modes: Literal["await", "background"]
) -> tuple[Background, list[Post], IntMap[Answer]]:
    """Open one call beside delegations of these modes, whose calls follow it."""
    state = AgentState("host", background=background, rules=2)
    requests = [
        Post(SUPERVISOR, Delegate(2, call, ("kid",), NULL, mode=mode)) for call, mode in enumerate(modes, 1)
    ]
    return open_waits(state, (use,), (0,), requests, NO_ANSWERS)


def names(wait: Wait) -> tuple[list[int], bool, bool, bool]:
    return [ordinal for ordinal, _ in wait.left.items()], wait.is_every, wait.is_any, wait.is_cancel


@pytest.mark.parametrize(
    ("name", "arguments", "opens"),
    [
        ("task_wait", {}, ([1, 2], True, False, False)),
        ("task_wait", {"any": True}, ([1, 2], True, True, False)),
        ("task_wait", {"any": False, "tasks": []}, ([1, 2], True, False, False)),
        ("task_wait", {"tasks": ["host.2"]}, ([2], False, False, False)),
        ("task_wait", {"tasks": ["host.2", "host.1"]}, ([1, 2], False, False, False)),
        ("task_wait", {"tasks": ["host.2"], "any": True}, ([2], False, True, False)),
        ("task_wait", {"tasks": ["host.9", "host.2"]}, ([2], False, False, False)),
        ("task_cancel", {"task": "host.2"}, ([2], False, False, True)),
    ],
)
def test_a_call_waits_for_the_running_ones_of_the_tasks_that_it_names(
    name: str, arguments: object, opens: tuple[list[int], bool, bool, bool]
) -> None:
    background, posts, answers = opened(used(name, arguments))
    assert {call: names(wait) for call, wait in background.waits.items()} == {0: opens}
    assert [post.body for post in posts] == ([CancelTask(1, 4)] if name == "task_cancel" else [])
    assert [post.recipient for post in posts] == [SUPERVISOR] * len(posts)
    assert not answers.size


@pytest.mark.parametrize(
    ("name", "arguments", "text", "is_error"),
    [
        ("task_wait", {"tasks": ["host.9"]}, "Still running: host.1, host.2.", False),
        ("task_wait", {"tasks": ["host.1", "host.9"], "any": True}, "Still running: host.1, host.2.", False),
        ("task_wait", {"tasks": ["host.1.1", "kid", ""]}, "Still running: host.1, host.2.", False),
        ("task_wait", {"tasks": 7}, prompts.UNUSABLE_TASK_WAIT, True),
        ("task_cancel", {}, prompts.UNUSABLE_TASK_CANCEL, True),
        ("task_cancel", {"task": 7}, prompts.UNUSABLE_TASK_CANCEL, True),
        ("task_cancel", {"task": "host.3"}, "No background task 'host.3' of yours runs.", True),
        (
            "task_wait",
            {"task": "host.1"},
            prompts.WRONG_NAMES + "task_wait has no argument 'task' (use tasks). Its arguments: tasks, any.",
            True,
        ),
        (
            "task_cancel",
            {"tasks": ["host.1"]},
            prompts.WRONG_NAMES + "task_cancel has no argument 'tasks' (use task). Its arguments: task.",
            True,
        ),
    ],
)
def test_a_call_with_nothing_to_wait_for_is_answered_at_once(
    name: str, arguments: object, text: str, is_error: bool
) -> None:
    background, posts, answers = opened(used(name, arguments))
    assert (background.waits.size, posts) == (0, [])
    assert [*answers.items()] == [(0, Answer(tool_result("t1", text_json(text), is_error=is_error)))]


def test_a_wait_without_names_waits_for_the_background_tasks_that_its_reply_starts() -> None:
    background, _, answers = opened(used("task_wait", {}), NO_BACKGROUND, "await", "background")
    assert (background.starting, answers.size) == (IntMap[bool]().put(2, True), 0)
    assert [names(wait) for wait in background.waits.values()] == [([], True, False, False)]
    named, _, answers = opened(used("task_wait", {"tasks": ["host.1"]}), NO_BACKGROUND, "background")
    assert (named.waits.size, answers.size) == (0, 1)
    assert opened(used("task_wait", {}), NO_BACKGROUND, "await")[2] == answers
    (answer,) = answers.values()
    assert msgspec.json.decode(answer.block)["content"] == "No background task runs any more."


def test_a_reply_without_such_calls_keeps_the_tasks_as_they_are() -> None:
    state = AgentState("host", background=RUNNING)
    assert open_waits(state, (), (), (), NO_ANSWERS)[0] is RUNNING


def waiting() -> AgentState:
    """Return an agent with a wait for all and one for the second task, the latter with a longer id."""
    waits = IntMap[Wait]().put(0, Wait(TASKS, is_every=True)).put(2, Wait(TASKS.drop(1)))
    uses = (used("task_wait", {}), used("look", {}), ToolUse("t" * 9, "task_wait", raw({})))
    return AgentState("host", "acting", 3, uses=uses, background=Background(tasks=TASKS, waits=waits))


def test_answers_say_which_tasks_still_run_and_the_other_calls_stay_open() -> None:
    state = waiting()
    background, due = ended(state.background, 2)
    assert due == [2]
    after = answer_waits(msgspec.structs.replace(state, background=background), due)
    said = tool_result("t" * 9, text_json("Still running: host.1."), is_error=False)
    assert [*after.answers.items()] == [(2, Answer(said))]
    assert after.unanswered == 2
    assert [call for call, _ in after.background.waits.items()] == [0]
    assert answer_waits(state, []) is state


def test_the_size_of_waits_is_that_of_their_answers_with_every_task_running() -> None:
    state = waiting()
    after = answer_waits(state, [0, 2])
    assert waits_size(state) == sum(len(answer.block) for answer in after.answers.values())
    assert waits_size(after) == 0


def test_children_leave_room_for_the_answers_to_the_calls_that_wait() -> None:
    agent = AgentHarness("host")
    agent.begins(who=profile("host", ["helper"], background=True))
    agent.reads(calls(("task", {"prompt": "work", "background": True})))
    agent.hears(Delegated(1, 0, "host.1"))
    both = calls(("task_wait", {"tasks": ["host.1"]}), ("task", {"agent": "helper", "prompt": "help"}))
    (delegate, *_) = agent.reads(both)
    assert isinstance(delegate, Delegate)
    state = agent.state
    answers = [(state.uses[0].id, "Still running: host.1.", False), (state.uses[1].id, "", True)]
    read = sum(len(tool_result(use_id, text_json(text), is_error)) for use_id, text, is_error in answers)
    assert delegate.closing == Need(state.context_tokens + read + state.model.max_tokens)
