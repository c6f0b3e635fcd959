"""A shorter conversation: old results become lines and thinking goes, or a summary stands for messages.

The bound on the input of the shorter form is the smaller one of two:

    by counts   the bound before, without the fewest tokens that the removed messages had by the counts of
                their service, and with each byte that is added
    by bytes    the bytes of the whole, since a token has at least one

A count of a service covers all messages before an answer. The difference to the count before is the new
message alone, and less if the service has dropped old thoughts meanwhile. So it is a lower bound.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from callboard.actors.agent.compaction import Compaction, Conversation
from callboard.actors.agent.content import READ
from callboard.actors.agent.fallback import Fallback
from callboard.actors.agent.input_bound import is_believed
from callboard.actors.agent.request_prefix import RequestPrefix, with_tools
from callboard.actors.agent.state import AgentState, prefix_of
from callboard.actors.agent.tool_changes import whole_digest
from callboard.actors.protocol.blocks import THOUGHTS, as_list, content_of, id_of, kind_of, parts_of
from callboard.actors.protocol.compaction_messages import CLEARED, SUMMARY, cleared_result
from callboard.actors.protocol.conversation import (
    blocks_of,
    is_by,
    message,
    text_block,
    text_json,
    tool_result,
    user_message,
)
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.makers import NO_ORIGINS, maker_of, with_reply
from callboard.actors.protocol.media import NO_MEDIA, media_in, together
from callboard.actors.protocol.port_messages import ModelReplied

_THINKING: Final = b"thinking"
_SUMMARY_START: Final = bytes(text_block(SUMMARY)).removesuffix(b'"}')
_TRUE: Final = Json(b"true")  # no bytes: they never equal a `Raw`
_STRING: Final = msgspec.json.Decoder(str)


class Shorter(NamedTuple):
    """A shorter conversation. upto: the messages that are shortened. results, thoughts: as of `Compacted`."""

    conversation: Conversation
    upto: int
    results: int = 0
    thoughts: int = 0


def conversation_of(state: AgentState, compaction: Compaction) -> Conversation:
    """Return the present conversation of an agent."""
    return Conversation(
        history=state.history,
        origins=state.origins,
        digest=state.digest,
        tokens=state.context_tokens,
        prefix=state.prefix,
        fallback=state.fallback,
        model=state.model,
        repair=state.repair,
        handed=state.handed,
        is_anew=state.is_anew,
        prompt=compaction.prompt,
        sizes=compaction.sizes,
    )


def with_conversation(state: AgentState, compaction: Compaction, kept: Conversation) -> AgentState:
    """Return the state of an agent with another conversation. compaction: its own from then on."""
    return replace(
        state,
        history=kept.history,
        origins=kept.origins,
        digest=kept.digest,
        context_tokens=kept.tokens,
        prefix=kept.prefix,
        fallback=kept.fallback,
        model=kept.model,
        handed=kept.handed,
        is_anew=kept.is_anew,
        compaction=replace(compaction, prompt=kept.prompt, sizes=kept.sizes),
    )


def with_count(state: AgentState, reply: ModelReplied, *, is_kept: bool) -> Compaction | None:
    """Record the count of an answer. state: before it is in the conversation. is_kept: it goes there."""
    known, usage, place = state.compaction, reply.usage, state.history.size - 1
    if known is None:
        return None
    most = state.context_tokens
    if not is_believed(state.model, usage, most, most):
        return replace(known, counted=0)
    assert usage is not None  # else it is not believed
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    sizes = known.sizes
    if known.counted and known.counter == state.model.name and prompt > known.counted:
        sizes = sizes.put(place, prompt - known.counted)
    if is_kept and usage.output_tokens and bytes(reply.content).find(_THINKING) < 0:
        sizes = sizes.put(place + 1, usage.output_tokens)
    return replace(known, sizes=sizes, counted=usage.tokens, counter=state.model.name, is_counted=True)


def turn_starts(history: IntMap[Json]) -> Iterator[int]:
    """Yield the place of each assistant message that follows a user's, the last one first."""
    said = [*history.values()]
    for place in reversed(range(1, len(said))):
        if is_by("assistant", said[place]) and is_by("user", said[place - 1]):
            yield place


def without_old_parts(state: AgentState, compaction: Compaction) -> Shorter | None:
    """Clear results and thinking before the last turns; return None if there is nothing to clear."""
    starts = [*zip(range(compaction.rules.keep), turn_starts(state.history), strict=False)]
    if len(starts) < max(1, compaction.rules.keep):
        return None
    prefix, said, upto = prefix_of(state), [*state.history.values()], starts[-1][1]
    history, sizes, freed, count, thoughts = state.history, compaction.sizes, 0, 0, 0
    for place in range(compaction.cleared, upto):
        before, one = said[place - 1], said[place]
        if is_by("user", one) == is_by("user", before):
            continue  # a reply that was paused, and what stands beside it
        if is_by("user", one):
            shorter, results = _cleared(prefix, before, one)
            count += results
        else:
            is_paused = not is_by("user", said[place + 1])
            shorter = one if is_paused else _without_thoughts(one)
            thoughts += shorter is not one
        if shorter is not one:
            history = history.put(place, shorter)
            if (size := sizes.get(place)) is not None:
                freed, sizes = freed + max(0, size - len(shorter)), sizes.drop(place)
    if not count + thoughts:
        return None
    tokens = _bound(state, compaction, prefix, history, state.context_tokens - freed)
    kept = replace(
        conversation_of(state, compaction),
        history=history,
        sizes=sizes,
        tokens=tokens,
        digest=whole_digest(prefix, history, state.origins, state.model),
        fallback=_books(state, prefix, history),
        is_anew=True,
    )
    return Shorter(kept, upto, count, thoughts)


def _cleared(prefix: RequestPrefix, before: Json, said: Json) -> tuple[Json, int]:
    """Return a message with lines in place of its results, and the number of them. before: with the calls."""
    names = {}
    for block in blocks_of(content_of(before)):
        if kind_of(block) == "tool_use":
            names[id_of(block)] = _STRING.decode(parts_of(block)["name"])
    blocks, count = [], 0
    for block in blocks_of(content_of(said)):
        shorter = _line_for(prefix, names, block) if kind_of(block) == "tool_result" else None
        count += shorter is not None
        blocks.append(block if shorter is None else shorter)
    return (user_message(tuple(blocks)), count) if count else (said, 0)


def _without_thoughts(said: Json) -> Json:
    """Return a reply without its thinking; the same object if its service may need that, or nothing is left.

    Thinking goes whole or stays whole. It stays where a part has an id or a signature of its own, which its
    service looks for beside the calls, and in a reply that holds more than words and calls.
    """
    blocks = blocks_of(content_of(said))
    kinds = {*map(kind_of, blocks)}
    kept = [block for block in blocks if kind_of(block) not in THOUGHTS]
    if kinds - THOUGHTS - READ or not kinds - THOUGHTS or not kinds & THOUGHTS:
        return said
    if any(_is_bound(block) for block in blocks if kind_of(block) in THOUGHTS):
        return said
    return message("assistant", as_list(kept))


def _is_bound(thought: Json) -> bool:
    part = parts_of(thought).get("part", NULL)
    return part != NULL and any(parts_of(part).get(key, NULL) != NULL for key in ("id", "signature"))


def _line_for(prefix: RequestPrefix, names: dict[str, str], block: Json) -> Json | None:
    """Return the block that stands for a result; None if the result stays."""
    parts = parts_of(block)
    use_id, content = _STRING.decode(parts["tool_use_id"]), parts.get("content", Json(b'""'))
    name = names.get(use_id, "")
    spec = prefix.specs.get(name)
    if not name or (spec is not None and spec.keep) or bytes(content).startswith(b'"' + CLEARED.encode()):
        return None
    line = cleared_result(name, len(content), is_read=spec is not None and spec.effect == "read")
    shorter = tool_result(use_id, text_json(line), parts.get("is_error") == _TRUE)
    return shorter if len(shorter) < len(block) else None


def with_summary(
    state: AgentState, compaction: Compaction, cut: int, text: str, *, has_prompt: bool
) -> Shorter:
    """Put a summary in place of the messages before a place.

    has_prompt: True if the prompt of the running ask is in the conversation, so that it has to stay.
    """
    prefix, tail = prefix_of(state), []
    for place in range(cut, state.history.size):
        said = state.history.get(place)
        assert said is not None
        if not is_by("system", said):
            tail.append((place, said))
    is_prompt_folded = has_prompt and 0 <= compaction.prompt < cut
    prompt_blocks = _kept_of_prompt(state, compaction) if is_prompt_folded else ()
    first = user_message((*prompt_blocks, summary_block(text)))
    messages, sizes = IntMap[Json](), IntMap[int]()
    history = messages.append(first)
    origins, prompt, maker = NO_ORIGINS, -1, maker_of(state.origins)
    for place, said in tail:
        if (made := maker(place)) is not None:  # the tail begins with a reply, so each run does
            origins = with_reply(origins, history.size, made)
        if (size := compaction.sizes.get(place)) is not None:
            sizes = sizes.put(history.size, size)
        if place == compaction.prompt:
            prompt = history.size
        history = history.append(said)
    freed = sum(size for place, size in compaction.sizes.items() if place < cut)
    tokens = state.context_tokens - freed + len(first)
    if prefix.is_changed:  # the messages that have changed the tools are gone
        prefix = with_tools(prefix, prefix.profile.tools)
        tokens += prefix.tokens
    if is_prompt_folded:
        prompt = 0
    kept = replace(
        conversation_of(state, compaction),
        history=history,
        origins=origins,
        sizes=sizes,
        tokens=_bound(state, compaction, prefix, history, tokens),
        prefix=prefix,
        digest=whole_digest(prefix, history, origins, state.model),
        fallback=_books(state, prefix, history),
        handed=(0, state.handed[1] if prompt == 0 else 0),
        is_anew=True,
        prompt=prompt,
    )
    return Shorter(kept, cut)


def summary_block(text: str) -> Json:
    """Return the block that holds a summary."""
    return text_block(SUMMARY + text)


def _kept_of_prompt(state: AgentState, compaction: Compaction) -> tuple[Json, ...]:
    """Return the blocks of the prompt's message that stay: all but results, and an earlier summary."""
    said = state.history.get(compaction.prompt)
    assert said is not None
    blocks = blocks_of(content_of(said))
    return tuple(
        one for one in blocks if kind_of(one) != "tool_result" and not bytes(one).startswith(_SUMMARY_START)
    )


def bound_before(state: AgentState, compaction: Compaction, cut: int) -> int:
    """Return the bound on the input of the messages before a place."""
    behind = sum(size for place, size in compaction.sizes.items() if place >= cut)
    history = [said for place, said in state.history.items() if place < cut]
    whole = _whole_bytes(state, prefix_of(state), history)
    counted = state.context_tokens - behind
    if whole is None:
        return counted
    return whole if compaction.rules.model is not None else min(counted, whole)


def _bound(
    state: AgentState, compaction: Compaction, prefix: RequestPrefix, history: IntMap[Json], counted: int
) -> int:
    whole = _whole_bytes(state, prefix, history.values())
    if whole is None:
        return counted
    return min(counted, whole) if compaction.is_counted else whole


def _whole_bytes(state: AgentState, prefix: RequestPrefix, history: Iterable[Json]) -> int | None:
    """Return the bound by bytes; None if an image or a file has none."""
    size = prefix.tokens + state.model.overhead_tokens
    for said in history:
        size += len(said)
        media = media_in(said)
        if media is not NO_MEDIA:
            most = media.tokens(state.model)
            if most is None and media.links:
                return None
            size += 0 if most is None else most - media.bytes
    return size


def _books(state: AgentState, prefix: RequestPrefix, history: IntMap[Json]) -> Fallback | None:
    """Return the books of an agent with a shorter conversation."""
    books, media = state.fallback, NO_MEDIA
    if books is None:
        return None
    for said in history.values():
        media = together(media, media_in(said))
    size = prefix.tokens + sum(map(len, history.values())) + max(one.overhead_tokens for one in books.specs)
    return replace(books, input_bytes=size, media=media, is_open=books.is_open and media.links > 0)
