"""The calls that an agent keeps open itself: `task_wait` and `task_cancel`.

Rules
  - `task_wait` is answered when every task that it names has ended, or with `any` the first of them. Without
    names it waits for every task that runs or that its own reply starts. It has no timeout.
  - `task_cancel` posts `CancelTask`, and the end of the task answers it.
  - A task that does not run counts as ended. So a call that names no running task is answered at once.
  - The answer tells only which tasks still run. The ends themselves are words, so each is read once.
"""

from msgspec.structs import replace

from callboard.actors.agent.arguments import (
    TASK_CANCEL_NAMES,
    TASK_WAIT_NAMES,
    read_task_cancel,
    read_task_wait,
    wrong_names,
)
from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.open_calls import OpenCall, OpenCalls, drop, put
from callboard.actors.agent.state import AgentState
from callboard.actors.agent.tasks import Background, Task, Unheard, Wait, addresses, ordinal_of
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.conversation import text_json, tool_result
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.messages import CancelTask

OWN_CALLS = frozenset({prompts.TASK_WAIT, prompts.TASK_CANCEL})
"""The tools that an agent answers without a port or the supervisor."""


def open_waits(state: AgentState, own: list[OpenCall]) -> tuple[AgentState, list[Post]]:
    """Open the waiting calls of a reply, whose other calls are open. Return the state, and the posts.

    own: the calls of `OWN_CALLS`.
    """
    posts: list[Post] = []
    for call in own:
        wait = _wait_of(state, call.use)
        if isinstance(wait, str):
            state = _with_answer(state, call, wait, is_error=True)
            continue
        call = replace(call, stage="wait", wait=wait)
        if is_due(state.calls, wait):
            state = _with_answer(state, call, prompts.waited(addresses(state.address, state.background)))
        else:
            state = replace(state, calls=put(state.calls, call))
            posts += _cancels(wait)
    return state, posts


def is_due(calls: OpenCalls, wait: Wait) -> bool:
    """Return True if no task is left that a call waits for."""
    return not wait.left.size and not (wait.is_every and _is_starting(calls))


def _is_starting(calls: OpenCalls) -> bool:
    """Return True if a call of the last reply is to start a task, and has no answer."""
    return any(call.stage == "start" for call in calls.open.values())


def _with_answer(state: AgentState, call: OpenCall, text: str, *, is_error: bool = False) -> AgentState:
    """Answer a call that the agent has kept open itself, or has not opened."""
    answer = Unheard(tool_result(call.use.id, text_json(text), is_error))
    return replace(state, calls=drop(state.calls, call, state.calls.answers.put(call.call, answer)))


def _wait_of(state: AgentState, use: ToolUse) -> Wait | str:
    """Return the wait that a call opens, or the error that answers it."""
    address, background, is_cancel = state.address, state.background, use.name == prompts.TASK_CANCEL
    known = TASK_CANCEL_NAMES if is_cancel else TASK_WAIT_NAMES
    if refusal := wrong_names(state.rules, use.name, use.input, known):
        return refusal
    if is_cancel:
        name = read_task_cancel(use.input)
        if name is None:
            return prompts.UNUSABLE_TASK_CANCEL
        left, _ = _running(address, background, (name,))
        return Wait(left, is_cancel=True) if left.size else prompts.no_running_task(name)
    arguments = read_task_wait(use.input)
    if arguments is None:
        return prompts.UNUSABLE_TASK_WAIT
    is_any = bool(arguments.any)
    if not arguments.tasks:
        return Wait(background.tasks, is_every=True, is_any=is_any)
    left, has_ended = _running(address, background, arguments.tasks)
    return Wait(IntMap() if is_any and has_ended else left, is_any=is_any)


def _running(address: str, background: Background, names: tuple[str, ...]) -> tuple[IntMap[Task], bool]:
    """Return the running ones of these tasks, and True if one of them does not run."""
    left: IntMap[Task] = IntMap()
    has_ended = False
    for name in names:
        ordinal = ordinal_of(address, name)
        task = background.tasks.get(ordinal)
        if task is None:
            has_ended = True
        else:
            left = left.put(ordinal, task)
    return left, has_ended


def _cancels(wait: Wait) -> list[Post]:
    if not wait.is_cancel:
        return []
    return [Post(SUPERVISOR, CancelTask(task.turn, task.call)) for task in wait.left.values()]


def waits_of(calls: OpenCalls) -> list[tuple[OpenCall, Wait]]:
    """Return the open calls that wait for tasks, each with its wait."""
    return [(call, call.wait) for call in calls.open.values() if call.wait is not None]


def waits_size(state: AgentState) -> int:
    """Return the most bytes that the answers to the open waiting calls can have."""
    waits = waits_of(state.calls)
    if not waits:
        return 0
    text = text_json(prompts.waited(addresses(state.address, state.background)))
    return sum(len(tool_result(call.use.id, text, is_error=False)) for call, _ in waits)


def answer_waits(state: AgentState, due: list[OpenCall]) -> AgentState:
    """Answer these waiting calls, unless the agent is ending."""
    if state.phase != "acting":
        return state
    for call in due:
        state = _with_answer(state, call, prompts.waited(addresses(state.address, state.background)))
    return state
