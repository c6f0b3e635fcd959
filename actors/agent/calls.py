"""The calls of a reply: open them, limit them, start those in line, and go on after the last answer.

A call becomes a request to the tools, to a person or to the supervisor, or an error at once. Calls beyond
`max_tool_calls` are errors. At most `max_parallel_tools` tools run at a time. The others stand in line, and
each answer starts the next one by ticket. Delegations, and questions to a person, never wait for a place.
"""

from typing import Final

from msgspec.structs import replace

from callboard.actors.agent.arguments import REPORT_NAMES, unwrapped, wrong_names
from callboard.actors.agent.cache_keys import cache_request
from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.delegations import ask_model, delegate_by_task, delegate_by_tool
from callboard.actors.agent.open_calls import OpenCall, OpenCalls, Stage, drop, in_order, put
from callboard.actors.agent.request_prefix import RequestPrefix
from callboard.actors.agent.rights import call_refusal
from callboard.actors.agent.state import AgentState, closing_need, has_turns_left, prefix_of
from callboard.actors.agent.tasks import Unheard
from callboard.actors.agent.turns import Decision, ask_new_turn, finish, finish_without_turns
from callboard.actors.agent.waiting import OWN_CALLS, open_waits, waits_size
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import APPROVALS, SUPERVISOR, TOOLS
from callboard.actors.protocol.conversation import program_result, text_json, tool_result
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import NULL, Json
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
    state, posts = open_calls(state, uses, len(uses) - 1 if is_cut else -1)
    if not state.calls.open.size:
        return all_answered(state, settled)
    return state, settled_in(state, posts, settled)


def open_calls(state: AgentState, uses: tuple[ToolUse, ...], cut: int = -1) -> tuple[AgentState, list[Post]]:
    """Open the calls of a reply. Return the state of the agent at work on them, and the posts.

    cut: the call that was cut at max_tokens, or -1.
    """
    prefix, places, known = prefix_of(state), state.limits.max_parallel_tools or 1, state.calls
    held, answers, line = known.open, known.answers, known.line
    tools, questions, first = known.tools, known.questions, known.next_ticket
    posts: list[Post] = []
    own: list[OpenCall] = []
    reports: list[OpenCall] = []
    delegates = False
    for index, use in enumerate(uses):
        call = OpenCall(first + index, state.turn, index, use, "report" if use.spec is None else "tool")
        request = _request_of(state, prefix, call, cut)
        if isinstance(request, str):
            at = index if state.program is None else answers.size
            answers = answers.put(at, Unheard(refused_block(state, use, request)))
            continue
        if request is None:
            (reports if use.name == prompts.REPORT_BACK else own).append(call)
            continue
        if request.recipient == SUPERVISOR:
            delegates, body = True, request.body
            stage: Stage = "start" if isinstance(body, Delegate) and body.mode == "background" else "task"
            call = OpenCall(call.ticket, call.turn, index, delegated(use), stage)
        elif request.recipient == APPROVALS:
            questions += 1
            call = replace(call, stage="question")
        elif tools >= places:
            call = replace(call, stage="line")
            line = line.put(call.ticket, call)
        else:
            tools += 1
        held = held.put(call.ticket, call)
        if call.stage != "line":
            posts.append(request)
    calls = OpenCalls(
        held, answers, line, tuple(reports), tools, questions, known.given_up, first + len(uses)
    )
    state = replace(state, phase="acting", calls=calls)
    if own:
        state, cancels = open_waits(state, own)
        posts += cancels
    return state, _with_reserve(state, posts) if delegates and state.program is None else posts


def _request_of(state: AgentState, prefix: RequestPrefix, call: OpenCall, cut: int) -> Post | str | None:
    """Return the request of a call, or the error that answers it; None for a report, and for an own call."""
    use = call.use
    if state.program is None:
        most = state.limits.max_tool_calls or 1
        if call.call >= most:
            return prompts.too_many_calls(most)
        if call.call == cut:
            return prompts.TRUNCATED
        if (written := use.unread) is not None:
            return prompts.unread_arguments(written, use.refused)
        if prefix.reports and use.name == prompts.REPORT_BACK:
            # One that is to have its value under one name, and has others, is an error.
            wrong = wrong_names(state.rules, use.name, use.input, REPORT_NAMES) if prefix.wraps_report else ""
            return wrong or None
        if prefix.background and use.name in OWN_CALLS:
            return None
    return request_for(state, prefix, call)


def delegated(use: ToolUse) -> ToolUse:
    """Return a call that delegates without its arguments: its `Delegate` has them."""
    # They would keep the whole reply alive, 0.2 KiB for each of ten thousand agents at work.
    return ToolUse(use.id, prompts.ASK_MODEL if use.name == prompts.ASK_MODEL else prompts.TASK, NULL)


def _with_reserve(state: AgentState, posts: list[Post]) -> list[Post]:
    """Let each delegation of a reply state the need of the next turn, as far as it is known now."""
    delegations = [call for call in state.calls.open.values() if call.stage in ("task", "start")]
    known = sum(len(tool_result(call.use.id, _NO_TEXT, is_error=True)) for call in delegations)
    closing = _closing(state, known)
    return [
        Post(SUPERVISOR, replace(post.body, closing=closing, delegations=len(delegations)))
        if isinstance(post.body, Delegate)
        else post
        for post in posts
    ]


def _closing(state: AgentState, more: int = 0) -> Need:
    """Return the need of the next turn without the results of its tools and delegations.

    more: the bytes around the results of those that delegate.
    """
    known = state.context_tokens + sum(map(len, in_order(state.calls.answers)[0])) + waits_size(state)
    return closing_need(state, known + more)


def request_for(state: AgentState, prefix: RequestPrefix, call: OpenCall) -> Post | str:
    """Return the request that a call becomes, or the error that answers it."""
    use = call.use
    if use.spec is not None:
        if state.permissions and (refusal := call_refusal(state, use)):
            return refusal
        if use.spec.approval in ("before", "always"):
            return question_about(state, call)
        return call_tool(state, call)
    if use.name == prompts.TASK and prefix.profile.agents:
        return delegate_by_task(state, prefix, call.call, use)
    if (callee := prefix.callees.get(use.name)) is not None and callee.is_tool:
        return delegate_by_tool(state, call.call, callee, use.input)
    if use.name == prompts.ASK_MODEL and prefix.profile.is_eager:
        return ask_model(state, prefix.profile, call.call, use)
    return prompts.unknown_tool(use.name, tuple(prefix.specs))


def call_tool(state: AgentState, call: OpenCall) -> Post:
    """Return the request to run one of the agent's tools for this call."""
    use, spec = call.use, _spec_of(call.use)
    cache = None if spec.cache is None else cache_request(state, spec, use)
    body = CallTool(
        turn=call.turn,
        call=call.call,
        tool=use.name,
        effect=spec.effect,
        arguments=use.input,
        id=use.id,
        given=use.given,
        labels=state.labels,
        cache=cache,
    )
    return Post(TOOLS, body)


def _spec_of(use: ToolUse) -> ToolSpec:
    assert use.spec is not None  # only calls of tools are asked about, wait, or run
    return use.spec


def question_about(state: AgentState, call: OpenCall, *, is_repeat: bool = False) -> Post:
    """Return the question to a person about a call."""
    use, spec, limit = call.use, _spec_of(call.use), millis(state.limits.approval_timeout_s)
    own = spec.approval_timeout_ms
    body = RequestApproval(
        turn=call.turn,
        call=call.call,
        tool=use.name,
        effect=spec.effect,
        arguments=use.input,
        is_repeat=is_repeat,
        profile=prefix_of(state).profile.name,
        timeout_ms=min(own or limit, limit or own),
    )
    return Post(APPROVALS, body)


def start_next_tool(state: AgentState) -> Decision:
    """Post the first call in line that is permitted, if a tool has a free place."""
    # Calls wait only while all places are taken, and one answer frees one place: one call is enough.
    places = state.limits.max_parallel_tools or 1
    while (first := state.calls.line.first()) is not None and state.calls.tools < places:
        call = first[1]
        if refusal := call_refusal(state, call.use):
            state = answered(state, call, refused_block(state, call.use, refusal))
            continue
        return replace(state, calls=put(state.calls, replace(call, stage="tool"))), (call_tool(state, call),)
    return state, ()


def refused_block(state: AgentState, use: ToolUse, why: str) -> Json:
    """Return the answer to a call that is not posted."""
    if state.program is None:
        return tool_result(use.id, text_json(why), is_error=True)
    return program_result(use.id, text_json(why), "error", is_error=True)


def answered(state: AgentState, call: OpenCall, block: Json, seq: int = 0) -> AgentState:
    """Take the answer to an open call, and keep it for the next turn. seq: of its event, 0 for none."""
    calls, given = state.calls, Unheard(block, seq)
    known = calls.answers
    answers = known.put(call.call, given) if state.program is None else known.append(given)
    return replace(state, calls=drop(calls, call, answers))


def settled_in(state: AgentState, posts: list[Post], settled: Settled) -> tuple[Post, ...]:
    """Put the settlement into the first post that can carry it, or else into a post of its own."""
    for at, post in enumerate(posts):
        if type(post.body) in _CARRIERS:
            posts[at] = Post(SUPERVISOR, replace(post.body, settled=settled))
            return tuple(posts)
    closing = _closing(state) if state.background.tasks.size else NOTHING
    return (*posts, Post(SUPERVISOR, TurnSettled(settled.usage, settled.text, closing)))


# --- when the last answer is there ------------------------------------------------


def all_answered(state: AgentState, settled: Settled | None = None) -> Decision:
    """Continue after the last result: report, ask for the next turn, or end."""
    if state.needs_effect:
        return finish(state, "needs_effect", settled, state.needs_effect)
    if state.calls.reports:
        return _report(state, settled)
    if not has_turns_left(state):
        return finish_without_turns(state, settled)
    return ask_new_turn(state, settled)


def _report(state: AgentState, settled: Settled | None) -> Decision:
    """Post the reports of a reply."""
    prefix, calls, posts = prefix_of(state), replace(state.calls, reports=()), []
    for call in state.calls.reports:
        value = call.use.input
        if prefix.wraps_report:
            value = unwrapped(value)
        posts.append(
            Post(SUPERVISOR, ReportBack(turn=call.turn, call=call.call, value=value, settled=settled))
        )
        calls = put(calls, call)
        settled = None
    return replace(state, phase="judging", calls=calls), tuple(posts)
