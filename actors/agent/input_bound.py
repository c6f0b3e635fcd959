"""The bound on the input of the next request: the count of a service, or the bytes of the conversation.

A token has at least one byte, so the bytes of a conversation bound its tokens. A service's own count of the
last request is smaller, and takes their place while the same origin is asked.

Rules
  - A count of a model with `checks_usage` is believed only if it is plausible: a token has 1 to 16 bytes.
  - The bytes of the whole conversation are kept beside. They count again once another origin is asked.
  - An image or a file counts as the most that the model states for one. If it states none, and the part is
    named by its address or id, the request has no bound until a count that is believed includes it.
"""

from typing import Final

from msgspec.structs import replace

from callboard.actors.agent.fallback import Fallback
from callboard.actors.agent.request_prefix import TOOL_OVERHEAD_TOKENS
from callboard.actors.agent.state import AgentState, prefix_of
from callboard.actors.protocol.media import Media, together
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import Usage

BYTES_OF_A_TOKEN_MAX: Final = 16


def is_believed(spec: ModelSpec, usage: Usage | None, most: int, added: int = 0) -> bool:
    """Return True if a count may take the place of the bytes.

    most: the bound on the prompt, of which the service may have added so many tokens, that are no bytes.
    """
    if usage is None or not usage.tokens:
        return False
    if not spec.checks_usage:
        return True
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return most - added <= prompt * BYTES_OF_A_TOKEN_MAX and prompt <= most


def _believes(state: AgentState, books: Fallback, usage: Usage | None) -> bool:
    added = state.model.overhead_tokens + (TOOL_OVERHEAD_TOKENS if prefix_of(state).tools else 0)
    return is_believed(state.model, usage, _prompt_bytes(books, state.model), added)


def is_doubted(state: AgentState, usage: Usage | None) -> bool:
    """Return True if the count of the model that the agent now asks is there and is not believed."""
    books = state.fallback
    return books is not None and usage is not None and not _believes(state, books, usage)


def begin_bound(before: AgentState, state: AgentState) -> AgentState:
    """Return the state of an agent that begins, with a bound that holds for its model.

    before: the state before its `Begin`.
    """
    is_other = bool(before.turn) and before.model.made_by != state.model.made_by
    kept, books = before.fallback, state.fallback
    if kept is None and books is None and not is_other:
        return state
    books = books or Fallback((state.model,), ())
    if kept is None:
        size = prefix_of(state).tokens + sum(map(len, state.history.values()))
        books = replace(books, input_bytes=size + max(one.overhead_tokens for one in books.specs))
    else:
        size = kept.input_bytes + state.context_tokens - before.context_tokens
        books = replace(books, input_bytes=size, media=kept.media, is_open=kept.is_open)
    state = replace(state, fallback=books)
    return at_bytes(state) if is_other or not before.turn else state


def at_bytes(state: AgentState) -> AgentState:
    """Return the state of an agent that asks another origin, for which no count holds."""
    books = state.fallback
    if books is None:
        return state
    most = books.media.tokens(state.model)
    tokens = max(state.context_tokens, _prompt_bytes(books, state.model))
    is_open = most is None and books.media.links > 0
    return replace(state, context_tokens=tokens, fallback=replace(books, is_open=is_open))


def _prompt_bytes(books: Fallback, spec: ModelSpec) -> int:
    """Return the bound on the whole conversation, without any count."""
    most = books.media.tokens(spec)
    return books.input_bytes if most is None else books.input_bytes - books.media.bytes + most


def with_message(
    state: AgentState, books: Fallback | None, media: Media, size: int
) -> tuple[Fallback | None, int]:
    """Return the books after a new message of so many bytes, and the tokens that its media add to those."""
    books, more = _with_media(state, books, media)
    return None if books is None else _with_bytes(books, size), more


def _with_media(state: AgentState, books: Fallback | None, media: Media) -> tuple[Fallback | None, int]:
    if not media.bytes or (books is None and not media.links):
        return books, 0
    if books is None:
        size = prefix_of(state).tokens + sum(map(len, state.history.values()))
        books = Fallback((state.model,), (), input_bytes=size)
    most = media.tokens(state.model)
    is_open = books.is_open or (most is None and media.links > 0)
    books = replace(books, media=together(books.media, media), is_open=is_open)
    return books, 0 if most is None else most - media.bytes


def _with_bytes(books: Fallback, size: int) -> Fallback:
    return replace(books, input_bytes=books.input_bytes + size)


def after_reply(state: AgentState, reply: ModelReplied) -> tuple[int, Fallback | None]:
    """Return the bound on the conversation with a reply in it, and the books."""
    books, usage, size = state.fallback, reply.usage, len(reply.content)
    if books is None:
        return (usage is not None and usage.tokens) or state.context_tokens + size, None
    more = _with_bytes(books, size)
    if not _believes(state, books, usage):
        return state.context_tokens + size, more
    assert usage is not None  # else it is not believed
    return usage.tokens, replace(more, is_open=False)
