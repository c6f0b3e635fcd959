"""The calls of one reply: which go to tools, which to the supervisor, which are answered here."""

from typing import Final

import msgspec
from msgspec.structs import replace

from callboard.actors import prompts
from callboard.actors.addresses import SUPERVISOR, TOOLS
from callboard.actors.agent_state import (
    AgentState,
    Answer,
    fixed_of,
    has_turns_left,
    need_of,
    with_message,
)
from callboard.actors.agent_turns import Decision, ask_turn, finish_without_turns
from callboard.actors.base import NULL, Json
from callboard.actors.content import ToolUse
from callboard.actors.conversation import text_json, tool_result, user_message
from callboard.actors.events import Post
from callboard.actors.intmap import IntMap
from callboard.actors.messages import CallTool, Delegate, ReportBack, Settled, TurnSettled

COPIES_MAX: Final = 10_000
"""More racers than this are a mistake of the model, whatever the limits allow."""


class _Task(msgspec.Struct, frozen=True):
    """The arguments of a `task` call; models write null for what they leave out."""

    prompt: Json
    agent: str | None = None
    agents: tuple[str, ...] | None = None
    copies: int | None = None
    output_schema: Json = NULL


class _Block(msgspec.Struct, frozen=True):
    type: str


class _Wrapped(msgspec.Struct, frozen=True):
    value: Json


_TASK: Final = msgspec.json.Decoder(_Task)
_WRAPPED: Final = msgspec.json.Decoder(_Wrapped)


def start_calls(state: AgentState, uses: tuple[ToolUse, ...], is_cut: bool, settled: Settled) -> Decision:
    """Send out what a reply calls. is_cut: the reply ended at max_tokens, within its last call."""
    state = replace(state, uses=uses)
    posts: list[Post] = []
    reports: list[int] = []
    answers: IntMap[Answer] = IntMap()
    for call, use in enumerate(uses):
        if use.name == prompts.REPORT_BACK and fixed_of(state).reports and not _is_cut(state, call, is_cut):
            reports.append(call)
            continue
        post = prompts.TRUNCATED if _is_cut(state, call, is_cut) else _post_for(state, call, use)
        if isinstance(post, Post):
            posts.append(post)
        else:
            answers = answers.put(call, Answer(tool_result(use.id, text_json(post), is_error=True)))
    state = replace(
        state,
        phase="acting",
        answers=answers,
        unanswered=len(posts),
        tools_out=len([post for post in posts if post.recipient == TOOLS]),
        reports=tuple(reports),
    )
    return (state, settled_in(posts, settled)) if posts else all_answered(state, settled)


def _is_cut(state: AgentState, call: int, is_reply_cut: bool) -> bool:
    return is_reply_cut and call == len(state.uses) - 1


def _post_for(state: AgentState, call: int, use: ToolUse) -> Post | str:
    """The request that a call becomes, or why it becomes none."""
    fixed = fixed_of(state)
    effect = fixed.effects.get(use.name)
    if effect is not None:
        return Post(TOOLS, CallTool(state.turn, call, use.name, effect, use.input, use.id))
    if use.name == prompts.TASK and fixed.profile.agents:
        return _delegate(state, call, use)
    return prompts.unknown_tool(use.name, tuple(fixed.effects))


def _delegate(state: AgentState, call: int, use: ToolUse) -> Post | str:
    known = fixed_of(state).profile.agents
    unusable = prompts.UNUSABLE_TASK + ", ".join(known)
    try:
        task = _TASK.decode(use.input)
        prompt = msgspec.json.decode(task.prompt, type=str | tuple[_Block, ...])
    except (msgspec.DecodeError, RecursionError):
        return unusable
    names = _racers(task, known)
    is_empty = not (prompt.strip() if isinstance(prompt, str) else prompt)
    if is_empty or not names:
        return unusable
    body = Delegate(state.turn, call, names, task.prompt, task.output_schema, need_of(state))
    return Post(SUPERVISOR, body)


def _racers(task: _Task, known: tuple[str, ...]) -> tuple[str, ...]:
    """Whom a `task` call names, each as often as it is to run; nobody if the call makes no sense."""
    copies = 1 if task.copies is None else task.copies
    names = task.agents or ((task.agent,) if task.agent else known if len(known) == 1 else ())
    if (task.agents and task.agent) or not 1 <= copies * len(names) <= COPIES_MAX:
        return ()
    return names * copies


def settled_in(posts: list[Post], settled: Settled) -> tuple[Post, ...]:
    """The posts, the first of those to the supervisor settling the turn, or one more that does."""
    for at, post in enumerate(posts):
        if isinstance(post.body, Delegate):
            posts[at] = Post(SUPERVISOR, replace(post.body, settled=settled))
            return tuple(posts)
    return (*posts, Post(SUPERVISOR, TurnSettled(settled)))


# --- when the last answer is there ------------------------------------------------


def results(state: AgentState) -> tuple[tuple[Json, ...], tuple[int, ...]]:
    """The results in call order, and the seqs of the events they came with."""
    answers = list(state.answers.values())
    return tuple(a.block for a in answers), tuple(a.seq for a in answers if a.seq)


def all_answered(state: AgentState, settled: Settled | None = None) -> Decision:
    """Go on after the last result: report, ask for the next turn, or end."""
    if state.reports:
        return _report(state, settled)
    blocks, seqs = results(state)
    if not has_turns_left(state):
        return finish_without_turns(replace(state, carry=blocks, fresh=state.fresh + seqs), settled)
    size = sum(len(block) for block in blocks)
    return ask_turn(with_message(state, user_message(blocks), size, *seqs), settled)


def _report(state: AgentState, settled: Settled | None) -> Decision:
    fixed = fixed_of(state)
    posts = []
    for call in state.reports:
        value = state.uses[call].input
        if fixed.wraps_report:
            value = _unwrapped(value)
        posts.append(Post(SUPERVISOR, ReportBack(state.turn, call, value, settled)))
        settled = None
    state = replace(state, phase="judging", unanswered=len(posts))
    return state, tuple(posts)


def _unwrapped(value: Json) -> Json:
    """What the model put under `value`; without that key, all of it, for the schema to refuse."""
    try:
        return _WRAPPED.decode(value).value
    except (msgspec.DecodeError, RecursionError):
        return value
