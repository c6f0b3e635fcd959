"""The answers to an agent's calls: one set of handlers for all kinds of calls and agents.

Each answer takes its call out of the open calls and becomes a block for the model. Then the next tool in line
starts, and the agent asks for its next turn if that is due:

    turns="all"   no call is open any more
    turns="any"   there is an answer (a program)

Rules
  - An answer to a call that is not open, or is at another stage, changes nothing.
  - An answer may lead to a question to a person, and the call goes on then (`continued_calls`).
  - A model reads the arguments that a person gave its call before its result; a program has them beside it.
  - The answer to a call that a program has given up is not delivered, and its labels count for no agent.
  - A stopped agent delivers the answers that it waits for to the next ask, and a failed one counts them.
"""

from typing import Final

from msgspec.structs import replace

from callboard.actors.agent.background import take_end, take_refusal, take_start, take_told, wake_if_due
from callboard.actors.agent.calls import all_answered, answered, start_next_tool
from callboard.actors.agent.continued_calls import after_answer, note_effect, question_after
from callboard.actors.agent.open_calls import OpenCall, drop, find, put
from callboard.actors.agent.program import conclude, next_step, take_judgement, wind_up
from callboard.actors.agent.program_state import End
from callboard.actors.agent.rights import labelled, labels_of_result
from callboard.actors.agent.state import AgentState
from callboard.actors.agent.tasks import ordinal_of
from callboard.actors.agent.tool_changes import set_tools
from callboard.actors.agent.turns import Decision, drain, finish, finish_invalid
from callboard.actors.agent.whole_requests import request_at, with_reply
from callboard.actors.protocol import prompts
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.conversation import program_result, text_json, tool_result
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import Delegated, DelegationEnded, ReportJudged, Told
from callboard.actors.protocol.port_messages import ApprovalGiven, ToolReturned


def on_tool(state: AgentState, seq: int, returned: ToolReturned) -> Decision:
    """Take the answer of a tool, which may lead to a question to a person."""
    call = find(state.calls, returned.turn, returned.call)
    if call is None or call.stage != "tool":
        return state, ()
    status, labels = returned.status, labels_of_result(call.use, returned)
    if labels and _is_heard(state, call):
        state = labelled(state, labels)
    if status == "ok":
        block = _block_of(state, call, returned.output, "ok")
        if returned.tools is None or not _is_wanted(state, call):
            return _deliver(state, call, block, seq)
        state, posts = set_tools(state, returned.tools)
        state, more = _deliver(state, call, block, seq)
        return state, posts + more
    asked = question_after(state, call, returned) if _is_wanted(state, call) else None
    if asked is not None:
        state, posts = _go_on(replace(state, calls=put(state.calls, asked[0])))
        return state, (asked[1], *posts)
    state = note_effect(state, returned, call.use.name)
    block = _block_of(state, call, returned.output, "error" if status == "input_required" else status)
    return _deliver(state, call, block, seq)


def on_approval(state: AgentState, seq: int, given: ApprovalGiven) -> Decision:
    """Handle a person's decision on a call: it goes on, or its refusal is its result."""
    call = find(state.calls, given.turn, given.call)
    if call is None or call.stage != "question":
        return state, ()
    if _is_heard(state, call):
        state = labelled(state, given.labels)
    use = after_answer(call.use, given) if _is_wanted(state, call) else None
    if use is not None:
        is_changed = call.is_changed or given.arguments != NULL  # the model's own words stay as they are
        call = replace(call, use=use, stage="line", is_changed=is_changed)
        return _go_on(replace(state, calls=put(state.calls, call)))
    status = "denied" if given.verdict == "denied" else "cancelled"
    status = "interrupted" if given.is_repeat else status  # the effect of the first run stays unknown
    return _deliver(state, call, _block_of(state, call, text_json(prompts.not_approved(given)), status), seq)


def on_delegation(state: AgentState, seq: int, ended: DelegationEnded) -> Decision:
    """Take the end of a delegation: the answer to its call, or words about a task in the background."""
    call = find(state.calls, ended.turn, ended.call)
    if call is None or call.stage not in ("task", "start"):
        return _after_word(take_end(state, seq, ended))
    if ended.labels and _is_heard(state, call):
        state = labelled(state, ended.labels)
    if state.program is not None and state.program.requests and _is_heard(state, call):
        requests = with_reply(state.program.requests, ended)
        state = replace(state, program=replace(state.program, requests=requests))
    program = state.program if ended.latch and _is_wanted(state, call) else None
    if program is None:
        return _deliver(state, call, _block_of_end(state, call, ended), seq)
    coming = End("budget", ended.latch)
    state = answered(state, call, _block_of_end(state, call, ended, coming.kind), seq)
    return wind_up(replace(state, program=replace(program, latch=coming)), (), [])


def on_delegated(state: AgentState, seq: int, start: Delegated) -> Decision:
    """Take the start of a task in the background, which answers its call."""
    call = find(state.calls, start.turn, start.call)
    if call is None or call.stage != "start" or ordinal_of(state.address, start.address) < 0:
        return state, ()
    return _go_on(take_start(state, call, seq, start))


def on_told(state: AgentState, seq: int, told: Told) -> Decision:
    """Take a client's words."""
    return _after_word(take_told(state, seq, told))


def on_judged(state: AgentState, seq: int, judged: ReportJudged) -> Decision:
    """Take the judgement of a report. After the last one the agent ends, or goes on."""
    if state.program is not None:
        return take_judgement(state, judged)
    call = find(state.calls, judged.turn, judged.call)
    if call is None or call.stage != "report":
        return state, ()
    text, is_error = prompts.judged_result(judged)
    state = answered(state, call, tool_result(call.use.id, text_json(text), is_error), seq)
    state = replace(
        state,
        is_accepted=state.is_accepted or judged.verdict == "accepted",
        report_attempts=state.report_attempts + (judged.verdict == "invalid"),
        report_problems=judged.problems or state.report_problems,
    )
    if state.phase != "judging" or state.calls.open.size:
        return state, ()
    if state.is_accepted:
        return finish(state, "reported")
    if state.report_attempts >= (state.limits.max_report_attempts or 1):
        return finish_invalid(state)
    return all_answered(state)


CHANGES_TOLD_SINCE: Final = 2
"""The first rules by which a program reads the arguments that a person gave its call."""

# --- one answer ---------------------------------------------------------------------


def _is_wanted(state: AgentState, call: OpenCall) -> bool:
    """Return True if a call may go on: its agent runs and has not given it up."""
    return state.phase in ("thinking", "acting") and not call.is_given_up


def _is_heard(state: AgentState, call: OpenCall) -> bool:
    """Return True if the answer to a call is delivered. A conversation that goes on has one for each call."""
    return state.program is None or _is_wanted(state, call)


def _block_of(state: AgentState, call: OpenCall, output: Json, status: str) -> Json:
    """Return the block for an answer of a tool or of a person."""
    if state.program is not None:
        changed = call.use.input if call.is_changed and state.rules >= CHANGES_TOLD_SINCE else NULL
        return program_result(call.use.id, output, status, is_error=status != "ok", changed=changed)
    if call.use.declined:
        output = prompts.with_words_before(output, call.use.declined)
    if call.is_changed:
        output = prompts.with_words_before(output, prompts.changed_arguments(call.use.input))
    return tool_result(call.use.id, output, is_error=status != "ok")


def _block_of_end(state: AgentState, call: OpenCall, ended: DelegationEnded, ends: str = "") -> Json:
    """Return the block for the end of a delegation. ends: the end of the program that latches with it."""
    words, is_error = prompts.delegation_result(ended)
    if state.program is None:
        return tool_result(call.use.id, text_json(words), is_error)
    return program_result(
        call.use.id,
        text_json(words),
        ended.kind if is_error else "ok",
        is_error=is_error,
        value=ended.value,
        text=ended.text if STATUS[ended.kind] != "ok" else "",
        ends=ends,
        reply=_reply_of(state, call, ended),
    )


def _reply_of(state: AgentState, call: OpenCall, ended: DelegationEnded) -> Json:
    """Return the stop reason and the usage of a reply to a whole request; null for any other end."""
    assert state.program is not None
    if ended.kind != "answered" or request_at(state.program.requests, call.turn, call.call) is None:
        return NULL
    return Json(encode({"stop_reason": ended.detail, "usage": ended.usage}))


def _deliver(state: AgentState, call: OpenCall, block: Json, seq: int) -> Decision:
    """Keep the answer to a call for the next turn, if it is heard, and go on."""
    if _is_heard(state, call):
        state = answered(state, call, block, seq)
    else:
        state = replace(state, calls=drop(state.calls, call))
    if call.stage == "start":  # it has started no task
        state = take_refusal(state)
    return drain(state) if state.phase == "stopping" else _go_on(state)


def _after_word(state: AgentState) -> Decision:
    """Go on after words: they may wake a parked agent, or have answered the last open call."""
    return wake_if_due(state) if state.phase == "parked" else _go_on(state)


def _go_on(state: AgentState) -> Decision:
    """Start the next tool in line, and ask for the next turn if it is due."""
    if state.phase not in ("thinking", "acting"):
        return state, ()
    program = state.program
    if program is not None and program.end is not None:
        return (state, ()) if state.calls.open.size else conclude(state, program.end)
    posts: tuple[Post, ...] = ()
    if state.calls.line.size:
        state, posts = start_next_tool(state)
    is_due = not state.calls.open.size if program is None else state.calls.answers.size > 0
    if state.phase != "acting" or not is_due:
        return state, posts
    state, asked = all_answered(state) if program is None else next_step(state)
    return state, (*posts, *asked) if posts else asked
