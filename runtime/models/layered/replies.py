"""The answer of the layer as a `ModelAnswer`: blocks, the reason for its end, and usage, counted once."""

from collections.abc import Sequence
from typing import Final

from pydantic_ai.messages import ModelResponse, ModelResponsePart
from pydantic_ai.usage import RequestUsage

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.usage import Usage
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.models.answer_bodies import TOKENS_MAX, documents_of
from callboard.runtime.models.failures import CallFailed
from callboard.runtime.models.finishes import error_of, stop_reason_of
from callboard.runtime.models.layered.dialects import CHAT
from callboard.runtime.models.layered.failures import error_in_answer
from callboard.runtime.models.layered.parts import blocks_of, is_call
from callboard.runtime.models.layered.wire import Exchange
from callboard.runtime.models.protocol import ModelAnswer
from callboard.runtime.models.service_errors import UNREPORTED
from callboard.runtime.models.unreadable import unreadable

_ENDS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "content_filter": "refusal",
    "tool_call": "tool_use",
}


def answer_of(response: ModelResponse, turn: int, exchange: Exchange) -> ModelAnswer:
    """Read an answer. Raises CallFailed for one that broke off, failed or has no end."""
    usage = usage_of(response.usage)
    if response.state == "incomplete":
        raise _broken("the stream ended before the answer did", exchange, usage)
    word = (response.provider_details or {}).get("finish_reason")
    told = word if isinstance(word, str) else ""
    if not told and exchange.dialect is CHAT and exchange.is_stream:
        told = _lost_word(exchange)
    if code := error_of(told):
        if (failed := error_in_answer(exchange)) is not None:
            raise failed
        failure = ModelFailure(code, f"the service ended the answer with {told}", is_retryable=True)
        raise CallFailed(failure, usage or UNREPORTED)
    end = stop_reason_of(told) or _ENDS.get(response.finish_reason or "")
    if end is None:
        if not told:
            raise _unended(exchange, usage)
        end = "end_turn"
    try:
        content: Json = blocks_of(response.parts, turn, exchange.refused)
    except InvalidPrompt as error:
        raise _broken(str(error), exchange, usage, code="garbage") from None
    return ModelAnswer(content, _end(end, response.parts), usage, model=response.model_name or "")


def _lost_word(exchange: Exchange) -> str:
    """Return the word for the end of a stream of Chat that the layer has lost: it came without a delta."""
    assert exchange.watched is not None
    for document in reversed(documents_of(exchange.watched.end)):
        choices = document.get("choices") if isinstance(document, dict) else None
        choice = choices[0] if isinstance(choices, list) and choices else None
        word = choice.get("finish_reason") if isinstance(choice, dict) else None
        if word and isinstance(word, str):
            return word
    return ""


def _unended(exchange: Exchange, usage: Usage | None) -> CallFailed:
    """Return the failure of an answer that has no end."""
    if exchange.is_stream:
        return _broken("the stream ended before the answer did", exchange, usage)
    return _broken("the answer does not say why it stopped", exchange, usage, code="garbage")


def _broken(what: str, exchange: Exchange, usage: Usage | None, code: str = "broken_stream") -> CallFailed:
    assert exchange.watched is not None
    return unreadable(what, exchange.watched, usage, code=code)


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
