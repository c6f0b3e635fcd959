"""The decider of an agent: ask for turns, run the calls of a reply, report, drain when stopped.

A turn, from the agent's side:

    1  The agent posts `TurnRequested` to the supervisor. The supervisor posts the grant, `CallModel`, to the
       model. The model's answer comes to the agent as `ModelReplied`.
    2  The agent posts the calls of the reply: `CallTool`, `RequestApproval` or `Delegate`.
    3  After the last answer it posts its `ReportBack`s, if the reply has any, else the next `TurnRequested`.
    4  A reply without calls is its answer. The agent posts `Finished`.

Rules
  - An agent never calls a model itself, so that no model call is possible without a grant.
  - The supervisor hears the end of every grant exactly once, in the decision that handles the answer: in a
    field of a message that goes to it anyway, else as `TurnSettled`.
  - The calls of one reply run in parallel, and their results go back in call order. Reports wait until every
    other call of the reply is answered, so that the history is complete when they are judged.
  - A stopped agent starts nothing. It waits for the answers that ports owe it, then posts `Stopped`.
  - A turn that was never granted is taken back at the stop. So no model reads what an ended ask still wanted
    to say, and `TurnRequested.new` of the granted turns names each event once.
  - A table (`phases.AGENT`) lists the messages that have a meaning in each phase. All others change nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from callboard.actors.agent.background import (
    after_silence,
    take_end,
    take_refusal,
    take_start,
    take_told,
    wake_if_due,
)
from callboard.actors.agent.calls import all_answered, results, start_calls, start_next_tool
from callboard.actors.agent.content import BLANKS_SINCE, Said, last_words, read
from callboard.actors.agent.continued_calls import (
    after_answer,
    note_effect,
    question_after,
    with_use,
)
from callboard.actors.agent.eager import books_for
from callboard.actors.agent.empty_answers import (
    ask_again_after_empty,
    finish_empty,
    is_unanswered,
    may_ask_again_after,
)
from callboard.actors.agent.failed_calls import UNUSABLE, take_failure, take_unusable
from callboard.actors.agent.fallback import first_of
from callboard.actors.agent.handed_history import begin_history, with_media
from callboard.actors.agent.input_bound import after_reply, begin_bound
from callboard.actors.agent.labels import labelled, labels_of_result
from callboard.actors.agent.phases import AGENT, PROGRAM
from callboard.actors.agent.program import OF_PROGRAMS, take_step
from callboard.actors.agent.program_step import read_step
from callboard.actors.agent.request_prefix import prefix_for, prompt_of
from callboard.actors.agent.state import AgentState, Answer, has_turns_left, prefix_of, with_model
from callboard.actors.agent.tasks import begun, ordinal_of
from callboard.actors.agent.tool_changes import begin_with, keep_change, set_tools
from callboard.actors.agent.turns import (
    Decision,
    ask_new_turn,
    ask_turn_if_left,
    drain,
    finish,
    finish_invalid,
    take_back,
)
from callboard.actors.protocol import prompts
from callboard.actors.protocol.conversation import message, rolled, text_json, tool_result
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.labels import united
from callboard.actors.protocol.makers import mark, with_reply
from callboard.actors.protocol.messages import (
    AgentInput,
    Begin,
    Delegated,
    DelegationEnded,
    ReportJudged,
    Stop,
    Told,
    ToolsGiven,
)
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    ModelReplied,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.usage import priced
from callboard.actors.protocol.value_types import Settled


def decide_agent(state: AgentState, seq: int, body: AgentInput) -> Decision:
    """Decide on one message: return the agent's next state and its posts. seq: of the message's event."""
    rows = _IN_PHASE if state.eager is None else _IN_PHASE_OF_PROGRAMS
    handle = rows[state.phase].get(type(body))
    return (state, ()) if handle is None else handle(state, seq, body)


def _on_begin(state: AgentState, seq: int, begin: Begin) -> Decision:
    prefix, carry = prefix_for(begin), state.carry
    model, fallback = first_of(begin.model)
    before = state
    state = with_model(state, model)
    if fallback is not state.fallback:
        state = replace(state, fallback=fallback)
    if begin.history:
        state, carry = begin_history(state, begin, prefix)
    state = begin_with(state, prefix)
    state = begin_bound(before, state)
    if begin.history:
        state = with_media(state)
    state = replace(
        state,
        limits=begin.limits,
        turns_used=0,
        is_told_to_report=False,
        is_forced=False,
        report_attempts=0,
        report_problems=(),
        text="",
        has_spoken=False,
        is_accepted=False,
        carry=(),
        eager=books_for(begin, prefix.profile),
        background=begun(state.background),
        permissions=begin.permissions,
        labels=united(state.labels, begin.labels),
        rules=begin.rules,
    )
    return ask_new_turn(state, None, carry, prompt=prompt_of(begin), begun=(seq,))


# --- the model's answer -----------------------------------------------------------


def _on_reply(state: AgentState, seq: int, reply: ModelReplied) -> Decision:
    if reply.turn != state.turn or reply.attempt != state.attempt:
        return state, ()
    usage = reply.usage and priced(reply.usage, state.model.prices)
    if state.phase != "thinking":
        return _on_owed(state, Settled(usage))
    said = read(reply.content, prefix_of(state).specs) if reply.status == "ok" else None
    settled = Settled(usage, said.text if said else "")
    if said is None:
        return take_failure(state, reply, settled)
    if reply.stop_reason in UNUSABLE:
        return take_unusable(state, reply.stop_reason, said, settled)
    if state.eager is not None:
        step = read_step(reply.content)
        if step is None:
            return take_failure(state, reply, settled)
        return take_step(_remember(state, seq, reply, said), step, said.uses, settled)
    if said.is_empty and may_ask_again_after(state, reply):
        return ask_again_after_empty(state, settled)
    return _on_said(_remember(state, seq, reply, said), said, reply.stop_reason, settled)


def _on_owed(state: AgentState, settled: Settled) -> Decision:
    """Take the answer of an agent that stops or has failed: only the end of its grant counts."""
    if not state.is_model_out:
        return state, ()
    state = replace(state, is_model_out=False, owed=settled)
    return drain(state) if state.phase == "stopping" else (state, ())


def _remember(state: AgentState, seq: int, reply: ModelReplied, said: Said) -> AgentState:
    """Append the reply to the conversation."""
    bound, books = after_reply(state, reply)
    history, origins, digest, origin = state.history, state.origins, state.digest, reply.origin
    if not said.is_blank:  # services refuse a blank message in a conversation
        said_so = message("assistant", reply.content)
        origins = with_reply(origins, history.size, origin or state.model.made_by)
        history = history.append(said_so)
        digest = rolled(digest, said_so) if origin is None else rolled(digest, said_so, mark(origin))
    return replace(
        state,
        history=history,
        digest=digest,
        context_tokens=bound,
        fresh=() if said.is_blank else (seq,),
        text=last_words(state.text, said, state.rules),
        has_spoken=state.has_spoken or not said.is_empty,
        is_forced=False,
        origins=origins,
        fallback=books,
    )


def _on_said(state: AgentState, said: Said, stop_reason: str, settled: Settled) -> Decision:
    if said.uses:
        return start_calls(state, said.uses, stop_reason == "max_tokens", settled)
    state = replace(state, uses=(), refused=())
    if stop_reason == "pause_turn":
        return ask_turn_if_left(state, settled)
    return _on_silence(state, said, stop_reason, settled)


def _on_silence(state: AgentState, said: Said, stop_reason: str, settled: Settled) -> Decision:
    """Handle a reply without calls: it is the agent's answer, unless the agent owes a report."""
    if (waits := after_silence(state, settled)) is not None:
        return waits
    detail = "its answer was cut at max_tokens" if stop_reason == "max_tokens" else ""
    if not prefix_of(state).reports:
        if is_unanswered(state):
            return finish_empty(state, settled, detail)
        has_words = bool(said.text) if state.rules < BLANKS_SINCE else bool(state.text.strip())
        if not has_words:
            state = replace(state, text=prompts.NO_SUMMARY)
        return finish(state, "answered", settled, detail)
    if state.is_told_to_report or not has_turns_left(state):
        return finish(state, "no_report", settled, detail)
    state = replace(state, is_told_to_report=True, is_forced=True)
    return ask_new_turn(state, settled, prompt=text_json(prompts.REPORT_NOW))


# --- results ----------------------------------------------------------------------


def _is_open(state: AgentState, turn: int, call: int) -> bool:
    """Return True if this turn is the current one and has this call, without an answer."""
    if turn != state.turn or not 0 <= call < len(state.uses):
        return False
    return not state.answers.size or state.answers.get(call) is None


def _answered(
    state: AgentState, seq: int, call: int, output: Json, is_error: bool, tools: int = 0
) -> AgentState:
    """Record the answer to a call. tools: 1 if a tool gave it, else 0."""
    block = tool_result(state.uses[call].id, output, is_error)
    return replace(
        state,
        answers=state.answers.put(call, Answer(block, seq)),
        unanswered=state.unanswered - 1,
        tools_out=state.tools_out - tools,
    )


def _on_tool(state: AgentState, seq: int, returned: ToolReturned) -> Decision:
    call, questions, waiting = returned.call, state.questions, state.waiting
    if not _is_open(state, returned.turn, call):
        return state, ()
    if (questions.size and questions.get(call)) or (waiting.size and waiting.get(call)):
        return state, ()
    labels = labels_of_result(state.uses[call], returned)
    if labels:
        state = labelled(state, labels)
    if returned.status != "ok":
        return _on_unusual(state, seq, returned)
    if returned.tools is None or state.phase != "acting":
        return _from_port(state, seq, call, returned.output, is_error=False, tools=1)
    state, told = set_tools(state, returned.tools)
    state, posts = _from_port(state, seq, call, returned.output, is_error=False, tools=1)
    return state, told + posts


def _on_unusual(state: AgentState, seq: int, returned: ToolReturned) -> Decision:
    """Handle the answer of a tool that has no result: a person may be asked, and the call goes on then."""
    call = returned.call
    asked = question_after(state, returned, state.uses[call]) if state.phase == "acting" else None
    if asked is None:
        state = note_effect(state, returned, state.uses[call].name)
        return _from_port(state, seq, call, returned.output, is_error=True, tools=1)
    use, question = asked
    state = replace(with_use(state, call, use), questions=state.questions.put(call, True))
    state, posts = start_next_tool(replace(state, tools_out=state.tools_out - 1))
    return state, (question, *posts)


def _on_tools_given(state: AgentState, seq: int, given: ToolsGiven) -> Decision:
    return keep_change(state, seq, given.tools), ()


def _on_approval(state: AgentState, seq: int, given: ApprovalGiven) -> Decision:
    """Handle a person's decision on a call: it goes on, or its refusal is its result."""
    call = given.call
    if given.turn != state.turn or not state.questions.get(call):
        return state, ()
    state = labelled(replace(state, questions=state.questions.drop(call)), given.labels)
    use = after_answer(state.uses[call], given) if state.phase == "acting" else None
    if use is None:
        return _from_port(state, seq, call, text_json(prompts.not_approved(given)), is_error=True)
    if given.arguments != NULL:  # the model's own words stay in the conversation
        state = replace(state, changed=state.changed.put(call, True))
    return start_next_tool(replace(with_use(state, call, use), waiting=state.waiting.put(call, True)))


def _from_port(
    state: AgentState, seq: int, call: int, output: Json, is_error: bool, tools: int = 0
) -> Decision:
    """Record the result of a call that a port has dealt with, and go on."""
    if state.uses[call].declined:
        output = prompts.with_words_before(output, state.uses[call].declined)
    if state.changed.size and state.changed.get(call):
        output = prompts.with_changed_arguments(output, state.uses[call].input)
    state = _answered(state, seq, call, output, is_error, tools)
    if state.phase == "stopping":
        return drain(state)
    return _go_on(state)


def _go_on(state: AgentState) -> Decision:
    """Start the next tool in line after a result, or go on after the last. A failed agent does neither."""
    if state.phase != "acting":
        return state, ()
    return start_next_tool(state)


def _on_delegation(state: AgentState, seq: int, end: DelegationEnded) -> Decision:
    if not _is_open(state, end.turn, end.call):
        return _after_word(take_end(state, seq, end))
    text, is_error = prompts.delegation_result(end)
    state = _answered(labelled(state, end.labels), seq, end.call, text_json(text), is_error)
    return _go_on(take_refusal(state, end.call))


def _on_delegated(state: AgentState, seq: int, start: Delegated) -> Decision:
    is_child = ordinal_of(state.address, start.address) >= 0
    if not is_child or not _is_open(state, start.turn, start.call):
        return state, ()
    return _go_on(take_start(state, seq, start))


def _on_told(state: AgentState, seq: int, told: Told) -> Decision:
    return _after_word(take_told(state, seq, told))


def _after_word(state: AgentState) -> Decision:
    """Go on after words: they may wake a parked agent, or have answered the last open call."""
    return wake_if_due(state) if state.phase == "parked" else _go_on(state)


def _on_judged(state: AgentState, seq: int, judged: ReportJudged) -> Decision:
    if not _is_open(state, judged.turn, judged.call):
        return state, ()
    text, is_error = prompts.judged_result(judged)
    state = _answered(state, seq, judged.call, text_json(text), is_error)
    state = replace(
        state,
        is_accepted=state.is_accepted or judged.verdict == "accepted",
        report_attempts=state.report_attempts + (judged.verdict == "invalid"),
        report_problems=judged.problems or state.report_problems,
    )
    if state.phase != "judging" or state.unanswered:
        return state, ()
    blocks, seqs = results(state)
    ended = replace(state, carry=blocks, fresh=state.fresh + seqs)
    if state.is_accepted:
        return finish(ended, "reported")
    if state.report_attempts >= (state.limits.max_report_attempts or 1):
        return finish_invalid(ended)
    return all_answered(replace(state, reports=()))


# --- the end ----------------------------------------------------------------------


def _on_stop(state: AgentState, seq: int, stop: Stop) -> Decision:
    may_be_out = state.phase == "thinking" or state.is_model_out
    is_model_out = may_be_out and stop.granted == (state.turn, state.attempt)
    if may_be_out and state.attempt == 1 and not is_model_out:
        state = take_back(state)
    return drain(replace(state, phase="stopping", is_model_out=is_model_out))


HANDLERS: Final[Mapping[type, Callable[[AgentState, int, Any], Decision]]] = {
    Begin: _on_begin,
    Stop: _on_stop,
    ModelReplied: _on_reply,
    ToolStarted: lambda state, seq, started: (state, ()),
    ToolReturned: _on_tool,
    ApprovalGiven: _on_approval,
    Told: _on_told,
    Delegated: _on_delegated,
    DelegationEnded: _on_delegation,
    ReportJudged: _on_judged,
    ToolsGiven: _on_tools_given,
}
"""The handling of each kind of message to an agent whose turns wait for all calls."""

_IN_PHASE: Final = {phase: {kind: HANDLERS[kind] for kind in row} for phase, row in AGENT.items()}
"""Phase -> message -> the handling of a message that has a meaning in that phase."""

_IN_PHASE_OF_PROGRAMS: Final = {
    phase: {kind: OF_PROGRAMS.get(kind) or HANDLERS[kind] for kind in row} for phase, row in PROGRAM.items()
}
"""The same for an agent with eager turns."""
