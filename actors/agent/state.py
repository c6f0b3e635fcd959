"""The state of an agent, and the values that follow from it: its request and its bounds."""

from collections.abc import Callable
from typing import Final, final

import msgspec
from msgspec.structs import replace

from callboard.actors.agent.compaction import Compaction
from callboard.actors.agent.fallback import Fallback
from callboard.actors.agent.open_calls import NO_CALLS, OpenCalls
from callboard.actors.agent.phases import Phase
from callboard.actors.agent.program_state import ProgramState
from callboard.actors.agent.request_prefix import RequestPrefix
from callboard.actors.agent.tasks import NO_BACKGROUND, NOTHING_UNHEARD, Background, Unheard
from callboard.actors.agent.whole_requests import WholeRequest
from callboard.actors.protocol.addresses import parent_of
from callboard.actors.protocol.conversation import joined, merged, rolled
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.labels import Labels
from callboard.actors.protocol.layers import Layers
from callboard.actors.protocol.limits import DEFAULTS, Limits
from callboard.actors.protocol.makers import NO_ORIGINS, Origins, mark, with_reply, without_system
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.profiles import ModelSpec, ToolSpec
from callboard.actors.protocol.repair_levels import START, Repair
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import NOTHING, Need, bound, bound_of_any
from callboard.actors.protocol.value_types import AskedRequest, SchemaProblem, Settled


class NextTools(msgspec.Struct, frozen=True, gc=False):
    """Tools that an agent has from its next new request on.

    seq: of the event that brought them, 0 if that is named anyway.
    """

    tools: tuple[ToolSpec, ...]
    seq: int = 0


class Unsent(msgspec.Struct, frozen=True, gc=False):
    """The conversation without the message of a turn, to return to if that turn is never granted.

    fresh: the seqs of the events whose content no request holds then.
    answers, words: those in the message.
    prefix, is_anew, origins, fallback: as they were before the message and a change of the tools with it.
    new_labels: those that the request tells.
    """

    history: IntMap[Json]
    digest: str
    context_tokens: int
    fresh: tuple[int, ...]
    answers: IntMap[Unheard] = NOTHING_UNHEARD
    words: IntMap[Unheard] = NOTHING_UNHEARD
    prefix: RequestPrefix | None = None
    is_anew: bool = False
    origins: Origins = NO_ORIGINS
    fallback: Fallback | None = None
    new_labels: Labels = ()


REPAIRED_CALL_TOKENS: Final = 100
"""The most that a call and its result grow by at a higher repair level: two ids of ours, and some words."""

_CALL: Final = b'"tool_use"'


@final
class AgentState(msgspec.Struct, frozen=True, gc=False):
    """The memory of an agent.

    history, digest, context_tokens: its conversation, the digest of its next request, and an upper bound on
        the input of that request.
    origins: the makers of the assistant messages in the conversation, in runs.
    report_problems: of the last report that was judged invalid.
    fresh: the seqs of the events whose content no request holds yet.
    turn, attempt: of its latest request. turn counts over its life, turns_used and report_attempts over one
        ask.
    cut_attempts: the attempts of that turn that the end of a process cut off; max_model_attempts does not
        count them.
    calls: its open calls, and the answers that it has yet to hear.
    has_spoken: True if it has said more than thoughts since the last message to it that was no tool result,
        or that only delivered words.
    empty_turn: the turn whose answer was empty and is asked for again, 0 for none.
    is_model_out, owed: of an agent that stops or has failed. The model may still answer; the end of a grant
        is still to be posted.
    program: of an agent with eager turns; None for one whose turns wait for all calls.
    background: its background tasks, and the words it has not heard.
    next_tools: the tools from the next new request on, None for no change.
    is_anew: True if the next request does not begin with the one before.
    unsent: the conversation before the latest turn.
    fallback: the models to ask in turn, of which `model` is the one that is asked now, and the bound on the
        input for any of them; None if it is the only one, and its own counts bound the input.
    needs_effect: the call that a fork does not run, in words; empty without one.
    permissions: its rights, as of its `Begin`.
    handed: the messages that it was handed, and the blocks of its first own message that it was handed.
    labels: of all that it has read. new_labels: those that no request of it has told.
    rules: of its session, as of its `Begin`.
    unreadable: the digest of the answer of the attempt before, if it could not be read.
    repair: of its requests, None for `repair_levels.START`. raised: the turn that has raised it, 0 for none.
    compaction: None for an agent whose conversation is not shortened.
    asked: the request that its own conversation follows, which the program above it keeps; None for none.
    """

    # `replace` looks for a field from the first one on, and takes 0.2 us for one at the end. So the fields
    # that change every turn come first.
    address: str
    phase: Phase = "new"
    calls: OpenCalls = NO_CALLS
    history: IntMap[Json] = IntMap()
    digest: str = ""
    context_tokens: int = 0
    fresh: tuple[int, ...] = ()
    turn: int = 0
    attempt: int = 0
    cut_attempts: int = 0
    turns_used: int = 0
    is_anew: bool = False
    unsent: Unsent | None = None
    fallback: Fallback | None = None
    text: str = ""
    has_spoken: bool = False
    is_forced: bool = False
    origins: Origins = NO_ORIGINS
    background: Background = NO_BACKGROUND
    prefix: RequestPrefix | None = None
    model: ModelSpec = ModelSpec("")
    limits: Limits = DEFAULTS
    is_told_to_report: bool = False
    report_attempts: int = 0
    report_problems: tuple[SchemaProblem, ...] = ()
    is_model_out: bool = False
    owed: Settled | None = None
    is_accepted: bool = False
    program: ProgramState | None = None
    next_tools: NextTools | None = None
    needs_effect: str = ""
    handed: tuple[int, int] = (0, 0)
    permissions: Layers = ()
    labels: Labels = ()
    new_labels: Labels = ()
    empty_turn: int = 0
    rules: int = 1
    unreadable: str = ""
    repair: Repair | None = None
    raised: int = 0
    compaction: Compaction | None = None
    asked: AskedRequest | None = None


def initial_agent(address: str) -> AgentState:
    """Return the state of an agent before its first message."""
    return AgentState(address)


def prefix_of(state: AgentState) -> RequestPrefix:
    """Return the request prefix of an agent that has begun. Raises ValueError before."""
    if state.prefix is None:
        raise ValueError(f"{state.address} has not begun")
    return state.prefix


def with_model(state: AgentState, model: ModelSpec) -> AgentState:
    """Return the state of an agent whose next request goes to this model.

    Another origin is sent the conversation in another form. So the digest counts the change, and the request
    does not begin with the one before. Its bound is that of `input_bound.at_bytes`.
    """
    if not state.turn or model.made_by == state.model.made_by:
        return replace(state, model=model)
    return replace(state, model=model, digest=rolled(state.digest, mark(model.made_by)), is_anew=True)


def with_next_repair(state: AgentState) -> AgentState:
    """Return the state of an agent whose requests are repaired at the next level from now on.

    The digest counts the change, and the next request does not begin with the one before. Its bound has room
    for the longer ids of calls, and for the words in place of them.
    """
    repair = (state.repair or START).next
    assert repair is not None
    return with_repair(replace(state, raised=state.turn), repair)


def with_repair(state: AgentState, repair: Repair) -> AgentState:
    """Return the state of an agent whose requests are repaired at this level."""
    # The one look at the whole conversation: a level is raised at most twice in an agent's life.
    calls = sum(bytes(said).count(_CALL) for said in state.history.values())
    return replace(
        state,
        repair=repair,
        digest=rolled(state.digest, repair.mark),
        is_anew=True,
        context_tokens=state.context_tokens + calls * REPAIRED_CALL_TOKENS,
    )


def turns_left(state: AgentState) -> int:
    """Return the number of turns that an agent with a model may still ask for. Questions of a brain count."""
    asked = 0 if state.program is None else state.program.questions
    return (state.limits.max_iterations or 0) - state.turns_used - asked


def has_turns_left(state: AgentState) -> bool:
    """Return True if the agent may ask for another turn."""
    if state.model.is_program:
        return state.turns_used < (state.limits.max_steps or 0)
    if state.program is None:
        return state.turns_used < (state.limits.max_iterations or 0)
    return turns_left(state) > 0


def need_of(state: AgentState) -> Need:
    """Return the most that a call with this conversation can use: nothing for a model that is free."""
    if state.model.is_free:
        return NOTHING
    return bound(state.context_tokens, state.model.max_tokens, state.model.prices)


def closing_need(state: AgentState, input_tokens: int) -> Need:
    """Return the most that a later call with so much input can use, whichever model is asked then."""
    books = state.fallback
    if books is None:
        return bound_of_any(input_tokens, (state.model,))
    if len({spec.made_by for spec in books.specs}) > 1:  # the next one counts its tokens in its own way
        input_tokens += max(0, books.input_bytes - state.context_tokens)
    return bound_of_any(input_tokens, books.specs)


def _of_none(address: str) -> object:
    return None


def request_of(state: AgentState, state_of: Callable[[str], object] = _of_none) -> ModelRequest:
    """Return the whole request of the turn that the agent last asked for.

    state_of: returns the state of another actor at that time, where the request of a program's question may
    stand. Raises ValueError without that.
    """
    prefix, model = prefix_of(state), state.model
    tools, history, origins = prefix.tools, state.history, state.origins
    if state.asked is not None:
        return _asked_request(state, state.asked, state_of(parent_of(state.address)))
    if prefix.is_changed and not model.inline_tools:  # it cannot read the messages that have changed them
        tools = (*prefix.own.values(), *prefix.others)
        history, origins = without_system(history, origins)
    return ModelRequest(
        address=state.address,
        profile=prefix.profile.name,
        model=model,
        turn=state.turn,
        attempt=state.attempt,
        system=prefix.system,
        tools=tools,
        history=history,
        force_tool="report_back" if state.is_forced else "",
        digest=state.digest,
        origins=origins,
        is_lossy=prefix.profile.lossy,
        handed=state.handed,
        repair=state.repair or START,
    )


def request_if_kept(state: AgentState, state_of: Callable[[str], object]) -> ModelRequest | None:
    """Return the request as `request_of` does; None if no program keeps it any more.

    A question that calls its model after its `Stop` may outlive its program. Its call is refused.
    """
    asked = state.asked
    if asked is not None and _whole(asked, state_of(parent_of(state.address))) is None:
        return None
    return request_of(state, state_of)


def _whole(asked: AskedRequest, asker: object) -> WholeRequest | None:
    kept = asker.program.requests if isinstance(asker, AgentState) and asker.program is not None else ()
    return next((one for one in reversed(kept) if one.ask == asked.ask), None)


def _asked_request(state: AgentState, asked: AskedRequest, asker: object) -> ModelRequest:
    """Return the request of a question that carries a whole one: that, and what the agent has said since."""
    whole = _whole(asked, asker)
    if whole is None:
        raise ValueError(
            f"{state.address}: no program above it keeps the request of its question {asked.ask}"
        )
    prefix, model, history = prefix_of(state), state.model, whole.messages
    for said in state.history.values():
        history = history.append(said)
    origins = with_reply(NO_ORIGINS, 0, _first_maker(state))
    return ModelRequest(
        address=state.address,
        profile=prefix.profile.name,
        model=replace(model, params=merged(model.params, whole.settings)),
        turn=state.turn,
        attempt=state.attempt,
        system=whole.system if prefix.system == NULL else joined(whole.system, prefix.system),
        tools=(*whole.tools, *prefix.tools),
        history=history,
        force_tool="report_back" if state.is_forced else whole.force_tool,
        digest=state.digest,
        origins=origins,
        is_lossy=prefix.profile.lossy,
        handed=(whole.messages.size, 0),
        repair=state.repair or START,
    )


def _first_maker(state: AgentState) -> Origin:
    """Return the maker of the replies in a request: the first model that is asked with it."""
    return state.model.made_by if state.fallback is None else state.fallback.specs[0].made_by
