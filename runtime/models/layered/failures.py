"""The meaning of the errors of a service that is called through the layer: code, retry, wait and cost.

The layer sorts the errors of all services into categories. Each has the code of the Messages API for it:

    category of the layer        code                   retry
    context window exceeded      context_full           no
    quota exceeded               billing_error          no
    rate limit                   rate_limit_error       yes
    overloaded, unavailable      overloaded_error       yes
    timeout                      timeout_error          yes
    server error                 api_error              yes
    not found                    not_found_error        no
    bad key, with status 400     authentication_error   no
    rejected request             invalid_request_error  no
    any other                    by its status          by its status

The retry of a status is that of `x-should-retry` where the answer has one. Usage is none for a rejection
before generation (a status below 500 but 408; 503 and 529), else unknown.
"""

from typing import Final

from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UserError,
)

from callboard.actors.protocol.usage import ZERO
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.failure_text import failure_text, text_of
from callboard.runtime.models.failures import (
    MESSAGE_CHARS_MAX,
    CallFailed,
    broken_stream,
    garbage_answer,
    is_free,
    network_failure,
    or_empty,
    retry_after_ms,
)
from callboard.runtime.models.layered.wire import Exchange

_CATEGORIES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (ModelContextWindowExceededError, "context_full"),
    (ModelQuotaExceededError, "billing_error"),
    (ModelRateLimitError, "rate_limit_error"),
    (ModelUnavailableError, "overloaded_error"),
    (ModelTimeoutError, "timeout_error"),
    (ModelServerError, "api_error"),
    (ModelNotFoundError, "not_found_error"),
)
_STATUSES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "context_full",
    422: "invalid_request_error",
    429: "rate_limit_error",
    500: "api_error",
    502: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_RETRYABLE: Final = frozenset({"rate_limit_error", "overloaded_error", "timeout_error", "api_error"})
_FINAL: Final = frozenset({"context_full", "billing_error"})
_CONTEXT_FULL: Final = (
    "maximum context length",
    "context_length_exceeded",
    "exceeds the context",
    "exceed_context",
    "context window",
    "prompt is too long",
    "input is too long",
    "exceeds the maximum number of tokens",
)
_UNREADABLE: Final = (AgentRunError, ValueError, TypeError, AttributeError, LookupError)
_TEXT_CHARS: Final = 400  # of a body that is no error document


def failure_of(error: Exception, exchange: Exchange) -> CallFailed:
    """Convert an exception of the layer, its client or our own code to a CallFailed."""
    known = exchange.failed or error
    if isinstance(known, CallFailed):
        return known
    if exchange.status >= 300:
        return _rejected(error, exchange)
    return _in_answer(error, exchange) or network_failure(error.__cause__ or error) or _wrong(error, exchange)


def _wrong(error: Exception, exchange: Exchange) -> CallFailed:
    """Return the failure of an answer that the layer cannot read, or of code that cannot go on."""
    if exchange.status and isinstance(error, _UNREADABLE):
        return garbage_answer(f"the answer is not in the form of {exchange.dialect.name}: {_short(error)}")
    if isinstance(error, UserError):
        return CallFailed(ModelFailure("invalid_request_error", text_of(error)), ZERO)
    return CallFailed(ModelFailure("model_crashed", f"the model's own code failed: {failure_text(error)}"))


def _rejected(error: Exception, exchange: Exchange) -> CallFailed:
    status, message = exchange.status, _message(error)
    code = _code(error, message) or _code_of_key(error, status) or _STATUSES.get(status, f"http_{status}")
    near = getattr(error, "suggested_model_id", None)
    advice = f"; did you mean {near!r}?" if near else ""
    request_id = exchange.headers.get("x-request-id") or exchange.headers.get("request-id")
    tail = f" (request {request_id})" if request_id else ""
    text = f"the service answered {status} {code}: {message}{advice}{tail}"
    may_retry = code not in _FINAL and _may_retry(exchange)
    failure = ModelFailure(code, text, may_retry, _wait_ms(error, exchange))
    return CallFailed(failure, ZERO if is_free(status, False) else None)


def _code_of_key(error: Exception, status: int) -> str:
    """Return the code of a bad key that comes as a bad request; "" for any other rejection."""
    return "authentication_error" * (status == 400 and isinstance(error, ModelAuthenticationError))


def _wait_ms(error: Exception, exchange: Exchange) -> int | None:
    """Return the wait that the service asks for, in a header or in its error document."""
    wait = retry_after_ms(exchange.headers)
    told = getattr(error, "retry_after", None)
    if wait is not None or not isinstance(told, (int, float)):
        return wait
    return retry_after_ms({"retry-after": str(told)})


def _may_retry(exchange: Exchange) -> bool:
    told = exchange.headers.get("x-should-retry", "")
    if told in ("true", "false"):
        return told == "true"
    return exchange.status in (408, 409, 429) or exchange.status >= 500


def _in_answer(error: Exception, exchange: Exchange) -> CallFailed | None:
    """Return the failure of an error that came inside an answer of status 200; None for any other error."""
    if not isinstance(error, ModelAPIError) or isinstance(error, ModelConnectionError):
        return None
    message = _message(error)
    code = _code(error, message) or ("invalid_request_error" * isinstance(error, ModelRequestRejectedError))
    if not code:
        return broken_stream(message) if "ended without" in message else garbage_answer(message)
    failure = ModelFailure(code, f"the service said {code}: {message}", code in _RETRYABLE)
    return CallFailed(failure, None if exchange.has_begun else ZERO)


def _code(error: Exception, message: str) -> str:
    """Return the code of an error by its category or its words; "" for one that has neither."""
    lower = message.lower()
    if any(mark in lower for mark in _CONTEXT_FULL):
        return "context_full"
    return next((code for category, code in _CATEGORIES if isinstance(error, category)), "")


def _message(error: Exception) -> str:
    """Return the words of the service, as far as the answer has some."""
    body: object = getattr(error, "body", None)
    told = body if isinstance(body, str) else _told(or_empty(dict, body))
    if "<html" in told[:_TEXT_CHARS].lower():
        return "a web page; check base_url"
    return told.strip()[:MESSAGE_CHARS_MAX] or _short(error)


def _told(body: dict[str, object]) -> str:
    """Return the words of an error document."""
    inner = or_empty(dict, body.get("error") or body.get("Error"))
    words = (part.get(name) for part in (body, inner) for name in ("message", "Message"))
    return next(filter(None, (or_empty(str, one) for one in words)), "")


def _short(error: Exception) -> str:
    # The layer's own words for a wrong form go on over lines, with addresses of pages about each.
    lines = text_of(getattr(error, "message", "") or error).splitlines()
    return " ".join(line.strip() for line in lines[:3])[:_TEXT_CHARS]
