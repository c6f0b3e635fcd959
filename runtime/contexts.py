"""Contexts: what an agent gets to know of the one that delegates to it, made by a function of the user.

def last_words(view: ContextRequest) -> str: ...

Agent("reader", context=last_words)
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

from callboard.actors.protocol.errors import InvalidAgent, InvalidPrompt
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.session.contexts import ContextRequest
from callboard.runtime.sanitize import to_json
from callboard.runtime.schemas.output_types import name_of

Content: TypeAlias = str | Sequence[Mapping[str, object]] | None
"""A text, a list of content blocks, or None for no context."""

ContextFunction: TypeAlias = Callable[[ContextRequest], Content | Awaitable[Content]]
"""Makes the context of a delegation from the view of the agent that delegates; plain or async."""

CONTEXT_BYTES_MAX: Final = 400_000
"""Bytes of JSON that a context may have. A larger one ends its delegation."""


def checked_function(agent: str, function: object) -> ContextFunction | None:
    """Return the function, or None for no context. Raises InvalidAgent for any other object."""
    if function is None or callable(function):
        return function
    raise InvalidAgent(
        f"agent {agent!r}: context={function!r:.80} is no function; give one that takes a ContextRequest and "
        "returns a text or content blocks"
    )


def function_name(function: ContextFunction | None) -> str:
    """Return the name of a context function, as it stands in the log; empty for None."""
    return name_of(function) if function is not None else ""


def content_json(value: object) -> Json:
    """Encode a context for the log, null for an empty one. Raises InvalidPrompt with the reason."""
    if value in (None, "", []):
        return NULL
    if not _is_content(value):
        raise InvalidPrompt(
            f"a context is a text, a list of content blocks, or None, not {type(value).__name__}"
        )
    return to_json(value, max_bytes=CONTEXT_BYTES_MAX, what="The context")


def _is_content(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_block(one) for one in value)
    return isinstance(value, str)


def _is_block(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("type"), str)
