"""The context of a service that cuts a conversation that is too long, and does not say so."""

from typing import Final

from callboard.actors.protocol.usage import ZERO, Usage
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.models.failures import CallFailed

TOKEN_BYTES: Final = 4  # of a usual text; before the call nothing better is known


def check_context(context: int, size: int) -> None:
    """Raise CallFailed for a request that is too long. context: in tokens, 0 for no limit. size: in bytes."""
    if context and size > context * TOKEN_BYTES:
        why = f"nothing was sent: {size} bytes do not fit in a context of {context} tokens"
        raise CallFailed(ModelFailure("context_full", why), ZERO)


def check_count(context: int, usage: Usage | None) -> None:
    """Raise CallFailed for an answer to a request that the service must have cut."""
    if context and usage is not None and usage.input_tokens + usage.cache_read_tokens >= context:
        why = f"the service read {context} tokens, all of its context, and left out the rest of the request"
        raise CallFailed(ModelFailure("context_full", why), usage)
