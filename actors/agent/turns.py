"""An agent's turns and its end: ask for a turn, finish, drain."""

from typing import TypeAlias

from msgspec.structs import replace

from callboard.actors.agent.state import NO_ANSWERS, NO_CALLS, AgentState, has_turns_left, need_of, refusals
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.conversation import text_json, tool_result
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import Finished, Stopped, TurnRequested
from callboard.actors.protocol.value_types import Settled

Decision: TypeAlias = tuple[AgentState, tuple[Post, ...]]
"""The next state, and the posts in order."""


def ask_turn(state: AgentState, settled: Settled | None = None) -> Decision:
    """Ask the supervisor for the next turn."""
    turn = state.turn + 1
    request = TurnRequested(turn, 1, need_of(state), state.digest, state.fresh, settled=settled)
    state = replace(
        state,
        phase="thinking",
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
    state: AgentState, kind: OutcomeKind, settled: Settled | None = None, detail: str = ""
) -> Decision:
    """End an agent that has nothing outstanding."""
    if settled is not None:
        settled = replace(settled, text="")
    finished = Finished(kind, state.text, detail, settled)
    return _at_rest(state), (Post(SUPERVISOR, finished),)


def finish_without_turns(state: AgentState, settled: Settled | None = None) -> Decision:
    """End an agent without another turn whose last reply was not meant as its last."""
    return finish(state, "invalid_report" if state.report_attempts else "iteration_cap", settled)


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
