"""Failed calls of any service: the parts of an answer's failure that do not depend on the service.

    situation                                     code                       retry  usage
    nothing came for too long                     timeout                    yes    unknown
    no connection in time                         timeout                    yes    none
    no connection                                 connection                 yes    none
    the connection broke before any answer        connection                 yes    unknown
    the answer broke off                          broken_stream              yes    unknown
    an answer of the wrong form                   garbage                    yes    `unreadable`
    the service names the fault                   by `service_errors`

Where the answer is lost, usage is "unknown", and the whole reservation is charged.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from callboard.actors.protocol.near_names import near_names
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.actors.protocol.value_types import ModelFailure, Sent
from callboard.runtime.failure_text import failure_text
from callboard.runtime.models.addresses import endpoint_of

T = TypeVar("T")

MESSAGE_CHARS_MAX: Final = 4_000  # of a service; the port redacts its secrets and keeps the first quarter
_NOT_SENT: Final = frozenset({"connection", "timeout", "missing_key"})  # of a call that used nothing


class CallFailed(Exception):
    """A call without an answer.

    usage: the tokens it used; None if they are not known. sent, body: its request, if that may have left.
    """

    def __init__(self, failure: ModelFailure, usage: Usage | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.usage = usage
        self.sent: Sent | None = None
        self.body = b""

    def note_request(self, sent: Sent, body: bytes) -> None:
        """Keep the request, if it may have left: a rejected one is what people want to see."""
        if self.usage != ZERO or self.failure.code not in _NOT_SENT:
            self.sent, self.body = sent, body


def garbage_answer(what: str, usage: Usage | None = None) -> CallFailed:
    """Return the error for an answer of the wrong form."""
    # Retryable: a proxy answers so while its service is starting.
    return CallFailed(ModelFailure("garbage", what, is_retryable=True), usage)


def broken_stream(what: str, usage: Usage | None = None) -> CallFailed:
    """Return the error for an answer that broke off."""
    return CallFailed(ModelFailure("broken_stream", what, is_retryable=True), usage)


def or_empty(kind: type[T], value: object) -> T:
    """Return a part of foreign JSON if it is of this kind, else an empty one."""
    return value if isinstance(value, kind) else kind()


def network_failure(error: BaseException) -> CallFailed | None:
    """Return the failure of an exception of the HTTP client; None for any other exception."""
    import httpx2

    if isinstance(error, (httpx2.TimeoutException, TimeoutError)):
        return timed_out(error)
    if isinstance(error, (httpx2.TransportError, httpx2.StreamError)):
        return broken_stream(f"the answer broke off: {failure_text(error)}")
    if isinstance(error, httpx2.DecodingError):
        return garbage_answer(f"the answer cannot be decompressed: {failure_text(error)}")
    return None


def timed_out(error: BaseException) -> CallFailed:
    """Return the failure of a call that waited too long."""
    import httpx2

    cause = _of_client(error)
    is_unsent = isinstance(cause, (httpx2.ConnectTimeout, httpx2.PoolTimeout))
    what = "no connection in time" if is_unsent else "no answer in time"
    failure = ModelFailure("timeout", f"{what} ({type(cause).__name__})", is_retryable=True)
    return CallFailed(failure, ZERO if is_unsent else None)


def unconnected(error: BaseException) -> CallFailed:
    """Return the failure of a call that had no answer at all."""
    import httpx2

    cause = _of_client(error)
    is_ours = isinstance(cause, (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError, UnicodeError))
    is_unsent = is_ours or isinstance(cause, (httpx2.ConnectError, httpx2.ProxyError))
    advice = "; check base_url, and that the server runs" * isinstance(cause, httpx2.ConnectError)
    told = f"no answer{_address(cause)}: {failure_text(cause)}{advice}"
    failure = ModelFailure("connection", told, is_retryable=not is_ours)
    return CallFailed(failure, ZERO if is_unsent else None)


def _address(error: BaseException) -> str:
    """Return ` from URL` for an error of the HTTP client that knows its request, else ""."""
    import httpx2

    with suppress(RuntimeError):  # an error that was made before its request has none
        if isinstance(error, httpx2.RequestError):
            return f" from {endpoint_of(str(error.request.url))}"
    return ""


def _of_client(error: BaseException) -> BaseException:
    """Return the HTTP client's own error: a provider's SDK wraps it, and says "Connection error." only."""
    import httpx2

    return error if isinstance(error, httpx2.HTTPError) else error.__cause__ or error


def for_log(message: str, secrets: tuple[str, ...]) -> str:
    """Prepare a message for the log: remove secrets and limit its length."""
    for secret in secrets:
        message = message.replace(secret, "[secret]")
    return message if len(message) <= MESSAGE_CHARS_MAX else message[: MESSAGE_CHARS_MAX - 1] + "…"


def with_near_names(failure: ModelFailure, name: str, known: Iterable[str]) -> ModelFailure:
    """Add near names to the failure of a service that does not know its model."""
    if failure.code != "not_found_error":
        return failure
    return msgspec.structs.replace(failure, message=failure.message + near_names(name, known))
