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
    a stream with unknown parts                   unsupported_stream         no     as it says

`x-should-retry: true|false` overrides the column "retry" of a status, but not of a full context. The types
come from https://platform.claude.com/docs/en/api/errors and from recorded traffic. Where tokens may have been
billed, usage is "unknown", and the whole reservation is charged.
"""

from collections.abc import Mapping
from typing import Final

from callboard.actors.protocol.usage import ZERO
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.failure_text import failure_text
from callboard.runtime.models.failures import (
    CallFailed,
    is_free,
    network_failure,
    or_empty,
    retry_after_ms,
    timed_out,
    unconnected,
)

_RETRYABLE_TYPES: Final = frozenset({"overloaded_error", "rate_limit_error", "api_error", "timeout_error"})
_RETRYABLE_STATUSES: Final = frozenset({408, 409, 429})
_CONTEXT_FULL: Final = ("prompt is too long", "exceed context limit")


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
    return CallFailed(failure, ZERO if is_free(status, has_begun) else None)


def _type_and_message(body: object) -> tuple[str, str]:
    error = or_empty(dict, or_empty(dict, body).get("error"))
    return or_empty(str, error.get("type")), or_empty(str, error.get("message"))


def _message(status: int, kind: str, message: str, request_id: str) -> str:
    head = f"the service answered {status} {kind}".rstrip() if status != 200 else f"the service said {kind}"
    tail = f" (request {request_id})" if request_id else ""
    return (f"{head}: {message}" if message else head) + tail


def _is_worth_another_try(status: int, kind: str, headers: Mapping[str, str]) -> bool:
    if status == 200:
        return kind in _RETRYABLE_TYPES
    told = headers.get("x-should-retry", "")
    if told in ("true", "false"):
        return told == "true"
    return status in _RETRYABLE_STATUSES or status >= 500


def failure_of(error: Exception) -> CallFailed:
    """Convert any exception of the SDK, its HTTP client or our own code to a CallFailed."""
    import anthropic

    if isinstance(error, CallFailed):
        return error
    if isinstance(error, anthropic.APIStatusError):
        text = error.body.strip() if isinstance(error.body, str) else ""
        return service_error(error.status_code, error.response.headers, error.body, text=text)
    if isinstance(error, anthropic.APITimeoutError):
        return timed_out(error)
    if isinstance(error, anthropic.APIConnectionError):
        return unconnected(error)
    if (failed := network_failure(error)) is not None:
        return failed
    return CallFailed(ModelFailure("model_crashed", f"the model's own code failed: {failure_text(error)}"))
