"""Tools that change: a change is kept until the next new request, and is sent with it.

    the model takes such messages   a message of role `system`, with `tool_addition` and `tool_removal`
                                    blocks, stands behind the new user message; all before stays as sent
    any other model                 the tools of the request change, and `TurnRequested.breaks_cache` says so

Rules
  - A change that makes no difference to the definitions the model knows sends nothing.
  - A retry, and the continuation of a paused turn, repeat the earlier request: no change joins them.
  - If another schema or model comes with an ask, so that the earlier messages cannot stay, the request
    begins again, and earlier messages about tools leave the conversation.
"""

from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from callboard.actors.agent.request_prefix import RequestPrefix, with_tools
from callboard.actors.agent.state import AgentState, NextTools, prefix_of
from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.client_messages import ToolsChanged
from callboard.actors.protocol.conversation import rolled, system_message
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.makers import Origins, mark, without_system
from callboard.actors.protocol.profiles import ModelSpec, ToolsChange, ToolSpec


class Sent(NamedTuple):
    """The parts that a change adds to a request: a message, or None, and the seqs of the events with it."""

    message: Json | None = None
    seqs: tuple[int, ...] = ()


NOTHING_SENT = Sent()


def keep_change(state: AgentState, seq: int, tools: tuple[ToolSpec, ...]) -> AgentState:
    """Keep a change for the next new request. seq: of its event; 0 if the request names that anyway."""
    return replace(state, next_tools=NextTools(tools, seq))


def set_tools(state: AgentState, change: ToolsChange) -> tuple[AgentState, tuple[Post, ...]]:
    """Tell the supervisor of the tools that a tool has set, and keep those that are for this agent."""
    # Kept here and not by way of the supervisor only, so that the next request of this agent has them.
    if state.address == change.address or prefix_of(state).profile.name == change.profile:
        state = keep_change(state, 0, change.tools)
    return state, (Post(SUPERVISOR, ToolsChanged(change)),)


def take_change(state: AgentState) -> tuple[AgentState, Sent]:
    """Apply the change that is kept. Return its parts of the request."""
    assert state.next_tools is not None
    tools, seq = state.next_tools.tools, state.next_tools.seq
    state = replace(state, next_tools=None)
    before, wanted = prefix_of(state), with_tools(prefix_of(state), tools)
    blocks = _differences(before.own, wanted.own)
    seqs = (seq,) if seq and blocks else ()
    if blocks and not state.model.inline_tools:
        return _anew(state, wanted), Sent(None, seqs)
    kept = replace(before, profile=wanted.profile, specs=wanted.specs, own=wanted.own)
    if not blocks:
        return replace(state, prefix=kept), NOTHING_SENT
    return replace(state, prefix=replace(kept, is_changed=True)), Sent(system_message(blocks), seqs)


def begin_with(state: AgentState, prefix: RequestPrefix) -> AgentState:
    """Return the state of an agent that begins with this prefix, after its earlier conversation."""
    before = state.prefix
    if state.next_tools is not None:
        state = replace(state, next_tools=None)
    if before is None or not _may_stay(before, prefix, state.model):
        return _anew(state, prefix)
    if before.profile.tools == prefix.profile.tools:
        return replace(state, prefix=replace(before, profile=prefix.profile))
    # Only the tools differ: that is a change like any other.
    kept = replace(before, profile=replace(prefix.profile, tools=before.profile.tools))
    return keep_change(replace(state, prefix=kept), 0, prefix.profile.tools)


def _may_stay(before: RequestPrefix, now: RequestPrefix, model: ModelSpec) -> bool:
    """Return True if earlier messages may stay: only tools differ, and the model reads changes of them."""
    is_readable = model.inline_tools or not before.is_changed
    return is_readable and (before.system, before.others) == (now.system, now.others)


def _anew(state: AgentState, prefix: RequestPrefix) -> AgentState:
    """Let the requests begin with another prefix, and the conversation without messages about tools."""
    before, history, origins = state.prefix, state.history, state.origins
    if before is not None and before.is_changed:
        history, origins = without_system(history, origins)
    return replace(
        state,
        prefix=prefix,
        history=history,
        origins=origins,
        digest=whole_digest(prefix, history, state.origins, state.model),
        context_tokens=state.context_tokens + prefix.tokens,
        is_anew=state.turn > 0,
    )


def whole_digest(prefix: RequestPrefix, history: IntMap[Json], origins: Origins, model: ModelSpec) -> str:
    """Return the digest of a conversation that begins again."""
    return rolled(prefix.digest, *history.values(), *_marks(origins, model)) if history.size else prefix.start


def _marks(origins: Origins, model: ModelSpec) -> list[Json]:
    """Return the parts of the digest for the makers of a conversation, if it is not all the model's own."""
    makers = [*origins.values()]
    return [] if makers in ([], [model.made_by]) else [mark(maker) for maker in makers]


class _Reference(msgspec.Struct, frozen=True, tag="tool_reference", tag_field="type"):
    name: str


class _Definition(msgspec.Struct, frozen=True, tag="tool_definition", tag_field="type"):
    definition: Json


class _Removal(msgspec.Struct, frozen=True, tag="tool_removal", tag_field="type"):
    tool: _Reference


class _Addition(msgspec.Struct, frozen=True, tag="tool_addition", tag_field="type"):
    tool: _Definition


def _differences(before: dict[str, Json], wanted: dict[str, Json]) -> tuple[Json, ...]:
    """Return the blocks that lead from some definitions to others: removals, then additions."""
    gone = [_Removal(_Reference(name)) for name in before if name not in wanted]
    # An addition under a known name takes the place of that definition.
    new = [_Addition(_Definition(tool)) for name, tool in wanted.items() if before.get(name) != tool]
    return tuple(Json(msgspec.json.encode(block)) for block in (*gone, *new))
