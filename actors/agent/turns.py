"""An agent's turns and its end: ask for a turn, finish, drain."""

from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from callboard.actors.agent.compacting import compaction_of, shorten_if_due, summary_need
from callboard.actors.agent.compaction import Pending
from callboard.actors.agent.fallback import Fallback, at_new_turn
from callboard.actors.agent.input_bound import with_message
from callboard.actors.agent.open_calls import NO_CALLS, OpenCalls, in_order, only_answers, without_answers
from callboard.actors.agent.state import AgentState, Unsent, has_turns_left
from callboard.actors.agent.tasks import NOTHING_UNHEARD, Unheard, at_rest, words_of
from callboard.actors.agent.tool_changes import take_change
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import MODEL, SUPERVISOR
from callboard.actors.protocol.conversation import rolled, text_json, tool_result, user_message
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.labels import NO_LABELS, united
from callboard.actors.protocol.media import NO_MEDIA, media_in
from callboard.actors.protocol.messages import Finished, Stopped, TurnRequested
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.usage import NOTHING, bound
from callboard.actors.protocol.value_types import Settled
from callboard.actors.protocol.wishes import turn_of

Decision: TypeAlias = tuple[AgentState, tuple[Post, ...]]
"""The next state, and the posts in order."""

DIRECT_SINCE: Final = 2
"""The rules from which on a step of a program goes to its model without a grant."""


class NewMessage(msgspec.Struct, frozen=True, gc=False):
    """The user message of a turn that is no continuation.

    tokens: its bound. names: the seqs of the events that brought it. answers, words: in it, which an agent
        hears later if the turn is taken back. told: the number of the last `Told` in it, or 0. ends: the
        number of ends of tasks in it.
    """

    said: Json
    tokens: int
    names: tuple[int, ...] = ()
    answers: IntMap[Unheard] = NOTHING_UNHEARD
    words: IntMap[Unheard] = NOTHING_UNHEARD
    told: int = 0
    ends: int = 0


def ask_turn(
    state: AgentState,
    settled: Settled | None = None,
    new: NewMessage | None = None,
    otherwise: Literal["", "answered"] = "",
) -> Decision:
    """Append a message to the conversation, if there is one, and ask the supervisor for the next turn."""
    history, digest, tokens = state.history, state.digest, state.context_tokens
    fallback = None if state.fallback is None else at_new_turn(state.fallback)
    if new is None:  # it continues a paused turn, which a change of the tools must not join
        unsent = _unsent(state)
        names, told, ends = state.fresh, 0, 0
    else:
        said, told, ends = new.said, new.told, new.ends
        unsent, names = _unsent(state, new.answers, new.words), state.fresh + new.names
        if state.next_tools is None:
            history, digest, tokens = history.append(said), rolled(digest, said), tokens + new.tokens
        else:
            state, history, digest, seqs, size = _after_change(state, said)
            tokens, names = state.context_tokens + new.tokens + size, names + seqs
        if (media := media_in(said)) is not NO_MEDIA or fallback is not None:
            fallback, more = with_message(state, fallback, media, tokens - unsent.context_tokens)
            tokens += more
    turn, model, is_anew = state.turn + 1, state.model, state.is_anew
    need = NOTHING if model.is_free else bound(tokens, model.max_tokens, model.prices)
    request = TurnRequested(
        turn=turn,
        attempt=1,
        need=need,
        digest=digest,
        new=names,
        settled=settled,
        told=told,
        ends=ends,
        otherwise=otherwise,
        breaks_cache=is_anew,
    )
    if fallback is not None and (fallback.place or fallback.is_open):
        request = replace(request, model=fallback.name, is_unbounded=fallback.is_open)
    if state.new_labels or state.repair is not None:
        state, request = _with_rest(state, request)
    if state.compaction is not None and (kept := summary_need(state, tokens)) is not NOTHING:
        request = replace(request, summary=kept)
    if is_anew:
        state = replace(state, is_anew=False)
    state = _thinking(state, history, digest, tokens, turn, unsent, fallback)
    if state.program is None:  # not by `post_request`: this runs every turn
        return state, (Post(SUPERVISOR, request),)
    return post_request(state, request)


def post_request(state: AgentState, request: TurnRequested) -> Decision:
    """Post a request for a turn: to the model if it is a mere step of a program, else to the supervisor."""
    program = state.program
    if program is None or not state.model.is_program or state.rules < DIRECT_SINCE:
        return state, (Post(SUPERVISOR, request),)
    if program.is_direct and request.settled is not None and not request.settled.text:
        request = replace(request, settled=None)  # nothing was granted, so nothing is to be settled
    step = RunStep(request.turn, request.attempt, request.digest, request.new)
    # A text, a label or a wait is the supervisor's business, which grants such a step as any turn.
    is_direct = turn_of(step) == request
    if is_direct is not program.is_direct:
        state = replace(state, program=replace(program, is_direct=is_direct))
    return state, (Post(MODEL, step) if is_direct else Post(SUPERVISOR, request),)


def _thinking(
    state: AgentState,
    history: IntMap[Json],
    digest: str,
    tokens: int,
    turn: int,
    unsent: Unsent,
    fallback: Fallback | None,
) -> AgentState:
    # One copy of the state for the message and the request. CPython makes a dict of more than 14 keywords.
    return replace(
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
        calls=without_answers(state.calls) if state.calls.open.size else NO_CALLS,
        unsent=unsent,
        fallback=fallback,
    )


def _after_change(
    state: AgentState, said: Json
) -> tuple[AgentState, IntMap[Json], str, tuple[int, ...], int]:
    """Change the tools with a user message.

    Return the state with them, the conversation with the message and the words about the change, the digest
    of that, the seqs that brought the change, and the size of those words in bytes.
    """
    state, sent = take_change(state)
    history, digest = state.history.append(said), rolled(state.digest, said)
    if sent.message is None:
        return state, history, digest, sent.seqs, 0
    history, digest = history.append(sent.message), rolled(digest, sent.message)
    return state, history, digest, sent.seqs, len(sent.message)


def _with_rest(state: AgentState, request: TurnRequested) -> tuple[AgentState, TurnRequested]:
    """Return a request with the labels that it tells and its level of repair, which few have."""
    labels, repair = state.new_labels, state.repair
    return replace(state, new_labels=NO_LABELS), replace(request, labels=labels, repair=repair)


def _unsent(
    state: AgentState,
    answers: IntMap[Unheard] = NOTHING_UNHEARD,
    words: IntMap[Unheard] = NOTHING_UNHEARD,
) -> Unsent:
    """Return the conversation as it is before a turn's message."""
    return Unsent(
        history=state.history,
        digest=state.digest,
        context_tokens=state.context_tokens,
        fresh=state.fresh,
        answers=answers,
        words=words,
        prefix=state.prefix,
        is_anew=state.is_anew,
        origins=state.origins,
        fallback=state.fallback,
        new_labels=state.new_labels,
    )


def ask_new_turn(
    state: AgentState,
    settled: Settled | None = None,
    prompt: Json = NULL,
    begun: tuple[int, ...] = (),
    otherwise: Literal["", "answered"] = "",
) -> Decision:
    """Ask for a turn with a new user message: all answers, then all words, then a prompt.

    begun: the seq of the `Begin` that brought the prompt, if any. otherwise: as in `TurnRequested`.
    """
    if state.compaction is not None:
        pending = Pending(prompt, begun, otherwise, has_prompt=bool(begun))
        state, posts = shorten_if_due(state, settled, pending)
        if posts is not None:
            return finish(state, "context_full", settled, posts) if isinstance(posts, str) else (state, posts)
        if begun:
            known = compaction_of(state)
            state = replace(state, compaction=replace(known, prompt=state.history.size))
    answers, words = state.calls.answers, state.background.words
    results, seqs = in_order(answers)
    if not words.size:
        said = user_message(results, prompt)
        size = len(said) if prompt != NULL else sum(map(len, results))
        new = NewMessage(said=said, tokens=size, names=(*seqs, *begun), answers=answers)
        return ask_turn(state, settled, new, otherwise)
    heard = tuple(words.values())
    # Words alone ask for no answer. Beside results they are said to an agent at work, which has to answer.
    has_spoken = state.has_spoken and not results
    background = replace(state.background, words=NOTHING_UNHEARD, tells=0)
    state = replace(state, has_spoken=has_spoken, background=background)
    blocks = (*results, *(word.block for word in heard))  # services want results before any other block
    said = user_message(blocks, prompt)
    names = (*seqs, *(word.seq for word in heard), *begun)
    told, ends = max(word.number for word in heard), sum(not word.number for word in heard)
    size = len(said) if prompt != NULL else sum(map(len, blocks))
    new = NewMessage(said=said, tokens=size, names=names, answers=answers, words=words, told=told, ends=ends)
    return ask_turn(state, settled, new, otherwise)


def take_back(state: AgentState) -> AgentState:
    """Return to the conversation before a turn that was never granted.

    The next ask sends the answers and the ends of tasks in it. Its prompt is forgotten, since it belongs to
    an ask that has ended, and so are the words of a client, which are refused.
    """
    # Otherwise the next ask would send words that were refused, in a second user message in a row.
    unsent = state.unsent
    assert unsent is not None
    background = state.background
    if unsent.words.size:
        background = replace(background, words=words_of(unsent.words, background.words), tells=0)
    return replace(
        state,
        history=unsent.history,
        digest=unsent.digest,
        context_tokens=unsent.context_tokens,
        fresh=unsent.fresh,
        calls=replace(state.calls, answers=unsent.answers),
        background=background,
        prefix=unsent.prefix,
        is_anew=unsent.is_anew,
        origins=unsent.origins,
        fallback=unsent.fallback,
        new_labels=united(unsent.new_labels, state.new_labels),
        unsent=None,
    )


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
    finished = Finished(kind=kind, text=state.text, detail=detail, settled=settled, value=value)
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
    calls, stopped = state.calls, Stopped(state.owed)
    if calls.tools or calls.questions or state.is_model_out:
        return state, ()
    if state.program is None:
        state = replace(state, calls=only_answers(_with_given_up(calls)))
    return _at_rest(state), (Post(SUPERVISOR, stopped),)


def _at_rest(state: AgentState) -> AgentState:
    return replace(
        state,
        phase="idle",
        calls=only_answers(state.calls.answers),
        owed=None,
        program=None,
        needs_effect="",
        background=at_rest(state.background),
        unsent=None,
    )


def _with_given_up(calls: OpenCalls) -> IntMap[Unheard]:
    """Return an answer to every call of the last reply."""
    # The next ask continues this conversation, and services refuse one in which a call has no result.
    answers = calls.answers
    for one in (*calls.open.values(), *calls.reports):
        block = tool_result(one.use.id, text_json(prompts.CANCELLED), is_error=True)
        answers = answers.put(one.call, Unheard(block))
    return answers
