"""The calls that an agent keeps open itself: `task_wait` and `task_cancel`.

Rules
  - `task_wait` is answered when every task that it names has ended, or with `any` the first of them. Without
    names it waits for every task that runs or that its own reply starts. It has no timeout.
  - `task_cancel` posts `CancelTask`, and the end of the task answers it.
  - A task that does not run counts as ended. So a call that names no running task is answered at once.
  - The answer tells only which tasks still run. The ends themselves are words, so each is read once.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from callboard.actors.agent.arguments import (
    TASK_CANCEL_NAMES,
    TASK_WAIT_NAMES,
    read_task_cancel,
    read_task_wait,
    wrong_names,
)
from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.state import AgentState, Answer
from callboard.actors.agent.tasks import NO_CALLS, Background, Task, Wait, addresses, is_due, ordinal_of
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.conversation import text_json, tool_result
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.messages import CancelTask, Delegate

OWN_CALLS = frozenset({prompts.TASK_WAIT, prompts.TASK_CANCEL})
"""The tools that an agent answers without a port or the supervisor."""


def open_waits(
    state: AgentState,
    uses: tuple[ToolUse, ...],
    own: Sequence[int],
    requests: Sequence[Post],
    answers: IntMap[Answer],
) -> tuple[Background, list[Post], IntMap[Answer]]:
    """Open the waiting calls of a reply. Return the tasks and waits, the posts, and the answers so far.

    own: the indexes of the reply's calls of `OWN_CALLS`. requests: what its other calls have become.
    answers: those of the reply so far.
    """
    starting = _starting(requests)
    if not len(own) + starting.size:
        return state.background, [], answers
    background = replace(state.background, starting=starting, waits=IntMap())
    posts: list[Post] = []
    for call in own:
        wait = _wait_of(state, background, uses[call])
        if isinstance(wait, str):
            answers = answers.put(call, _answer(uses[call], wait, is_error=True))
        elif is_due(wait, background):
            text = prompts.waited(addresses(state.address, background))
            answers = answers.put(call, _answer(uses[call], text))
        else:
            background = replace(background, waits=background.waits.put(call, wait))
            posts += _cancels(wait)
    return background, posts, answers


def _starting(requests: Sequence[Post]) -> IntMap[bool]:
    """Return the calls that start a task."""
    starting = NO_CALLS
    for post in requests:
        if isinstance(post.body, Delegate) and post.body.mode == "background":
            starting = starting.put(post.body.call, True)
    return starting


def _answer(use: ToolUse, text: str, *, is_error: bool = False) -> Answer:
    return Answer(tool_result(use.id, text_json(text), is_error))


def _wait_of(state: AgentState, background: Background, use: ToolUse) -> Wait | str:
    """Return the wait that a call opens, or the error that answers it."""
    address, is_cancel = state.address, use.name == prompts.TASK_CANCEL
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


def waits_size(state: AgentState) -> int:
    """Return the most bytes that the answers to the open waiting calls can have."""
    waits = state.background.waits
    if not waits.size:
        return 0
    text = text_json(prompts.waited(addresses(state.address, state.background)))
    return sum(len(tool_result(state.uses[call].id, text, is_error=False)) for call, _ in waits.items())


def answer_waits(state: AgentState, due: Sequence[int]) -> AgentState:
    """Answer these waiting calls."""
    if not due:
        return state
    waits, answers = state.background.waits, state.answers
    text = prompts.waited(addresses(state.address, state.background))
    for call in due:
        waits = waits.drop(call)
        answers = answers.put(call, _answer(state.uses[call], text))
    return replace(
        state,
        answers=answers,
        unanswered=state.unanswered - len(due),
        background=replace(state.background, waits=waits),
    )
