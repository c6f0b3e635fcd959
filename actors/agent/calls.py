"""The calls of one reply: start them, limit them, and go on after the last answer.

A call becomes a request to the tools, to a person or to the supervisor, or an error at once. Calls beyond
`max_tool_calls` are errors. At most `max_parallel_tools` tools run at a time. The others wait, and each
answer starts the next one in call order. Delegations, and questions to a person, never wait for a place.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from callboard.actors.agent.arguments import REPORT_NAMES, unwrapped, wrong_names
from callboard.actors.agent.cache_keys import cache_request
from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.delegations import ask_model, delegate_by_task, delegate_by_tool
from callboard.actors.agent.request_prefix import RequestPrefix
from callboard.actors.agent.rights import call_refusal
from callboard.actors.agent.state import (
    NO_ANSWERS,
    AgentState,
    Answer,
    closing_need,
    has_turns_left,
    prefix_of,
    refusals,
)
from callboard.actors.agent.tasks import NO_CALLS
from callboard.actors.agent.turns import Decision, ask_new_turn, finish, finish_without_turns
from callboard.actors.agent.waiting import OWN_CALLS, open_waits, waits_size
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import APPROVALS, SUPERVISOR, TOOLS
from callboard.actors.protocol.conversation import text_json, tool_result
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.limits import millis
from callboard.actors.protocol.messages import Delegate, ReportBack, TurnSettled, Wake
from callboard.actors.protocol.port_messages import CallTool, RequestApproval
from callboard.actors.protocol.profiles import ToolSpec
from callboard.actors.protocol.usage import NOTHING, Need
from callboard.actors.protocol.value_types import Settled

_NO_TEXT: Final = text_json("")
_CARRIERS: Final = frozenset({Delegate, Wake})
"""The messages of a reply's calls that can carry the settlement."""


def start_calls(state: AgentState, uses: tuple[ToolUse, ...], is_cut: bool, settled: Settled) -> Decision:
    """Post the calls of a reply. is_cut: the reply ended at max_tokens, within its last call."""
    most = state.limits.max_tool_calls or 1
    requests, reports, own, answers = _sort_calls(state, uses[:most], len(uses) - 1 if is_cut else -1)
    places = state.limits.max_parallel_tools or 1
    posts: list[Post] = []
    delegations: list[int] = []
    tools_out, waiting, questions = 0, NO_CALLS, NO_CALLS
    for call, post in requests:
        if post.recipient == TOOLS:
            if tools_out == places:
                waiting = waiting.put(call, True)
                continue
            tools_out += 1
        elif post.recipient == APPROVALS:
            questions = questions.put(call, True)
        else:
            delegations.append(call)
        posts.append(post)
    if own or delegations:
        background, cancels, answers = open_waits(state, uses, own, posts, answers)
        state = replace(state, background=background)
        posts += cancels
    state = replace(
        state,
        phase="acting",
        uses=_kept(uses[:most], delegations) if delegations else uses[:most],
        refused=uses[most:],
        answers=answers,
        unanswered=len(requests) + state.background.waits.size,
        tools_out=tools_out,
        waiting=waiting,
        questions=questions,
        changed=NO_CALLS,
        reports=reports,
    )
    if not state.unanswered:
        return all_answered(state, settled)
    if delegations:
        posts = _with_reserve(state, posts, delegations)
    return state, settled_in(state, posts, settled)


def _kept(uses: tuple[ToolUse, ...], delegations: list[int]) -> tuple[ToolUse, ...]:
    """Return the calls of a reply as its agent keeps them. delegations: those that delegate."""
    kept = list(uses)
    for call in delegations:
        kept[call] = delegated(uses[call])
    return tuple(kept)


def delegated(use: ToolUse) -> ToolUse:
    """Return a call that delegates without its arguments: its `Delegate` has them."""
    # They would keep the whole reply alive, 0.2 KiB for each of ten thousand agents at work.
    return ToolUse(use.id, prompts.ASK_MODEL if use.name == prompts.ASK_MODEL else prompts.TASK, NULL)


def _with_reserve(state: AgentState, posts: list[Post], delegations: list[int]) -> list[Post]:
    """Let each of these delegations state the need of the next turn, as far as it is known now."""
    closing = _closing(state, delegations)
    return [
        Post(SUPERVISOR, replace(post.body, closing=closing, delegations=len(delegations)))
        if isinstance(post.body, Delegate)
        else post
        for post in posts
    ]


def _closing(state: AgentState, calls: Sequence[int]) -> Need:
    """Return the need of the next turn without the results of its tools and delegations.

    calls: those that delegate.
    """
    known = state.context_tokens + sum(map(len, results(state)[0])) + waits_size(state)
    known += sum(len(tool_result(state.uses[call].id, _NO_TEXT, is_error=True)) for call in calls)
    return closing_need(state, known)


def _sort_calls(
    state: AgentState, uses: tuple[ToolUse, ...], cut: int
) -> tuple[list[tuple[int, Post]], tuple[int, ...], list[int], IntMap[Answer]]:
    """Return the calls that become requests, those that report, those that wait, and answers to failed ones.

    cut: the call that was cut at max_tokens, or -1.
    """
    prefix = prefix_of(state)
    requests: list[tuple[int, Post]] = []
    reports: list[int] = []
    own: list[int] = []
    answers = NO_ANSWERS
    for call, use in enumerate(uses):
        fault = prompts.TRUNCATED if call == cut else ""
        if (written := use.unread) is not None:
            fault = fault or prompts.unread_arguments(written, use.refused)
        if not fault:
            if prefix.reports and use.name == prompts.REPORT_BACK:
                fault = _why_no_report(state, prefix, use)
                if not fault:
                    reports.append(call)
                    continue
            if prefix.background and use.name in OWN_CALLS:
                own.append(call)
                continue
            request = fault or request_for(state, prefix, call, use)
            if isinstance(request, Post):
                requests.append((call, request))
                continue
            fault = request
        answers = answers.put(call, Answer(tool_result(use.id, text_json(fault), is_error=True)))
    return requests, tuple(reports), own, answers


def _why_no_report(state: AgentState, prefix: RequestPrefix, use: ToolUse) -> str:
    """Return the error for a report that is to have its value under one name, and has others; else empty."""
    return wrong_names(state.rules, use.name, use.input, REPORT_NAMES) if prefix.wraps_report else ""


def request_for(state: AgentState, prefix: RequestPrefix, call: int, use: ToolUse) -> Post | str:
    """Return the request that a call becomes, or the error that answers it."""
    if use.spec is not None:
        if state.permissions and (refusal := call_refusal(state, use)):
            return refusal
        if use.spec.approval in ("before", "always"):
            return question_about(state, call, use)
        return call_tool(state, call, use)
    if use.name == prompts.TASK and prefix.profile.agents:
        return delegate_by_task(state, prefix, call, use)
    if (callee := prefix.callees.get(use.name)) is not None and callee.is_tool:
        return delegate_by_tool(state, call, callee, use.input)
    if use.name == prompts.ASK_MODEL and prefix.profile.is_eager:
        return ask_model(state, prefix.profile, call, use)
    return prompts.unknown_tool(use.name, tuple(prefix.specs))


def call_tool(state: AgentState, call: int, use: ToolUse, turn: int = 0) -> Post:
    """Return the request to run one of the agent's tools for this call. turn: its turn, 0 for the last."""
    spec, turn = _spec_of(use), turn or state.turn
    cache = None if spec.cache is None else cache_request(state, spec, use)
    body = CallTool(turn, call, use.name, spec.effect, use.input, use.id, use.given, state.labels, cache)
    return Post(TOOLS, body)


def _spec_of(use: ToolUse) -> ToolSpec:
    assert use.spec is not None  # only calls of tools are asked about, wait, or run
    return use.spec


def _places(state: AgentState) -> int:
    return state.limits.max_parallel_tools or 1


def start_next_tool(state: AgentState) -> Decision:
    """Post the first waiting call that is permitted, if a place is free, or go on if no call is open."""
    # Calls wait only while all places are taken, and one answer frees one place: one call is enough.
    if state.unanswered and not state.waiting.size:  # nearly always
        return state, ()
    places = _places(state)
    while (first := state.waiting.first()) is not None and state.tools_out < places:
        call, use = first[0], state.uses[first[0]]
        state = replace(state, waiting=state.waiting.drop(call))
        if refusal := call_refusal(state, use):
            state = _refused(state, call, use, refusal)
            continue
        return replace(state, tools_out=state.tools_out + 1), (call_tool(state, call, use),)
    return (state, ()) if state.unanswered else all_answered(state)


def _refused(state: AgentState, call: int, use: ToolUse, refusal: str) -> AgentState:
    """Answer a call that has waited and may not run."""
    block = tool_result(use.id, text_json(refusal), is_error=True)
    answers = state.answers.put(call, Answer(block))
    return replace(state, answers=answers, unanswered=state.unanswered - 1)


def question_about(
    state: AgentState, call: int, use: ToolUse, turn: int = 0, *, is_repeat: bool = False
) -> Post:
    """Return the question to a person about a call."""
    spec, limit = _spec_of(use), millis(state.limits.approval_timeout_s)
    own = spec.approval_timeout_ms
    profile, timeout_ms = prefix_of(state).profile.name, min(own or limit, limit or own)
    wanted = (use.name, spec.effect, use.input)
    return Post(APPROVALS, RequestApproval(turn or state.turn, call, *wanted, is_repeat, profile, timeout_ms))


def settled_in(state: AgentState, posts: list[Post], settled: Settled) -> tuple[Post, ...]:
    """Put the settlement into the first post that can carry it, or else into a post of its own."""
    for at, post in enumerate(posts):
        if type(post.body) in _CARRIERS:
            posts[at] = Post(SUPERVISOR, replace(post.body, settled=settled))
            return tuple(posts)
    closing = _closing(state, ()) if state.background.tasks.size else NOTHING
    return (*posts, Post(SUPERVISOR, TurnSettled(settled.usage, settled.text, closing)))


# --- when the last answer is there ------------------------------------------------


def results(state: AgentState) -> tuple[tuple[Json, ...], tuple[int, ...]]:
    """Return the results in call order, and the seqs of the events they came with."""
    blocks: list[Json] = []
    seqs: list[int] = []
    for answer in state.answers.values():
        blocks.append(answer.block)
        if answer.seq:
            seqs.append(answer.seq)
    blocks += refusals(state)
    return tuple(blocks), tuple(seqs)


def all_answered(state: AgentState, settled: Settled | None = None) -> Decision:
    """Continue after the last result: report, ask for the next turn, or end."""
    if state.needs_effect:
        blocks, seqs = results(state)
        state = replace(state, carry=blocks, fresh=state.fresh + seqs)
        return finish(state, "needs_effect", settled, state.needs_effect)
    if state.reports:
        return _report(state, settled)
    blocks, seqs = results(state)
    if not has_turns_left(state):
        return finish_without_turns(replace(state, carry=blocks, fresh=state.fresh + seqs), settled)
    return ask_new_turn(state, settled, blocks, seqs)


def _report(state: AgentState, settled: Settled | None) -> Decision:
    prefix = prefix_of(state)
    posts = []
    for call in state.reports:
        value = state.uses[call].input
        if prefix.wraps_report:
            value = unwrapped(value)
        posts.append(Post(SUPERVISOR, ReportBack(state.turn, call, value, settled)))
        settled = None
    state = replace(state, phase="judging", unanswered=len(posts))
    return state, tuple(posts)
