"""The decision to shorten a conversation, before a new request: clear, ask for a summary, or go on.

the next request needs more than its share of the window, or the service has refused it as too long
    clearing frees a tenth of the window, and is enough     clear
    a summary may be asked for                              ask for it
    clearing frees a tenth of the window                    clear
    else                                                    go on, or end as context_full
"""

from typing import Final

from msgspec.structs import replace

from callboard.actors.agent.compaction import Compaction, Pending
from callboard.actors.agent.fallback import at_new_turn, first_of
from callboard.actors.agent.shortening import (
    Shorter,
    bound_before,
    conversation_of,
    turn_starts,
    with_conversation,
    without_old_parts,
)
from callboard.actors.agent.state import (
    AgentState,
    closing_need,
    need_of,
    prefix_of,
    turns_left,
    with_model,
    with_repair,
)
from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.blocks import content_of
from callboard.actors.protocol.compaction_messages import Compacted, request_for_summary
from callboard.actors.protocol.conversation import blocks_of, rolled, text_block, user_message
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import TurnRequested, TurnSettled
from callboard.actors.protocol.usage import NOTHING, Need, bound_of_any
from callboard.actors.protocol.value_types import Settled

Verdict = tuple[AgentState, tuple[Post, ...] | str | None]
"""The state with the posts of a compaction; a reason to end as `context_full`; None to go on."""

_PARTS: Final = 10
"""A compaction frees at least one of so many parts of the window."""

_STALLS_MAX: Final = 2
_SPARE_TURNS: Final = 2


def compaction_of(state: AgentState) -> Compaction:
    """Return an agent's part of compaction. Raises ValueError for an agent without."""
    if state.compaction is None:
        raise ValueError(f"the conversation of {state.address} is not shortened")
    return state.compaction


def begun(state: AgentState) -> Compaction | None:
    """Return the part of compaction of an agent that begins, by the rules of its profile."""
    rules, known = prefix_of(state).profile.compact, state.compaction
    if rules is None or state.program is not None:
        return None
    if known is None:
        return Compaction(rules)
    fresh = Compaction(rules, counter=known.counter, is_counted=known.is_counted)
    if state.is_anew:  # messages about tools may have left the conversation, so the places are others
        return fresh
    return replace(fresh, sizes=known.sizes, counted=known.counted, cleared=known.cleared)


def shorten_if_due(state: AgentState, settled: Settled | None, pending: Pending) -> Verdict:
    """Shorten the conversation before a new message, if the request would need too much of the window."""
    compaction, window = compaction_of(state), state.model.context_tokens
    need = state.context_tokens + size_of(state, pending) + state.model.max_tokens
    if not window or need * 100 <= window * compaction.rules.percent:
        return state, None
    if compaction.shortened == state.turns_used:
        return state, None
    if need <= window and need < compaction.again_at:
        return state, None
    excess = need - window * compaction.rules.percent // 100
    return _shorten(state, settled, pending, need, excess)


def shorten_refused(state: AgentState, settled: Settled | None, pending: Pending) -> Verdict:
    """Shorten a conversation that its service has refused. pending: its last message, taken out."""
    need = state.context_tokens + size_of(state, pending) + state.model.max_tokens
    return _shorten(state, settled, pending, need, part_of(state))


def size_of(state: AgentState, pending: Pending) -> int:
    """Return the bytes of a new message."""
    words = sum(len(word.block) for word in state.background.words.values())
    texts = sum(len(one) for one in (pending.prompt, pending.refused) if one != NULL)
    answers = sum(len(one.block) for one in state.calls.answers.values())
    return answers + words + texts


def part_of(state: AgentState) -> int:
    """Return the tokens that a compaction has to free."""
    return max(1, (state.model.context_tokens or state.context_tokens) // _PARTS)


def frees_enough(state: AgentState, shorter: Shorter) -> bool:
    """Return True if a shorter conversation is a compaction."""
    return state.context_tokens - shorter.conversation.tokens >= part_of(state)


def _shorten(state: AgentState, settled: Settled | None, pending: Pending, need: int, excess: int) -> Verdict:
    """Shorten a conversation. need: of the next request as it is. excess: the tokens to free."""
    compaction = compaction_of(state)
    shorter = without_old_parts(state, compaction)
    if shorter is not None and not frees_enough(state, shorter):
        shorter = None
    if shorter is not None and state.context_tokens - shorter.conversation.tokens >= excess:
        return announce(state, settled, pending, shorter)
    is_refused = pending.refused != NULL
    counted = state.turns_used - is_refused
    if may_summarise(state) and compaction.summarised != counted and (cut := _cut_of(state, pending)):
        return _ask_for_summary(state, settled, pending, cut, counted)
    if shorter is not None:
        return announce(state, settled, pending, shorter)
    stalls = compaction.stalls + 1
    if is_refused or (stalls >= _STALLS_MAX and need > state.model.context_tokens):
        return with_refused(state, pending), _why_full(state, need)
    again_at = need + part_of(state)
    return replace(state, compaction=replace(compaction, stalls=stalls, again_at=again_at)), None


def _why_full(state: AgentState, need: int) -> str:
    window = state.model.context_tokens
    known = (
        f"the window of {state.model.name} has {window:,}" if window else "its model's window is not known"
    )
    return (
        f"the next request needs up to {need:,} tokens, {known}, and no compaction frees "
        f"{part_of(state):,} tokens"
    )


def with_refused(state: AgentState, pending: Pending) -> AgentState:
    """Return the state of an agent that ends while its message waits.

    Answers and words stay for the next ask. A message that was refused has been sent, so it stays, too.
    """
    said = pending.refused
    if said == NULL:
        return state
    return replace(state, history=state.history.append(said), context_tokens=state.context_tokens + len(said))


def announce(
    state: AgentState, settled: Settled | None, pending: Pending, shorter: Shorter, summary: int = 0
) -> Verdict:
    """Post that a conversation becomes shorter. summary: the seq of the answer that holds a summary."""
    compaction, kept = compaction_of(state), shorter.conversation
    body = Compacted(
        upto=shorter.upto,
        kept=state.history.size - shorter.upto,
        by="summary" if summary else "clear",
        summary=summary,
        results=shorter.results,
        thoughts=shorter.thoughts,
        before=state.context_tokens,
        after=kept.tokens,
    )
    compaction = replace(
        compaction, pending=pending, ready=kept, saved=None, cleared=1 if summary else shorter.upto
    )
    state = replace(state, phase="compacting", unsent=None, compaction=compaction)
    return state, (*settlement(state, settled, pending), Post(state.address, body))


def settlement(state: AgentState, settled: Settled | None, pending: Pending) -> tuple[Post, ...]:
    """Return the post that settles the last grant, if it is not settled."""
    if settled is None:
        return ()
    closing = NOTHING
    if state.background.tasks.size:
        closing = closing_need(state, state.context_tokens + size_of(state, pending))
    return (Post(SUPERVISOR, TurnSettled(settled.usage, "", closing)),)


# --- the summary --------------------------------------------------------------------


def may_summarise(state: AgentState) -> bool:
    """Return True if an agent may ask for a summary now or later in its ask."""
    compaction = state.compaction
    if compaction is None or not compaction.rules.has_summaries or compaction.is_clear_only:
        return False
    return not state.is_forced and turns_left(state) > 1


def summary_need(state: AgentState, tokens: int) -> Need:
    """Return the need of a summary that may follow a request with so much input; nothing before half-time."""
    window = state.model.context_tokens
    # The last turn is not preceded by a summary.
    if not window or not may_summarise(state) or turns_left(state) <= _SPARE_TURNS:
        return NOTHING
    compaction = compaction_of(state)
    if (tokens + state.model.max_tokens) * 200 <= window * compaction.rules.percent:
        return NOTHING
    model = compaction.rules.model
    if model is not None and model.is_free:
        return NOTHING
    specs = (model,) if model is not None else (state.fallback.specs if state.fallback else (state.model,))
    return bound_of_any(tokens + len(_block(compaction)), specs)


def _block(compaction: Compaction) -> Json:
    return text_block(request_for_summary(compaction.rules.instructions))


def _cut_of(state: AgentState, pending: Pending) -> int:
    """Return the place before which the messages are summarised; 0 for no such place."""
    compaction = compaction_of(state)
    spec = compaction.rules.model or state.model
    starts = [*turn_starts(state.history)]
    most = spec.context_tokens - spec.max_tokens - len(_block(compaction)) if spec.context_tokens else 0
    if pending.refused != NULL:  # the window is smaller than it is said to be, or not known
        half = (state.context_tokens + len(pending.refused)) // 2
        most = min(most, half) if most > 0 else half
    for cut in starts[max(1, compaction.rules.keep) - 1 :]:
        if cut < 3:
            return 0
        if not most or bound_before(state, compaction, cut) <= most:
            return cut
    return 0


def _ask_for_summary(
    state: AgentState, settled: Settled | None, pending: Pending, cut: int, counted: int
) -> Verdict:
    """Ask for a turn whose answer is to stand in place of the messages before a place."""
    compaction, block = compaction_of(state), _block(compaction_of(state))
    saved = conversation_of(state, compaction)
    tokens = bound_before(state, compaction, cut) + len(block)
    last = state.history.get(cut - 1)
    assert last is not None
    history = state.history
    for place in reversed(range(cut, history.size)):
        history = history.drop(place)
    asked = user_message((*blocks_of(content_of(last)), block))
    digest = rolled(state.digest, Json(b"%d" % cut), asked)
    books = None if state.fallback is None else at_new_turn(state.fallback)
    state = replace(
        state,
        phase="thinking",
        history=history.put(cut - 1, asked),
        digest=digest,
        context_tokens=tokens,
        turn=state.turn + 1,
        attempt=1,
        cut_attempts=0,
        unsent=None,
        fallback=books,
        compaction=replace(compaction, pending=pending, saved=saved, summarised=counted),
    )
    name = "" if books is None else books.name
    if compaction.rules.model is not None:
        model, books = first_of(compaction.rules.model)
        state, name = replace(with_model(state, model), fallback=books), model.name
        state = replace(state, context_tokens=bound_by_bytes(state))
    request = TurnRequested(
        turn=state.turn,
        need=need_of(state),
        digest=state.digest,
        settled=settled,
        breaks_cache=state.is_anew,
        model=name,
        is_unbounded=books is not None and books.is_open,
        repair=state.repair,
        purpose="summary",
    )
    return replace(state, is_anew=False), (Post(SUPERVISOR, request),)


def bound_by_bytes(state: AgentState) -> int:
    """Return the bound on the input of a model that counts in its own way."""
    size = prefix_of(state).tokens + state.model.overhead_tokens
    return size + sum(map(len, state.history.values()))


def cut_of_summary(state: AgentState) -> int:
    """Return the place before which the messages are summarised while the summary is asked for."""
    return state.history.size


def restored(state: AgentState) -> AgentState:
    """Return the state of an agent with its whole conversation, after a summary of a part was asked for."""
    compaction = compaction_of(state)
    if compaction.saved is None:
        return state
    before, repair = compaction.saved.repair, state.repair
    state = with_conversation(state, replace(compaction, saved=None), compaction.saved)
    return state if repair is None or repair == before else with_repair(state, repair)


def given_up(state: AgentState) -> AgentState:
    """Return the state of an agent that is stopped while a compaction is under way: nothing has changed."""
    pending = compaction_of(state).pending
    if pending is None:
        return state
    state = with_refused(restored(state), pending)
    return replace(state, compaction=replace(compaction_of(state), pending=None, ready=None))
