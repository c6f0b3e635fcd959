"""Contexts: what an agent gets to know of the one that delegates to it, made by a function of the user.

def last_words(view: ContextRequest) -> str: ...

Agent("reader", context=last_words)
Agent("reader", context=SystemContext(Brief(tokens=1_000)))
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.errors import InvalidAgent, InvalidPrompt
from callboard.actors.protocol.histories import HandedHistory, why_broken
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.profiles import ContextPlace
from callboard.actors.session.contexts import ContextRequest
from callboard.runtime.brief import Brief, Transcript
from callboard.runtime.histories.history import History
from callboard.runtime.sanitize import MAX_DEPTH, clean_json, to_json
from callboard.runtime.schemas.output_types import name_of
from callboard.runtime.whole_history import HISTORY_BYTES_MAX, WholeHistory

Content: TypeAlias = str | Sequence[Mapping[str, object]] | History | HandedHistory | None
"""A text, a list of content blocks, a `History`, the messages of `WholeHistory`, or None for no context."""

ContextFunction: TypeAlias = Callable[[ContextRequest], Content | Awaitable[Content]]
"""Makes the context of a delegation from the view of the agent that delegates; plain or async."""

CONTEXT_BYTES_MAX: Final = 400_000
"""Bytes of JSON that a context may have. A larger one ends its delegation."""


class SystemContext(NamedTuple):
    """A context at the end of the sub-agent's system prompt. Its function returns text."""

    function: ContextFunction


def checked_context(
    agent: str, given: ContextFunction | SystemContext | None
) -> tuple[ContextFunction | None, ContextPlace]:
    """Return the function, None for no context, and the place of its text. Raises InvalidAgent."""
    place: ContextPlace = "system" if isinstance(given, SystemContext) else "message"
    function = given.function if isinstance(given, SystemContext) else given
    if place == "system" and isinstance(function, WholeHistory):
        raise InvalidAgent(
            f"agent {agent!r}: messages cannot stand in a system prompt; give SystemContext(Transcript())"
        )
    if callable(function) or given is None:
        return function, place
    raise InvalidAgent(
        f"agent {agent!r}: context={given!r:.80} is not a function; give one that takes a ContextRequest and "
        "returns a text or content blocks, or Brief()"
    )


def function_name(function: ContextFunction | None) -> str:
    """Return the name of a context function, as it stands in the log; empty for None."""
    if isinstance(function, Brief | Transcript | WholeHistory):
        return repr(function)
    return name_of(function) if function is not None else ""


def made_context(
    value: object, place: ContextPlace = "message", *, is_program: bool = False
) -> HandedHistory:
    """Return a context for the log: a content as its note, or messages. Raises InvalidPrompt with the reason.

    is_program: True for the context of a program, which is handed no messages.
    """
    if isinstance(value, History):
        value = value.handed
    if not isinstance(value, HandedHistory):
        return HandedHistory(note=content_json(value, place))
    if place == "system" or is_program:
        raise InvalidPrompt(
            "messages can stand neither in a system prompt nor before a program's prompt; use Transcript()"
        )
    messages = _checked_messages(value.messages)
    note = content_json(msgspec.json.decode(clean_json(bytes(value.note))))
    return HandedHistory(messages, value.makers, note, value.repairs)


def _checked_messages(given: tuple[Json, ...]) -> tuple[Json, ...]:
    # Cleaned first: what reads the messages next refuses half of a surrogate pair.
    cleaned = tuple(to_json(Json(bytes(said)), max_depth=2 * MAX_DEPTH, what="A message") for said in given)
    if why := why_broken(cleaned):
        raise InvalidPrompt(f"the messages of the context are not a conversation: {why}")
    if sum(map(len, cleaned)) > HISTORY_BYTES_MAX:
        raise InvalidPrompt(f"the messages of the context have more than {HISTORY_BYTES_MAX:,} bytes")
    return cleaned


def content_json(value: object, place: ContextPlace = "message") -> Json:
    """Encode a context for the log, null for an empty one. Raises InvalidPrompt with the reason."""
    if value in (None, "", []):
        return NULL
    if not _is_content(value):
        raise InvalidPrompt(
            f"a context is a text, a list of content blocks, or None, not {type(value).__name__}"
        )
    if place == "system" and not isinstance(value, str) and not _is_text(value):
        raise InvalidPrompt("a context in the system prompt is text, or a list of text blocks")
    return to_json(value, max_bytes=CONTEXT_BYTES_MAX, what="The context")


def _is_text(value: object) -> bool:
    return isinstance(value, list | tuple) and all(block["type"] == "text" for block in value)


def _is_content(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_block(one) for one in value)
    return isinstance(value, str)


def _is_block(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("type"), str)
