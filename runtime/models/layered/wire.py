"""The HTTP side of a call: one request goes out, completed and digested, and its answer is watched.

The layer is given the new messages of a conversation only. The items that it writes of them are taken from it
before they get to the provider's client, which would walk through each of their values; that gets a body
without a conversation. `LayeredClient.send` puts all items in, the earlier ones as the bytes that were sent.
One call sends one request: a client or layer that would send a second one gets an error instead.
"""

import hashlib
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, Literal

import httpx2
import msgspec

from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.models.answer_bodies import documents_of, error_in, start_of
from callboard.runtime.models.failures import (
    Answered,
    CallFailed,
    network_failure,
    service_error,
    unconnected,
)
from callboard.runtime.models.finishes import unreadable
from callboard.runtime.models.layered.bodies import (
    NOTHING_NEW,
    New,
    items_of,
    joined,
    split,
    with_ids,
    with_mark,
)
from callboard.runtime.models.layered.dialects import RESPONSES, Dialect
from callboard.runtime.models.layered.mending import joined_answer, mended
from callboard.runtime.models.protocol import OnText
from callboard.runtime.models.translator import endpoint_of
from callboard.runtime.models.watched import Watched, watch

_SHOWN_CHARS: Final = 200


class Captured(Exception):
    """The end of a request that is only to be written, not to be sent."""


class OtherForm(Exception):
    """The end of a reading: the answer is whole where a stream was asked for, or the other way round."""


Capture = Literal["", "items", "body"]
"""How far a request is written that is not sent: its new items, or its body. "" for one that is sent."""


class Exchange:
    """One call on its way.

    known: the items of the conversation before those that the layer writes. new: of these. params: further
    keys of the body. is_placeholder: the layer's own items stand for none. capture: the request is not sent.

    written: the items that the layer wrote. body: as it was sent. failed: the reason, if the call failed
    here. wrong: the reason why its answer cannot be read, and the code of that failure, if it was found here.
    status, headers: of the answer. watched: its bytes; None before.
    mark: for the cache, put at the end of the conversation; None for none. tools: the names of those that are
    offered. is_stream: the answer is read as a stream. other: the answer, for the reader of the other form.
    on_text: told of the text of a stream that the layer gets as a whole answer; None for any other.
    has_told: it was. refused: for each call of the answer the reason not to run it, "" to run it.
    """

    def __init__(
        self,
        dialect: Dialect,
        known: bytes = b"",
        new: New = NOTHING_NEW,
        *,
        params: Mapping[str, object] | None = None,
        is_placeholder: bool = False,
        capture: Capture = "",
    ) -> None:
        self.dialect = dialect
        self.known = known
        self.new = new
        self.params = params or {}
        self.is_placeholder = is_placeholder
        self.capture = capture
        self.written = b""
        self.body = b""
        self.failed: CallFailed | None = None
        self.wrong: tuple[str, str] | None = None
        self.status = 0
        self.headers: dict[str, str] = {}
        self.watched: Watched | None = None
        self.is_stream = False
        self.mark: JsonObject | None = None
        self.other: httpx2.Response | None = None
        self.tools: frozenset[str] = frozenset()
        self.on_text: OnText | None = None
        self.refused: list[str] = []
        self.has_told = False
        self._head: list[bytes] | None = None

    @property
    def digest(self) -> str:
        """Return the digest of the body that was sent, "" before."""
        return hashlib.sha256(self.body).hexdigest() if self.body else ""

    @property
    def items(self) -> bytes:
        """Return the whole conversation as it was sent."""
        return b",".join(filter(None, (self.known, self.written)))

    def take(self, items: Sequence[JsonObject]) -> None:
        """Take the items that the layer wrote. They are changed."""
        self._head, rest = split(self.dialect, items, self.new)
        self.written = b"" if self.is_placeholder else b",".join(rest)
        if self.capture == "items":
            raise Captured

    def complete(self, body: bytes) -> bytes:
        """Complete the body that the provider's client has written."""
        if self._head is None:
            self.take(items_of(self.dialect, body))
        sent = [one for one in (self.known, self.written) if one]
        if self.mark is not None and sent:
            sent[-1] = with_mark(sent[-1], self.mark)  # of this request only, so not in `written`
        self.body = joined(self.dialect, body, [*(self._head or ()), *sent], self.params)
        return self.body

    def answered(self, response: httpx2.Response) -> httpx2.Response:
        """Watch the answer that begins."""
        self.status = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        response, self.watched = watch(response, self.fail)
        return response

    async def aclose(self) -> None:
        """Close the connection of an answer that was not read to its end."""
        # Some clients leave that to the garbage collector when their call is cancelled.
        if self.watched is not None:
            await self.watched.close()

    def spoil(self, what: str, code: str = "garbage") -> ValueError:
        """Keep the reason why the answer cannot be read, and return it as an error to raise."""
        self.wrong = self.wrong or (what, code)
        return ValueError(what)

    def fail(self, failed: CallFailed) -> CallFailed:
        """Keep the reason why the call failed: the layer wraps every error in one of its own."""
        self.failed = self.failed or failed
        return failed


EXCHANGE: Final[ContextVar[Exchange]] = ContextVar("exchange")


class LayeredClient(httpx2.AsyncClient):
    """The HTTP client that the provider's client gets."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send the request of this call, once."""
        exchange = EXCHANGE.get()
        if exchange.other is not None:  # it has come, and the library reads it in the other way
            response, exchange.other = exchange.other, None
            return response
        if exchange.body:
            why = "the library would send a second request for this call, which is refused"
            raise exchange.fail(CallFailed(ModelFailure("garbage", why)))
        body = exchange.complete(request.content)
        if exchange.capture:
            raise Captured
        is_stream = options.pop("stream", False)
        response = await self._sent(exchange, self._with_body(request, body), options)
        if exchange.status == 200:
            return await _in_form(exchange, response, is_stream)
        if not is_stream:
            await response.aread()
        return response

    def _with_body(self, request: httpx2.Request, body: bytes) -> httpx2.Request:
        headers = request.headers.copy()
        headers["content-length"] = str(len(body))
        # Some clients pass one number for all phases, which would lengthen the time to connect.
        extensions = {**request.extensions, "timeout": self.timeout.as_dict()}
        return httpx2.Request(
            request.method, request.url, headers=headers, content=body, extensions=extensions
        )

    async def _sent(
        self, exchange: Exchange, request: httpx2.Request, options: dict[str, Any]
    ) -> httpx2.Response:
        try:
            response = await super().send(request, stream=True, **{**options, "follow_redirects": False})
        except httpx2.TimeoutException as error:
            raise exchange.fail(network_failure(error) or unconnected(error)) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
            raise exchange.fail(unconnected(error)) from error
        response = exchange.answered(response)
        response.encoding = "utf-8"  # a stranger chooses no codec: that of `punycode` is quadratic
        return response


async def _in_form(exchange: Exchange, response: httpx2.Response, is_stream: bool) -> httpx2.Response:
    """Return an answer of status 200 as its reader wants it: a stream, or a whole document.

    Raises OtherForm for an answer of the other form, CallFailed for one that has no reader.
    """
    dialect, watched = exchange.dialect, exchange.watched
    assert watched is not None
    form = await watched.form()
    is_wanted = is_stream or exchange.on_text is not None
    if form == dialect.stream_form or (form == "text" and is_wanted and _says_stream(exchange)):
        return await _of_stream(exchange, response, is_stream)
    if form == "json":
        whole, is_stream_too = _whole(exchange, response, await response.aread())
        return whole if is_stream == is_stream_too else _other(exchange, whole)
    if form:
        raise exchange.fail(await _unreadable(exchange, response, is_page=form == "page"))
    return response


async def _of_stream(exchange: Exchange, response: httpx2.Response, is_stream: bool) -> httpx2.Response:
    """Return a stream as its reader wants it, with its calls joined. Raises OtherForm, CallFailed."""
    if exchange.dialect is RESPONSES:
        exchange.has_told = exchange.on_text is not None
        whole = await joined_answer(exchange, response, exchange.on_text or _tell_no_one)
        return _with_content(response, whole, "application/json")
    joined = mended(exchange, response)
    return joined if is_stream else _other(exchange, joined)


def _tell_no_one(text: str) -> None:
    """Drop a text: the whole answer is told."""


def _says_stream(exchange: Exchange) -> bool:
    return exchange.headers.get("content-type", "").startswith(exchange.dialect.stream_type)


def _other(exchange: Exchange, response: httpx2.Response) -> httpx2.Response:
    exchange.other = response
    raise OtherForm


def _whole(exchange: Exchange, response: httpx2.Response, body: bytes) -> tuple[httpx2.Response, bool]:
    """Return a document of JSON as its reader takes it, and whether that is a stream.

    Raises CallFailed for an error in its place.
    """
    # The marks spare the parsing of a whole answer.
    is_list = start_of(body).startswith(b"[")
    is_plain = b'"error' not in body and any(mark in body for mark in exchange.dialect.answer_marks)
    documents = documents_of(body) if is_list or not is_plain else []
    if (error := error_in(documents)) is not None:
        raise exchange.fail(service_error(Answered(200, exchange.headers, error)))
    if is_list and documents:  # Gemini, where a proxy drops `alt=sse`
        events = b"".join(b"data: " + msgspec.json.encode(one) + b"\n\n" for one in documents)
        return mended(exchange, _with_content(response, events, "text/event-stream")), True
    named = with_ids(exchange.dialect, body)
    if named is None and exchange.headers.get("content-type", "").startswith("application/json"):
        return response, False
    return _with_content(response, named or body, "application/json"), False


def _with_content(response: httpx2.Response, content: bytes, kind: str) -> httpx2.Response:
    headers = {"content-type": kind}
    return httpx2.Response(response.status_code, headers=headers, content=content, request=response.request)


async def _unreadable(exchange: Exchange, response: httpx2.Response, *, is_page: bool) -> CallFailed:
    """Return the failure of an answer that is a page, or has no form that is known."""
    watched = exchange.watched
    assert watched is not None
    await watched.rest()
    if is_page:
        told = f"{endpoint_of(str(response.request.url))} answered with a web page: check base_url"
        return unreadable(told, watched, is_page=True)
    start = watched.end.decode("utf-8", "replace").strip()[:_SHOWN_CHARS]
    kind = exchange.headers.get("content-type", "no content type")
    return unreadable(f"the service answered with {kind}, not with an answer: {start!r}", watched)


def client_with(headers: dict[str, str], timeout_s: float, connect_timeout_s: float) -> LayeredClient:
    """Return an HTTP client. headers: sent with every request."""
    timeout = httpx2.Timeout(timeout_s, connect=connect_timeout_s)
    limits = httpx2.Limits(max_connections=1_000, max_keepalive_connections=100)
    return LayeredClient(headers=headers, timeout=timeout, limits=limits)
