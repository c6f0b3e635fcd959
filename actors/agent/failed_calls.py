"""Model calls without an answer: ask again, ask another model, or end the agent.

A request that its service refuses, with replies in it, raises the agent's repair level for the rest of its
life. The first such refusal of a turn is followed by an attempt at that level. A second one ends the agent as
any final failure does, and its next ask begins at the level after.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from callboard.actors.agent.content import Said, last_words
from callboard.actors.agent.fallback import NOT_AGAIN, after_failure
from callboard.actors.agent.input_bound import at_bytes
from callboard.actors.agent.program import end
from callboard.actors.agent.retry import backoff_ms, end_of, final_if_again, spread_ms, wait_ms
from callboard.actors.agent.state import AgentState, need_of, with_model, with_next_repair
from callboard.actors.agent.turns import Decision, post_request
from callboard.actors.protocol.conversation import rolled
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.failures import FailureKind, is_refused_request, kind_of
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import CUT_OFF, ModelReplied
from callboard.actors.protocol.repair_levels import START
from callboard.actors.protocol.value_types import ModelFailure, Settled

REPAIRS_SINCE: Final = 2
"""The rules since which an agent raises its repair level."""

_GARBAGE: Final = ModelFailure("garbage", "the answer's content cannot be read", is_retryable=True)
_CUT_OFF: Final = ModelFailure("cut_off", "the end of a process has cut the call off", is_retryable=True)
_CANCELLED: Final = ModelFailure("cancelled", "the model call was cancelled")
_UNEXPLAINED: Final = ModelFailure("unknown", "the model port gave no reason")

UNUSABLE: Final[Mapping[str, tuple[OutcomeKind, FailureKind]]] = MappingProxyType(
    {
        "refusal": ("model_refused", "refusal"),
        "model_context_window_exceeded": ("context_full", "context_full"),
    }
)
"""The end of an agent whose reply stopped for such a reason, and the kind of failure that the reply is."""


def take_failure(state: AgentState, reply: ModelReplied, settled: Settled) -> Decision:
    """Ask again after a call without an answer, at once or after a wait, or end the agent."""
    state, again, failure = again_after(state, reply, settled)
    if again is not None:
        return again
    kind, detail = end_of(failure)
    return end(state, kind, settled, detail)


def again_after(
    state: AgentState, reply: ModelReplied, settled: Settled
) -> tuple[AgentState, Decision | None, ModelFailure]:
    """Return the next attempt after a call without an answer, or None, and the failure."""
    if reply.status in CUT_OFF:  # which is no reason to wait for the model, nor an attempt of it
        return state, ask_again(replace(state, cut_attempts=state.cut_attempts + 1), settled, 0), _CUT_OFF
    failure = _failure_of(state, reply)
    failure = final_if_again(failure, state.unreadable, attempts_made(state))
    if failure.digest != state.unreadable:
        state = replace(state, unreadable=failure.digest)
    if may_be_repaired(state, failure):
        is_first, state = state.raised != state.turn, with_next_repair(state)
        if is_first and attempts_made(state) < (state.limits.max_model_attempts or 1):
            return state, ask_again(state, settled, 0), failure
    again = _ask_same_model if kind_of(failure.code) not in kinds_of(state) else ask_next_model
    return state, again(state, failure, settled), failure


def may_be_repaired(state: AgentState, failure: ModelFailure) -> bool:
    """Return True if a service may have refused a reply in the conversation, and a repair level is left."""
    if state.rules < REPAIRS_SINCE or failure.is_retryable or not state.origins.size:
        return False
    is_left = (state.repair or START).next is not None
    return is_left and is_refused_request(failure.code, failure.message)


def _failure_of(state: AgentState, reply: ModelReplied) -> ModelFailure:
    if reply.status == "ok":
        return _GARBAGE if state.rules < 2 else replace(_GARBAGE, digest=rolled("", reply.content))
    return reply.failure or (_CANCELLED if reply.status == "cancelled" else _UNEXPLAINED)


def kinds_of(state: AgentState) -> tuple[FailureKind, ...]:
    """Return the kinds of failures after which the agent asks its next model."""
    return () if state.fallback is None else state.fallback.on


def ask_next_model(state: AgentState, failure: ModelFailure, settled: Settled) -> Decision | None:
    """Ask the next model after a failure of a listed kind; return None if none is left, or no attempt."""
    fallback, made = state.fallback, attempts_made(state)
    assert fallback is not None  # it has listed the kind
    if made >= (state.limits.max_model_attempts or 1):
        return None
    found = after_failure(fallback, _wait_of(state, failure, made))
    if found is None:
        return None
    wait = spread_ms(found.wait_ms, made, state.address)
    is_other = found.fallback.spec.made_by != state.model.made_by
    state = replace(with_model(state, found.fallback.spec), fallback=found.fallback)
    state = at_bytes(state) if is_other else state
    return ask_again(state, settled, wait)


def _wait_of(state: AgentState, failure: ModelFailure, made: int) -> int:
    """Return the wait before a model is asked again. made: the attempts so far, of all models."""
    assert state.fallback is not None
    rounds = 1 + (made - 1) // len(state.fallback.specs)
    return wait_ms(failure, rounds, state.rules) if failure.is_retryable else NOT_AGAIN


def _ask_same_model(state: AgentState, failure: ModelFailure, settled: Settled) -> Decision | None:
    made = attempts_made(state)
    wait = backoff_ms(failure, made, state.limits.max_model_attempts or 1, state.address, state.rules)
    return None if wait is None else ask_again(state, settled, wait)


def attempts_made(state: AgentState) -> int:
    """Return the attempts of this turn, without those that the end of a process cut off."""
    return state.attempt - state.cut_attempts


def ask_again(state: AgentState, settled: Settled, after_ms: int) -> Decision:
    """Ask for the next attempt of a turn, with the request that was sent. after_ms: the wait before it."""
    state = replace(state, attempt=state.attempt + 1)
    again = TurnRequested(
        turn=state.turn,
        attempt=state.attempt,
        need=need_of(state),
        digest=state.digest,
        after_ms=after_ms,
        settled=settled,
    )
    if state.repair is not None:
        again = replace(again, repair=state.repair)
    if state.compaction is not None and state.compaction.saved is not None:
        again = replace(again, purpose="summary", model=state.compaction.summariser)
    if state.is_anew:
        state, again = replace(state, is_anew=False), replace(again, breaks_cache=True)
    if (books := state.fallback) is not None and (books.name or books.is_open):
        again = replace(again, model=books.name or again.model, is_unbounded=books.is_open)
    return post_request(state, again)


def take_unusable(state: AgentState, stop_reason: str, said: Said, settled: Settled) -> Decision:
    """Ask another model after a refusal or an unreadable reply, if the fallback lists it; else end."""
    kind, failure = UNUSABLE[stop_reason]
    if failure in kinds_of(state):
        # Without its text: the next model answers in its place.
        again = ask_next_model(state, ModelFailure(failure), Settled(settled.usage))
        if again is not None:
            return again
    state = replace(state, text=last_words(state.text, said, state.rules))
    return end(state, kind, settled)
