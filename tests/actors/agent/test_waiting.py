"""Calls that wait for tasks: for which they wait, when they are answered at once, and their cancels."""

import msgspec
from msgspec.structs import replace

from callboard.actors.agent.background import take_end, take_refusal, take_start
from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.open_calls import NO_CALLS, OpenCall, Stage, drop, find, put
from callboard.actors.agent.state import AgentState
from callboard.actors.agent.tasks import NO_BACKGROUND, Background, Task, Unheard, Wait
from callboard.actors.agent.waiting import answer_waits, open_waits, waits_of, waits_size
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.conversation import text_json, tool_result
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.messages import CancelTask, Delegate, Delegated, DelegationEnded
from callboard.actors.protocol.usage import Need
from callboard.replay.testing.sessions.scenario import profile
from callboard.replay.testing.sessions.scripted_replies import calls
from tests.actors.harness import AgentHarness, raw
from tests.tables import table

ONE, TWO = Task(1, 0), Task(1, 4)
TASKS: IntMap[Task] = IntMap[Task]().put(1, ONE).put(2, TWO)
RUNNING = Background(tasks=TASKS)


def used(name: str, arguments: object) -> ToolUse:
    return ToolUse("t1", name, raw(arguments))


def opened(
    use: ToolUse, background: Background = RUNNING, *stages: Stage
) -> tuple[AgentState, list[Post], IntMap[Unheard]]:
    """Open one call beside delegations at these stages, whose calls follow it."""
    calls = NO_CALLS
    for call, stage in enumerate(stages, 1):
        calls = put(calls, OpenCall(call, 2, call, used("task", {}), stage))
    state = AgentState("host", calls=calls, background=background, rules=2)
    state, posts = open_waits(state, [OpenCall(0, 2, 0, use, "report")])
    return state, posts, state.calls.answers


def waits(state: AgentState) -> dict[int, Wait]:
    return {call.call: wait for call, wait in waits_of(state.calls)}


def names(wait: Wait) -> tuple[list[int], bool, bool, bool]:
    return [ordinal for ordinal, _ in wait.left.items()], wait.is_every, wait.is_any, wait.is_cancel


@table(
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
    state, posts, answers = opened(used(name, arguments))
    assert {call: names(wait) for call, wait in waits(state).items()} == {0: opens}
    assert [post.body for post in posts] == ([CancelTask(1, 4)] if name == "task_cancel" else [])
    assert [post.recipient for post in posts] == [SUPERVISOR] * len(posts)
    assert not answers.size


@table(
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
    state, posts, answers = opened(used(name, arguments))
    assert (state.calls.open.size, posts) == (0, [])
    assert [*answers.items()] == [(0, Unheard(tool_result("t1", text_json(text), is_error=is_error)))]


def test_a_wait_without_names_waits_for_the_background_tasks_that_its_reply_starts() -> None:
    state, _, answers = opened(used("task_wait", {}), NO_BACKGROUND, "task", "start")
    assert answers.size == 0
    assert [names(wait) for wait in waits(state).values()] == [([], True, False, False)]
    named, _, answers = opened(used("task_wait", {"tasks": ["host.1"]}), NO_BACKGROUND, "start")
    assert (waits(named), answers.size) == ({}, 1)
    assert opened(used("task_wait", {}), NO_BACKGROUND, "task")[2] == answers
    (answer,) = answers.values()
    assert msgspec.json.decode(answer.block)["content"] == "No background task runs any more."


def waiting(*, starts: bool = False) -> AgentState:
    """Return an agent with a wait for all and one for the second task, the latter with a longer id."""
    every, named = Wait(TASKS, is_every=True), Wait(TASKS.drop(1))
    calls = put(NO_CALLS, OpenCall(0, 3, 0, used("task_wait", {}), "wait", wait=every))
    calls = put(calls, OpenCall(1, 3, 1, used("task", {}), "start" if starts else "task"))
    calls = put(calls, OpenCall(2, 3, 2, ToolUse("t" * 9, "task_wait", raw({})), "wait", wait=named))
    return AgentState("host", "acting", calls, background=Background(tasks=TASKS))


def test_answers_say_which_tasks_still_run_and_the_other_calls_stay_open() -> None:
    after = take_end(waiting(), 9, DelegationEnded(1, 4, "answered", "host.2"))
    said = tool_result("t" * 9, text_json("Still running: host.1."), is_error=False)
    assert [*after.calls.answers.items()] == [(2, Unheard(said))]
    assert [call.call for call in after.calls.open.values()] == [0, 1]
    assert answer_waits(after, []) is after


@table(
    ("wait", "starts", "left", "is_due"),
    [
        (Wait(TASKS), False, [2], False),
        (Wait(TASKS, is_any=True), False, [2], True),
        (Wait(TASKS, is_any=True), True, [2], True),
        (Wait(TASKS.drop(2)), True, [], True),  # of the tasks that it names, none is left
        (Wait(TASKS.drop(2), is_every=True), False, [], True),
        (Wait(TASKS.drop(2), is_every=True), True, [], False),
        (Wait(TASKS.drop(1)), False, [2], False),
        (Wait(TASKS.drop(1), is_any=True), False, [2], False),
    ],
)
def test_the_end_of_a_task_answers_the_waits_for_it_that_it_completes(
    wait: Wait, starts: bool, left: list[int], is_due: bool
) -> None:
    state = waiting(starts=starts)
    (one, *_) = state.calls.open.values()
    end = DelegationEnded(1, 0, "answered", "host.1")
    before = replace(state, calls=put(state.calls, replace(one, wait=wait)))
    after = take_end(before, 9, end)
    assert [ordinal for ordinal, _ in after.background.tasks.items()] == [2]
    assert (find(after.calls, 3, 0) is None) == is_due
    ending = take_end(replace(before, phase="stopping"), 9, end)  # which answers no call
    assert [ordinal for ordinal, _ in waits(ending)[0].left.items()] == left


def test_a_start_is_waited_for_by_the_calls_that_wait_for_every_task() -> None:
    state = waiting(starts=True)
    call = find(state.calls, 3, 1)
    assert call is not None
    after = take_start(state, call, 9, Delegated(3, 1, "host.3"))
    assert [ordinal for ordinal, _ in after.background.tasks.items()] == [1, 2, 3]
    left = {call: [ordinal for ordinal, _ in wait.left.items()] for call, wait in waits(after).items()}
    assert left == {0: [1, 2, 3], 2: [2]}


def test_a_call_that_starts_no_task_answers_the_waits_that_have_nothing_left() -> None:
    state = waiting(starts=True)
    call = find(state.calls, 3, 1)
    assert call is not None
    (one, *_) = state.calls.open.values()
    nothing_left = replace(one, wait=Wait(IntMap(), is_every=True))
    state = replace(state, calls=put(drop(state.calls, call), nothing_left))
    assert [call for call, _ in take_refusal(state).calls.answers.items()] == [0]


def test_the_size_of_waits_is_that_of_their_answers_with_every_task_running() -> None:
    state = waiting()
    after = answer_waits(state, [call for call, _ in waits_of(state.calls)])
    assert waits_size(state) == sum(len(answer.block) for answer in after.calls.answers.values())
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
    first, second = state.calls.open.values()
    answers = [(first.use.id, "Still running: host.1.", False), (second.use.id, "", True)]
    read = sum(len(tool_result(use_id, text_json(text), is_error)) for use_id, text, is_error in answers)
    assert delegate.closing == Need(state.context_tokens + read + state.model.max_tokens)
