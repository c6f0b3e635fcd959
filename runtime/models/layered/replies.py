"""The answer of a call through the layer, or its failure.

The answer of the layer as a `ModelAnswer`: blocks, the reason for its end, and usage, counted once.

The failure of a call through the layer, from its exception and from the answer that came.

    the call                                       its failure is that of
    failed on its way                              `Exchange.failed`
    was answered with another status than 200      the answer, by `service_errors`
    has an error in its answer                     that error, by `service_errors`
    broke off                                      the HTTP client
    has an answer that the layer cannot read       `unreadable`

The layer's own categories of errors are not used: they are made of fewer words, for fewer services.

The part of the layer's models that a call uses.
"""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from pydantic_ai.exceptions import AgentRunError, ModelAPIError, ModelConnectionError, UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponsePart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.failure_text import failure_text, text_of
from callboard.runtime.models.answer_bodies import TOKENS_MAX, Told, documents_of, error_in, is_error, parsed
from callboard.runtime.models.failures import UNREPORTED, Answered, CallFailed, network_failure, service_error
from callboard.runtime.models.finishes import error_of, stop_reason_of, unreadable
from callboard.runtime.models.layered.dialects import CHAT
from callboard.runtime.models.layered.parts import blocks_of, is_call
from callboard.runtime.models.layered.wire import Exchange
from callboard.runtime.models.protocol import ModelAnswer

_UNREADABLE: Final = (AgentRunError, ValueError, TypeError, AttributeError, LookupError)
_WORDS_CHARS: Final = 400  # of an error of the layer
_NATIVE: Final = re.compile(rb'"native_finish_reason"\s*:\s*"([^"\\]{1,64})"')


def failure_of(error: Exception, exchange: Exchange) -> CallFailed:
    """Convert an exception of the layer, its client or our own code to a CallFailed."""
    known = exchange.failed or error
    if isinstance(known, CallFailed):
        return known
    if exchange.status >= 300:
        return _rejected(error, exchange)
    told = error_in_answer(exchange, error) or network_failure(error.__cause__ or error)
    return told or _wrong(error, exchange)


def _wrong(error: Exception, exchange: Exchange) -> CallFailed:
    """Return the failure of an answer that the layer cannot read, or of code that cannot go on."""
    if exchange.watched is not None and exchange.wrong is not None:
        what, code = exchange.wrong
        return unreadable(what, exchange.watched, code=code)
    if exchange.watched is not None and isinstance(error, _UNREADABLE):
        words = _short(error)
        if "ended without" in words:
            return unreadable(words, exchange.watched, code="broken_stream")
        told = f"the answer is not in the form of {exchange.dialect.name}: {words}"
        return unreadable(told, exchange.watched)
    if isinstance(error, UserError):
        return CallFailed(ModelFailure("invalid_request_error", text_of(error)), ZERO)
    return CallFailed(ModelFailure("model_crashed", f"the model's own code failed: {failure_text(error)}"))


def _rejected(error: Exception, exchange: Exchange) -> CallFailed:
    """Return the failure of an answer with another status than 200."""
    body = exchange.watched.end if exchange.watched is not None else b""
    document = parsed(body)
    if document is None:
        document = body.decode("utf-8", "replace")
    near = getattr(error, "suggested_model_id", None)
    advice = f"; did you mean {near!r}?" if near else ""
    return service_error(Answered(exchange.status, exchange.headers, document, advice=advice))


def error_in_answer(exchange: Exchange, error: Exception | None = None) -> CallFailed | None:
    """Return the failure of an error that came inside an answer of status 200; None without one.

    error: of the layer, which may have words of the service.
    """
    if exchange.watched is None:
        return None
    documents = documents_of(exchange.watched.end)
    document = error_in(documents)
    if document is None:
        document = _document_of(error)
    if document is None:
        return None
    is_first = exchange.watched.body is not None and bool(documents) and all(map(is_error, documents))
    has_begun = exchange.watched.has_begun and not is_first
    return service_error(Answered(200, exchange.headers, document, has_begun))


def _document_of(error: Exception | None) -> object:
    """Return the words of the service in an error of the layer; None if they are the layer's own."""
    if not isinstance(error, ModelAPIError) or isinstance(error, ModelConnectionError):
        return None
    code = getattr(error, "provider_error_code", None)
    kind = getattr(error, "provider_error_type", None)
    body = getattr(error, "body", None)
    if not (code or kind or body):
        return None
    return {"code": code, "type": kind, "message": None if Told(body).words else error.message, "body": body}


def _short(error: Exception) -> str:
    # The layer's own words for a wrong form go on over lines, with addresses of pages about each.
    lines = text_of(getattr(error, "message", "") or error).splitlines()
    return " ".join(line.strip() for line in lines[:3])[:_WORDS_CHARS]


class Streamed(Protocol):
    """An answer that comes in pieces."""

    def __aiter__(self) -> AsyncIterator[object]:
        """Return its events."""

    def get(self) -> ModelResponse:
        """Return the whole answer, after its last event."""


class Askable(Protocol):
    """A model of the layer, or one that stands for it."""

    @property
    def base_url(self) -> str | None:
        """Return the address of the service."""

    async def request(
        self, said: list[ModelMessage], settings: ModelSettings, parameters: ModelRequestParameters, /
    ) -> ModelResponse:
        """Ask for a whole answer."""

    def request_stream(
        self, said: list[ModelMessage], settings: ModelSettings, parameters: ModelRequestParameters, /
    ) -> AbstractAsyncContextManager[Streamed]:
        """Ask for a stream."""


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
    told = _native_word(exchange) or told
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


def _native_word(exchange: Exchange) -> str:
    """Return the word for a failure of the service behind OpenRouter, which may call it `stop`; or ""."""
    end = exchange.watched.end if exchange.dialect is CHAT and exchange.watched is not None else b""
    words = [word.decode(errors="replace") for word in _NATIVE.findall(end)]
    return words[-1] if words and error_of(words[-1]) else ""


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
