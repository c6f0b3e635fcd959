"""The decider of an agent: ask for turns, run the calls of a reply, report, drain when stopped.

A turn, from the agent's side:

    1  The agent posts `TurnRequested` to the supervisor. The supervisor posts the grant, `CallModel`, to the
       model. The model's answer comes to the agent as `ModelReplied`. The step of a program needs no grant:
       the agent posts `RunStep` to the model itself. The first turn of a question may be granted with its
       `Begin`: the agent posts the `CallModel` itself.
    2  The agent posts the calls of the reply: `CallTool`, `RequestApproval` or `Delegate`.
    3  After the last answer it posts its `ReportBack`s, if the reply has any, else the next `TurnRequested`.
    4  A reply without calls is its answer. The agent posts `Finished`.

Rules
  - An agent calls a model itself only if its `Begin` has granted that call, so that no model call is
    possible without a grant. A step of a program is no model call.
  - The supervisor hears the end of every grant exactly once, in the decision that handles the answer: in a
    field of a message that goes to it anyway, else as `TurnSettled`. The step of a program reserves nothing
    and needs no end (`program.py`).
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

from callboard.actors.agent.answers import (
    on_approval,
    on_delegated,
    on_delegation,
    on_judged,
    on_told,
    on_tool,
)
from callboard.actors.agent.asked_requests import answers_whole, ask_whole, finish_whole, model_of
from callboard.actors.agent.background import after_silence
from callboard.actors.agent.calls import start_calls
from callboard.actors.agent.compacting import begun as begun_compaction
from callboard.actors.agent.compacting import given_up
from callboard.actors.agent.content import BLANKS_SINCE, Said, is_paused, last_words, read
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
from callboard.actors.agent.open_calls import without_answers
from callboard.actors.agent.phases import AGENT
from callboard.actors.agent.program import on_woken, take_step
from callboard.actors.agent.program_state import program_of
from callboard.actors.agent.program_step import read_step
from callboard.actors.agent.request_prefix import prefix_for, prompt_of
from callboard.actors.agent.shortening import with_count
from callboard.actors.agent.state import AgentState, has_turns_left, initial_agent, prefix_of, with_model
from callboard.actors.agent.summaries import after_full, on_compacted, on_refused, take_summary
from callboard.actors.agent.tasks import begun
from callboard.actors.agent.tool_changes import begin_with, keep_change
from callboard.actors.agent.turns import Decision, ask_new_turn, ask_turn_if_left, drain, finish, take_back
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import MODEL
from callboard.actors.protocol.compaction_messages import Compacted, SummaryRefused
from callboard.actors.protocol.conversation import message, rolled, text_json
from callboard.actors.protocol.events import Post
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
    TurnRequested,
    Woken,
)
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallModel,
    ModelReplied,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.usage import priced
from callboard.actors.protocol.value_types import FirstTurn, Settled


def decide_agent(state: AgentState, seq: int, body: AgentInput) -> Decision:
    """Decide on one message: return the agent's next state and its posts. seq: of the message's event."""
    handle = _IN_PHASE[state.phase].get(type(body))
    return (state, ()) if handle is None else handle(state, seq, body)


def _on_begin(state: AgentState, seq: int, begin: Begin) -> Decision:
    prefix = prefix_for(begin)
    model, fallback = first_of(model_of(begin))
    before = state
    state = with_model(state, model)
    if fallback is not state.fallback:
        state = replace(state, fallback=fallback)
    if begin.history:
        state = begin_history(state, begin, prefix)
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
        program=program_of(begin, prefix.profile),
        background=begun(state.background),
        permissions=begin.permissions,
        labels=united(state.labels, begin.labels),
        rules=begin.rules,
    )
    if prefix.profile.compact is not None or state.compaction is not None:
        state = replace(state, compaction=begun_compaction(state))
    if begin.asked is not None:
        state, posts = ask_whole(state, seq, begin.asked)
    else:
        state, posts = ask_new_turn(state, prompt=prompt_of(begin), begun=(seq,))
    return (state, posts) if begin.granted is None else (state, _as_granted(state, seq, posts))


def _as_granted(state: AgentState, begun: int, posts: tuple[Post, ...]) -> tuple[Post, ...]:
    """Return the call of the model that a `Begin` has granted, in place of the request for that turn."""
    (asked,) = posts
    assert isinstance(asked.body, TurnRequested)
    first = FirstTurn(asked.body.need, asked.body.digest)
    return (Post(MODEL, CallModel(state.address, begun, first)),)


def first_turn_of(address: str, begin: Begin) -> FirstTurn | None:
    """Return the turn that a new agent requests when it begins so.

    None if it requests none, or one that `FirstTurn` does not state whole.
    """
    try:
        _, posts = decide_agent(initial_agent(address), 0, begin)
    except Exception:  # the agent's own decision raises too, and ends that agent alone
        return None
    wish = posts[0].body if len(posts) == 1 else None
    if not isinstance(wish, TurnRequested):
        return None
    whole = TurnRequested(turn=1, need=wish.need, digest=wish.digest, new=wish.new)
    return FirstTurn(wish.need, wish.digest) if wish == whole else None


# --- the model's answer -----------------------------------------------------------


def _on_reply(state: AgentState, seq: int, reply: ModelReplied) -> Decision:
    if reply.turn != state.turn or reply.attempt != state.attempt:
        return state, ()
    usage = reply.usage and priced(reply.usage, state.model.prices)
    if state.phase != "thinking":
        return _on_owed(state, Settled(usage))
    if (compaction := state.compaction) is not None and compaction.saved is not None:
        return take_summary(state, seq, reply)
    said = read(reply.content, prefix_of(state).specs) if reply.status == "ok" else None
    settled = Settled(usage, said.text if said else "")
    if (shortened := after_full(state, reply, settled)) is not None:
        return shortened
    if said is None:
        return take_failure(state, reply, settled)
    if reply.stop_reason in UNUSABLE:
        return take_unusable(state, reply.stop_reason, said, settled)
    if state.program is not None:
        step = read_step(reply.content)
        if step is None:
            return take_failure(state, reply, settled)
        return take_step(_remember(state, seq, reply, said), step, said.uses, settled)
    if answers_whole(state):
        return finish_whole(_remember(state, seq, reply, said), reply, settled)
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
    if state.compaction is not None:
        state = replace(state, compaction=with_count(state, reply, is_kept=not said.is_blank))
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
    if is_paused(stop_reason, state.rules):
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


# --- the end ----------------------------------------------------------------------


def _on_stop(state: AgentState, seq: int, stop: Stop) -> Decision:
    may_be_out = state.phase == "thinking" or state.is_model_out
    if state.program is not None and state.phase != "stopping":  # its conversation does not go on
        state = replace(state, calls=without_answers(state.calls))
    is_direct = state.program is not None and state.program.is_direct
    is_granted = is_direct or stop.granted == (state.turn, state.attempt)
    is_model_out = may_be_out and is_granted
    if state.compaction is not None and state.compaction.pending is not None:
        return drain(replace(given_up(state), phase="stopping", is_model_out=is_model_out))
    if may_be_out and state.attempt == 1 and not is_model_out:
        state = take_back(state)
    return drain(replace(state, phase="stopping", is_model_out=is_model_out))


HANDLERS: Final[Mapping[type, Callable[[AgentState, int, Any], Decision]]] = {
    Begin: _on_begin,
    Stop: _on_stop,
    ModelReplied: _on_reply,
    ToolStarted: lambda state, seq, started: (state, ()),
    ToolReturned: on_tool,
    ApprovalGiven: on_approval,
    Told: on_told,
    Delegated: on_delegated,
    DelegationEnded: on_delegation,
    ReportJudged: on_judged,
    ToolsGiven: lambda state, seq, given: (keep_change(state, seq, given.tools), ()),
    Woken: on_woken,
    Compacted: on_compacted,
    SummaryRefused: on_refused,
}
"""The handling of each kind of message to an agent."""

_IN_PHASE: Final = {phase: {kind: HANDLERS[kind] for kind in row} for phase, row in AGENT.items()}
"""Phase -> message -> the handling of a message that has a meaning in that phase."""
