"""The meaning of each error of the Messages API: its code, retry or not, the wait, and its cost.

    answer                                        code                       retry  usage
    400 invalid_request_error                     invalid_request_error      no     none
    any whose message says the context is full    context_full               no     as its status
    401 402 403 404                               the service's error type   no     none
    408 409 429                                   the service's error type   yes    none (408: unknown)
    413                                           context_full               no     none
    500 502 504                                   the service's error type   yes    unknown
    503 529                                       the service's error type   yes    none
    any status without the service's error form   http_<status>              as above
    an error event in a stream                    the service's error type   by type   unknown once begun
    nothing came for too long                     timeout                    yes    unknown
    no connection in time                         timeout                    yes    none
    no connection                                 connection                 yes    none
    the connection broke before any answer        connection                 yes    unknown
    the answer broke off                          broken_stream              yes    unknown
    an answer of the wrong form                   garbage                    yes    unknown unless it says
    a stream with unknown parts                   unsupported_stream         no     as it says

`x-should-retry: true|false` overrides the column "retry" of a status, but not of a full context. The types
come from https://platform.claude.com/docs/en/api/errors and from recorded traffic. Where tokens may have been
billed, usage is "unknown", and the whole reservation is charged.
"""

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar

from callboard.actors.protocol.usage import ZERO, Usage
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.failure_text import failure_text

T = TypeVar("T")

MESSAGE_CHARS_MAX: Final = 4_000  # of a service; the port redacts its secrets and keeps the first quarter
RETRY_AFTER_MS_MAX: Final = 24 * 60 * 60 * 1_000
_RETRYABLE_TYPES: Final = frozenset({"overloaded_error", "rate_limit_error", "api_error", "timeout_error"})
_RETRYABLE_STATUSES: Final = frozenset({408, 409, 429})
_USED_NOTHING: Final = frozenset({503, 529})
_CONTEXT_FULL: Final = ("prompt is too long", "exceed context limit")


class CallFailed(Exception):
    """A call without an answer. usage: the tokens it used; None if they are not known."""

    def __init__(self, failure: ModelFailure, usage: Usage | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.usage = usage


def garbage_answer(what: str, usage: Usage | None = None) -> CallFailed:
    """Return the error for an answer of the wrong form."""
    # Retryable: a proxy answers so while its service is starting.
    return CallFailed(ModelFailure("garbage", what, is_retryable=True), usage)


def broken_stream(what: str, usage: Usage | None = None) -> CallFailed:
    """Return the error for an answer that broke off."""
    return CallFailed(ModelFailure("broken_stream", what, is_retryable=True), usage)


def service_error(
    status: int, headers: Mapping[str, str], body: object, *, has_begun: bool = True, text: str = ""
) -> CallFailed:
    """Return the error that a service reports, by a status or inside an answer of status 200.

    body: the decoded error document, or any other body. has_begun: in a 200 answer, tokens may have been
    made. text: the body as text, if it is not an error document.
    """
    kind, message = _type_and_message(body)
    told = _message(status, kind, message or text, headers.get("request-id", ""))
    wait_ms = retry_after_ms(headers)
    if status == 413 or any(mark in message for mark in _CONTEXT_FULL):
        failure = ModelFailure("context_full", told, is_retryable=False, retry_after_ms=wait_ms)
    else:
        may_retry = _is_worth_another_try(status, kind, headers)
        failure = ModelFailure(kind or f"http_{status}", told, may_retry, wait_ms)
    return CallFailed(failure, ZERO if _is_free(status, has_begun) else None)


def _type_and_message(body: object) -> tuple[str, str]:
    error = or_empty(dict, or_empty(dict, body).get("error"))
    return or_empty(str, error.get("type")), or_empty(str, error.get("message"))


def or_empty(kind: type[T], value: object) -> T:
    """Return a part of foreign JSON if it is of this kind, else an empty one."""
    return value if isinstance(value, kind) else kind()


def _message(status: int, kind: str, message: str, request_id: str) -> str:
    head = f"the service answered {status} {kind}".rstrip() if status != 200 else f"the service said {kind}"
    tail = f" (request {request_id})" if request_id else ""
    return (f"{head}: {message}" if message else head) + tail


def _is_free(status: int, has_begun: bool) -> bool:
    if status == 200:
        return not has_begun
    return status in _USED_NOTHING or (status < 500 and status != 408)


def _is_worth_another_try(status: int, kind: str, headers: Mapping[str, str]) -> bool:
    if status == 200:
        return kind in _RETRYABLE_TYPES
    told = headers.get("x-should-retry", "")
    if told in ("true", "false"):
        return told == "true"
    return status in _RETRYABLE_STATUSES or status >= 500


def retry_after_ms(headers: Mapping[str, str]) -> int | None:
    """Return the wait that the service asks for, at most a day; None if it asks for none.

    headers: may hold `retry-after-ms` or `retry-after`, in seconds or as a date.
    """
    wait = _number(headers.get("retry-after-ms"))
    if wait is None:
        seconds = _number(headers.get("retry-after"))
        wait = _until(headers) if seconds is None else seconds * 1_000
    return None if wait is None else min(max(math.ceil(wait), 0), RETRY_AFTER_MS_MAX)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _until(headers: Mapping[str, str]) -> float | None:
    try:
        # Counted from the answer's own `Date`, so that the local clock does not matter.
        until = parsedate_to_datetime(headers.get("retry-after", ""))
        return (until - parsedate_to_datetime(headers.get("date", ""))).total_seconds() * 1_000
    except (TypeError, ValueError, OverflowError):
        return None


def failure_of(error: Exception) -> CallFailed:
    """Convert any exception of the SDK, its HTTP client or our own code to a CallFailed."""
    import anthropic
    import httpx2

    if isinstance(error, CallFailed):
        return error
    if isinstance(error, anthropic.APIStatusError):
        text = error.body.strip() if isinstance(error.body, str) else ""
        return service_error(error.status_code, error.response.headers, error.body, text=text)
    if isinstance(error, (anthropic.APITimeoutError, httpx2.TimeoutException, TimeoutError)):
        return _timed_out(error)
    if isinstance(error, anthropic.APIConnectionError):
        return _unconnected(error)
    if isinstance(error, (httpx2.TransportError, httpx2.StreamError)):
        return broken_stream(f"the answer broke off: {failure_text(error)}")
    if isinstance(error, httpx2.DecodingError):
        return garbage_answer(f"the answer cannot be decompressed: {failure_text(error)}")
    return CallFailed(ModelFailure("model_crashed", f"the model's own code failed: {failure_text(error)}"))


def _timed_out(error: Exception) -> CallFailed:
    import httpx2

    cause = error.__cause__ or error
    is_unsent = isinstance(cause, (httpx2.ConnectTimeout, httpx2.PoolTimeout))
    what = "no connection in time" if is_unsent else "no answer in time"
    failure = ModelFailure("timeout", f"{what} ({type(cause).__name__})", is_retryable=True)
    return CallFailed(failure, ZERO if is_unsent else None)


def _unconnected(error: Exception) -> CallFailed:
    import httpx2

    cause = error.__cause__ or error  # the SDK's own message is always "Connection error."
    is_ours = isinstance(cause, (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError, UnicodeError))
    is_unsent = is_ours or isinstance(cause, (httpx2.ConnectError, httpx2.ProxyError))
    failure = ModelFailure("connection", f"no answer: {failure_text(cause)}", is_retryable=not is_ours)
    return CallFailed(failure, ZERO if is_unsent else None)


def for_log(message: str, secrets: tuple[str, ...]) -> str:
    """Prepare a message for the log: remove secrets and limit its length."""
    for secret in secrets:
        message = message.replace(secret, "[secret]")
    return message if len(message) <= MESSAGE_CHARS_MAX else message[: MESSAGE_CHARS_MAX - 1] + "…"
