"""An agent's turns and its end: ask for a turn, finish, drain."""

from typing import TypeAlias

from msgspec.structs import replace

from callboard.actors.agent.state import NO_ANSWERS, NO_CALLS, AgentState, has_turns_left, refusals
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.conversation import rolled, text_json, tool_result
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import Finished, Stopped, TurnRequested
from callboard.actors.protocol.usage import NOTHING, bound
from callboard.actors.protocol.value_types import Settled

Decision: TypeAlias = tuple[AgentState, tuple[Post, ...]]
"""The next state, and the posts in order."""


def ask_turn(
    state: AgentState,
    settled: Settled | None = None,
    said: Json | None = None,
    tokens: int = 0,
    seqs: tuple[int, ...] = (),
) -> Decision:
    """Append a message to the conversation, if there is one, and ask the supervisor for the next turn.

    said: the message. tokens: its bound. seqs: of the events that brought it.
    """
    turn, history, digest, tokens = state.turn + 1, state.history, state.digest, state.context_tokens + tokens
    if said is not None:
        history, digest = history.append(said), rolled(digest, said)
    model = state.model
    need = NOTHING if model.is_program else bound(tokens, model.max_tokens, model.prices)
    request = TurnRequested(turn, 1, need, digest, state.fresh + seqs, settled=settled)
    # One copy of the state for the message and the request.
    state = replace(
        state,
        phase="thinking",
        history=history,
        digest=digest,
        context_tokens=tokens,
        turn=turn,
        attempt=1,
        cut_attempts=0,
        turns_used=state.turns_used + 1,
        fresh=(),
        uses=(),
        refused=(),
        answers=NO_ANSWERS,
        unanswered=0,
        reports=(),
    )
    return state, (Post(SUPERVISOR, request),)


def finish(
    state: AgentState,
    kind: OutcomeKind,
    settled: Settled | None = None,
    detail: str = "",
    value: Json = NULL,
) -> Decision:
    """End an agent that has nothing outstanding. value: of a program that returned one, null otherwise."""
    if settled is not None:
        settled = replace(settled, text="")
    finished = Finished(kind, state.text, detail, settled, value)
    return _at_rest(state), (Post(SUPERVISOR, finished),)


def finish_without_turns(state: AgentState, settled: Settled | None = None) -> Decision:
    """End an agent without another turn whose last reply was not meant as its last."""
    if not state.report_attempts:
        return finish(state, "iteration_cap", settled)
    return finish_invalid(state, settled)


def finish_invalid(state: AgentState, settled: Settled | None = None) -> Decision:
    """End an agent that gave no valid report. The detail has the problems of its last one."""
    return finish(state, "invalid_report", settled, prompts.last_problems(state.report_problems))


def ask_turn_if_left(state: AgentState, settled: Settled | None = None) -> Decision:
    """Ask for the next turn if one is left, else end."""
    return ask_turn(state, settled) if has_turns_left(state) else finish_without_turns(state, settled)


def drain(state: AgentState) -> Decision:
    """Post `Stopped`, with the end of the last grant, once no port owes an answer; until then, nothing."""
    if state.tools_out or state.questions.size or state.is_model_out:
        return state, ()
    seqs = tuple(answer.seq for answer in state.answers.values() if answer.seq)
    stopped = Stopped(state.owed)
    state = replace(state, carry=state.carry + _given_up(state), fresh=state.fresh + seqs)
    return _at_rest(state), (Post(SUPERVISOR, stopped),)


def _at_rest(state: AgentState) -> AgentState:
    return replace(
        state,
        phase="idle",
        uses=(),
        refused=(),
        answers=NO_ANSWERS,
        unanswered=0,
        waiting=NO_CALLS,
        reports=(),
        owed=None,
        eager=None,
    )


def _given_up(state: AgentState) -> tuple[Json, ...]:
    """Return a result for every call of the last reply."""
    # The next ask continues this conversation, and services refuse one in which a call has no result.
    blocks = []
    for call, use in enumerate(state.uses):
        answer = state.answers.get(call)
        blocks.append(
            answer.block if answer else tool_result(use.id, text_json(prompts.CANCELLED), is_error=True)
        )
    return (*blocks, *refusals(state))
