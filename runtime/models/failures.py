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

The failure of a call whose service names the fault: code, retry, wait and cost, by all that it says.

    said by                        means
    names, phrases, statuses       the code, by the table in `error_table`
    header `x-should-retry`        the retry, but not of a full context or an empty account
    the code, then the status      the retry
    headers, fields, words         the wait (`waits`)

What an attempt is charged:

    a rejection before generation (a status below 500; 503, 529)     nothing
    any answer that reports its usage                                that
    a status by which a gateway says that it lost the answer         unknown: the whole reservation
    an error in a stream after it began                              unknown, too
    any other error that came whole                                  nothing is known to be charged

The same holds for an error document with status 200, by its words.

Addresses of services.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

import msgspec

from callboard.actors.protocol.near_names import near_names
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.actors.protocol.value_types import ModelFailure, Sent
from callboard.runtime.clock import now_ms
from callboard.runtime.failure_text import failure_text
from callboard.runtime.models.answer_bodies import Told
from callboard.runtime.models.error_table import (
    DAILY,
    FINAL,
    LOST,
    PLAIN,
    REFUSED,
    RETRYABLE,
    ROWS,
    STATUSES,
    TRANSIENT,
    VAGUE,
    Row,
)
from callboard.runtime.models.translator import endpoint_of
from callboard.runtime.models.waits import wait_of

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


UNREPORTED: Final = Usage(unknown_calls=1)
"""The charge of an attempt whose answer came whole and reported no usage."""

_UNBILLED: Final = frozenset({503, 529})
_PAGE_CHARS: Final = 400
_ERROR_TYPE: Final = "x-amzn-errortype"


class Answered(NamedTuple):
    """An answer that is an error.

    status: of HTTP. headers: with names in lower case. document: decoded JSON, or a text. has_begun: in an
    answer with status 200, tokens may have been made. usage: as it reports it.
    keeps_type: the service's own type of the error is its code, where the table has nothing more exact.
    advice: for people, after the message.
    """

    status: int
    headers: Mapping[str, str]
    document: object
    has_begun: bool = False
    usage: Usage | None = None
    keeps_type: bool = False
    advice: str = ""


def service_error(answered: Answered) -> CallFailed:
    """Return the failure of a call that was answered with an error."""
    text = answered.document if isinstance(answered.document, str) else ""
    told = Told({} if text else answered.document)
    if error_type := answered.headers.get(_ERROR_TYPE):
        told.name(error_type)
    words = told.words or _redirect(answered) or _of_text(text)
    status = told.status if answered.status < 300 and told.status else answered.status
    code, is_sure = _code(told, words, {status, answered.status}, status)
    wait = _wait(answered, words, code)
    if code == "rate_limit_error" and not wait and _is_daily(told, words):
        code = "billing_error"
    own = _own_type(answered.document) if answered.keeps_type else ""
    shown = code if is_sure or not answered.keeps_type else own
    shown = shown or (code if answered.status < 300 else f"http_{status}")
    message = _message(answered, shown, words)
    failure = ModelFailure(shown, message, _may_retry(code, status, answered.headers), wait)
    return CallFailed(failure, _charge(answered, status, code))


def _code(told: Told, words: str, statuses: set[int], status: int) -> tuple[str, bool]:
    """Return the code of an error, "" for one that the table does not have; and whether its words decided."""
    text = " ".join((words, *told.raw_names)).lower()
    for row in ROWS:
        if _fits(row, told, text, statuses):
            return row.code, True
    if status in PLAIN:
        return PLAIN[status], status == 413
    if status < 500:  # at 500 and above the status itself says whose fault it is
        for row in VAGUE:
            if row.code in REFUSED and status in TRANSIENT:
                continue
            if _fits(row, told, text, statuses):
                return row.code, False
    return ("api_error" if status < 300 else STATUSES.get(status, "")), False


def _fits(row: Row, told: Told, text: str, statuses: set[int]) -> bool:
    if row.names & told.names:
        return True
    return (not row.at or bool(row.at & statuses)) and any(phrase in text for phrase in row.phrases)


def _is_daily(told: Told, words: str) -> bool:
    text = " ".join((words, *told.raw_names)).lower()
    return any(mark in text for mark in DAILY)


def _wait(answered: Answered, words: str, code: str) -> int | None:
    is_limit = code == "rate_limit_error"
    return wait_of(answered.headers, answered.document, words, now_ms(), is_limit=is_limit)


def _may_retry(code: str, status: int, headers: Mapping[str, str]) -> bool:
    if code in FINAL:
        return False
    told = headers.get("x-should-retry", "")
    if told in ("true", "false"):
        return told == "true"
    if code in RETRYABLE or code in REFUSED:
        return code in RETRYABLE
    return status in TRANSIENT or status >= 500


def _charge(answered: Answered, status: int, code: str) -> Usage | None:
    """Return the usage to charge; None for an unknown one."""
    if answered.usage is not None:
        return answered.usage
    if answered.status < 300:
        if answered.has_begun or code == "timeout_error":
            return None
        return UNREPORTED if code == "api_error" else ZERO
    if status in LOST:
        return None
    return ZERO if status < 500 or status in _UNBILLED else UNREPORTED


def _own_type(document: object) -> str:
    error = document.get("error") if isinstance(document, dict) else None
    kind = error.get("type") if isinstance(error, dict) else None
    return kind if isinstance(kind, str) else ""


def _redirect(answered: Answered) -> str:
    """Return the words for an answer that points to another address; a call with a key is not sent there."""
    place = answered.headers.get("location", "") if 300 <= answered.status < 400 else ""
    return f"it points to {place}, and redirects are not followed; check base_url" if place else ""


def _of_text(text: str) -> str:
    """Return the words of a body that is not JSON."""
    if "<html" in text[:_PAGE_CHARS].lower() or text.lstrip()[:9].lower() == "<!doctype":
        return "a web page; check base_url"
    return text.strip()


def _message(answered: Answered, code: str, words: str) -> str:
    says_status = answered.status >= 300
    own = "" if code.startswith("http_") else code
    head = f"the service answered {answered.status} {code}" if says_status else f"the service said {own}"
    request_id = answered.headers.get("x-request-id") or answered.headers.get("request-id")
    tail = f" (request {request_id})" if request_id else ""
    told = f"{head.rstrip()}: {words[:MESSAGE_CHARS_MAX]}" if words else head.rstrip()
    return told + answered.advice + tail
