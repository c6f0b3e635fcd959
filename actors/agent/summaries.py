"""The answer to the request for a summary, and the moment at which a compaction takes effect."""

from msgspec.structs import replace

from callboard.actors.agent.compacting import (
    announce,
    compaction_of,
    cut_of_summary,
    frees_enough,
    restored,
    shorten_refused,
)
from callboard.actors.agent.compaction import Pending
from callboard.actors.agent.content import Said, read
from callboard.actors.agent.failed_calls import UNUSABLE, again_after, kinds_of
from callboard.actors.agent.input_bound import with_message
from callboard.actors.agent.shortening import with_conversation, with_summary
from callboard.actors.agent.state import AgentState, prefix_of
from callboard.actors.agent.turns import Decision, ask_new_turn, ask_turn, finish
from callboard.actors.protocol.compaction_messages import Compacted, SummaryRefused
from callboard.actors.protocol.conversation import is_by, rolled
from callboard.actors.protocol.failures import kind_of as kind_of_failure
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.media import media_in
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.usage import priced
from callboard.actors.protocol.value_types import Settled


def take_summary(state: AgentState, seq: int, reply: ModelReplied) -> Decision:
    """Take the answer to the request for a summary. seq: of its event."""
    settled = Settled(reply.usage and priced(reply.usage, state.model.prices))
    said = read(reply.content, prefix_of(state).specs) if reply.status == "ok" else None
    if said is None:
        state, again, _ = again_after(state, reply, settled)
        return _without_summary(state, settled) if again is None else again
    pending, cut = compaction_of(state).pending, cut_of_summary(state)
    assert pending is not None
    state = restored(state)
    if not _is_summary(said, reply.stop_reason):
        return _without_summary(state, settled)
    compaction = compaction_of(state)
    shorter = with_summary(state, compaction, cut, said.text, has_prompt=not pending.has_prompt)
    if not frees_enough(state, shorter):
        return _without_summary(state, settled)
    state, posts = announce(state, settled, pending, shorter, seq)
    assert isinstance(posts, tuple)
    return state, posts


def _is_summary(said: Said, stop_reason: str) -> bool:
    if said.uses or not said.text.strip():
        return False
    return stop_reason not in UNUSABLE and stop_reason not in ("max_tokens", "pause_turn", "compaction")


def on_refused(state: AgentState, seq: int, refused: SummaryRefused) -> Decision:
    """Go on without summaries: the budget does not hold one."""
    if state.compaction is None or state.compaction.saved is None or refused.turn != state.turn:
        return state, ()
    state = restored(state)
    return _without_summary(
        replace(state, compaction=replace(compaction_of(state), is_clear_only=True)), None
    )


def _without_summary(state: AgentState, settled: Settled | None) -> Decision:
    """Go on with the conversation as it was."""
    state = restored(state)
    pending = compaction_of(state).pending
    assert pending is not None
    state = replace(state, compaction=replace(compaction_of(state), pending=None))
    if pending.refused == NULL:
        return _go_on(state, settled, pending)
    state, posts = shorten_refused(state, settled, pending)
    return _ended(state, settled, posts)


def _ended(state: AgentState, settled: Settled | None, posts: object) -> Decision:
    if isinstance(posts, str):
        return finish(state, "context_full", settled, posts)
    assert isinstance(posts, tuple)  # a refused message is never sent again as it was
    return state, posts


def on_compacted(state: AgentState, seq: int, compacted: Compacted) -> Decision:
    """Let a compaction take effect, and go on with the message that has waited for it."""
    compaction = compaction_of(state)
    kept, pending = compaction.ready, compaction.pending
    if kept is None or pending is None:  # no agent of this phase
        return state, ()
    compaction = replace(compaction, ready=None, pending=None, counted=0, stalls=0, again_at=0)
    compaction = replace(compaction, shortened=state.turns_used)
    state = with_conversation(state, compaction, kept)
    return _go_on(replace(state, fresh=(*state.fresh, seq)), None, pending)


def _go_on(state: AgentState, settled: Settled | None, pending: Pending) -> Decision:
    said = pending.refused
    if said == NULL:
        return ask_new_turn(state, settled, pending.prompt, pending.begun, pending.otherwise)
    if pending.has_prompt:
        state = replace(state, compaction=replace(compaction_of(state), prompt=state.history.size))
    # It has been sent, so it stays in the conversation if this turn is taken back.
    books, more = with_message(state, state.fallback, media_in(said), len(said))
    state = replace(
        state,
        history=state.history.append(said),
        digest=rolled(state.digest, said),
        context_tokens=state.context_tokens + len(said) + more,
        fallback=books,
        turns_used=state.turns_used - 1,  # the refused request was this turn
    )
    return ask_turn(state, settled)


def after_full(state: AgentState, reply: ModelReplied, settled: Settled) -> Decision | None:
    """Shorten a conversation after its service has refused a request as too long.

    Return None if that is not what the answer says, or if nothing can be shortened.
    """
    if state.compaction is None or not _is_full(reply) or "context_full" in kinds_of(state):
        return None
    history = state.history
    if state.unsent is None or not history.size or not is_by("user", history.last()):
        return None
    said = history.last()
    base = replace(
        state,
        history=history.drop(history.size - 1),
        context_tokens=state.unsent.context_tokens,
        unsent=None,
        compaction=replace(state.compaction, again_at=0),
    )
    pending = Pending(refused=said, has_prompt=state.compaction.prompt == base.history.size)
    base, posts = shorten_refused(base, Settled(settled.usage), pending)
    return _ended(base, Settled(settled.usage), posts)


def _is_full(reply: ModelReplied) -> bool:
    if reply.status == "ok":
        return reply.stop_reason == "model_context_window_exceeded"
    return reply.failure is not None and kind_of_failure(reply.failure.code) == "context_full"
