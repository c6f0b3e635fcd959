"""The answer of the layer as a `ModelAnswer`: blocks, the reason for its end, and usage, counted once."""

from collections.abc import Sequence
from typing import Final

from pydantic_ai.messages import ModelResponse, ModelResponsePart
from pydantic_ai.usage import RequestUsage

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.usage import Usage
from callboard.runtime.models.failures import CallFailed, broken_stream, garbage_answer
from callboard.runtime.models.layered.parts import blocks_of, is_call
from callboard.runtime.models.protocol import ModelAnswer

TOKENS_MAX: Final = 2**53  # the largest count of tokens that is believed
_ENDS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "content_filter": "refusal",
    "tool_call": "tool_use",
}


def answer_of(response: ModelResponse, turn: int, *, is_stream: bool) -> ModelAnswer:
    """Read an answer. Raises CallFailed for one that broke off or has no end. is_stream: it was streamed."""
    usage = usage_of(response.usage)
    if response.state == "incomplete":
        raise broken_stream("the stream ended before the answer did")
    end = _ENDS.get(response.finish_reason or "")
    if end is None:
        raise _unended(response, usage, is_stream)
    try:
        content: Json = blocks_of(response.parts, turn)
    except InvalidPrompt as error:
        raise garbage_answer(str(error), usage) from None
    return ModelAnswer(content, _end(end, response.parts), usage, model=response.model_name or "")


def _unended(response: ModelResponse, usage: Usage | None, is_stream: bool) -> CallFailed:
    """Return the failure of an answer that has no end, or a faulty one."""
    told = (response.provider_details or {}).get("finish_reason", response.finish_reason)
    if told is not None:
        # Such as a call that the model could not write: another attempt may have another outcome.
        return garbage_answer(f"the service ended the answer with {told}", usage)
    if is_stream:
        return broken_stream("the stream ended before the answer did")
    return garbage_answer("the answer does not say why it stopped", usage)


def _end(end: str, parts: Sequence[ModelResponsePart]) -> str:
    """Return the end of an answer: Responses does not tell calls from words."""
    return "tool_use" if end == "end_turn" and any(map(is_call, parts)) else end


def usage_of(usage: RequestUsage) -> Usage | None:
    """Return the tokens of a call; None if the service did not tell them, or they cannot be believed.

    The input of the layer includes what was read from the cache and written to it, and its output includes
    reasoning.
    """
    taken, made = usage.input_tokens, usage.output_tokens
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    is_told = not getattr(usage, "unmeasured_requests", 0)
    # No call is without input.
    if not is_told or not 0 < taken <= TOKENS_MAX or not _are_counts(made, read, written):
        return None
    # A service that does not count the cached part as input tells the rest.
    fresh = taken - read - written
    return Usage(taken if fresh < 0 else fresh, made, read, written)


def _are_counts(*counts: int) -> bool:
    return all(0 <= count <= TOKENS_MAX for count in counts)
