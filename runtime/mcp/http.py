"""A server behind HTTP: the SDK's transport with a client that notes how far a request came.

A failure of the network is turned into an answer, so that it ends its own call only, not the connection of
all. An answer has a limit, since it is held in memory.

The body of each answer is read here first, and handed to the SDK as a stream of events that it can read:

JSON or events, of any content type       the messages in it; one without an id, or with another, answers the
                                          request whose body it is
whole, and neither                        begins as JSON: an answer that cannot be read; else none
cut off                                   no answer
status 400 and above                      an answer if it has the id of the request, else a status
"""

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from callboard.runtime.mcp.foreign_json import CURRENT, Sending, parsed, shown
from callboard.runtime.mcp.wire import Message, Wire, error_of, same_id
from callboard.runtime.models.watched import unpacked

if TYPE_CHECKING:
    from callboard.runtime.mcp.options import Auth

ANSWER_BYTES_MAX: Final = 32 * 2**20  # bytes of one answer: twice what one value of the log may have
_CONNECT_S: Final = 30.0
_EVENTS: Final = "text/event-stream"
_SESSION: Final = "mcp-session-id"
_NO_METHOD: Final = -32601
_FIELDS: Final = (b"event:", b"data:", b"id:", b"retry:", b":")  # with which a stream of events begins
_FIELD_BYTES: Final = max(map(len, _FIELDS))  # chunks may be of any size
_BLANK: Final = b" \t\r\n\xef\xbb\xbf"
_NOT_SENT: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
)


def http_client(
    headers: Mapping[str, str],
    wire: Wire,
    auth: "Auth | None" = None,
    on_failure: Callable[[], object] | None = None,
) -> httpx2.AsyncClient:
    """Return a client for one server. The time of an answer is bounded by the call, not here.

    on_failure: called when a request was not taken, where its answer comes by another one (SSE).
    """
    timeout = httpx2.Timeout(_CONNECT_S, read=None)
    return _Client(wire, on_failure, headers=dict(headers), auth=auth, timeout=timeout)


@contextlib.asynccontextmanager
async def http_server(
    url: str, headers: Mapping[str, str], wire: Wire, auth: "Auth | None" = None
) -> AsyncIterator[Any]:
    """Yield the streams of the messages of a server."""
    async with (
        http_client(headers, wire, auth) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=None) as (read, write),
    ):
        yield read, _Noting(write, wire)


@contextlib.asynccontextmanager
async def sse_server(
    url: str,
    own_headers: Mapping[str, str],
    wire: Wire,
    own_auth: "Auth | None",
    on_failure: Callable[[], object],
) -> AsyncIterator[Any]:
    """Yield the streams of the messages of a server of the old transport, whose answers come by one stream.

    on_failure: called when a request was not taken, since then the stream is of a session that is gone.
    """

    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return http_client(own_headers, wire, own_auth, on_failure)

    async with sse_client(url, httpx_client_factory=client) as (read, write):
        yield read, _Noting(write, wire)


class _Noting:
    """The SDK's stream of outgoing messages, which are noted in the task of their call."""

    def __init__(self, stream: Any, wire: Wire) -> None:
        self._stream = stream
        self._wire = wire

    async def send(self, item: SessionMessage, /) -> None:
        """Send one message."""
        self._wire.sent(item.message)
        await self._stream.send(item)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> "_Noting":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stream.aclose()


class _Client(httpx2.AsyncClient):
    def __init__(self, wire: Wire, on_failure: Callable[[], object] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._wire = wire
        self._on_failure = on_failure

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request, and note in its `Sending` whether it may have left and how it failed."""
        sending = self._sending(request)
        sending.has_left = True  # until the opposite is known
        sending.failure, sending.status = "", 0  # not those of an earlier request
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            sending.has_left = not isinstance(error, _NOT_SENT)
            sending.failure = f"{type(error).__name__}: {error}"
            return self._taken(request) or httpx2.Response(503, request=request)
        sending.status = response.status_code
        if response.is_stream_consumed:
            return response
        body = _Body(response, sending, self._wire, _asked(request))
        if response.status_code >= 400:
            failed = await body.failed(request)
            return self._taken(request) or failed
        if not (response.is_success and self._is_read(request, response, body)):
            return response
        # The SDK takes 202 as the absence of an answer, and so does it an empty stream.
        headers = {"content-type": _EVENTS}
        if session := response.headers.get(_SESSION):
            headers[_SESSION] = session
        return httpx2.Response(200, headers=headers, stream=body, request=request)

    def _sending(self, request: httpx2.Request) -> Sending:
        """Return the state that a request changes: that of the current task only if its answer is asked for.

        The task of a call sends more than the call, such as a cancellation, or a GET that asks for the rest
        of a stream that broke off. If these are refused, the call has still been sent.
        """
        opens = self._on_failure is not None and request.method == "GET"  # the stream of all answers
        own = CURRENT.get() if opens or _asked(request) is not None else None
        return own or Sending()

    def _is_read(self, request: httpx2.Request, response: httpx2.Response, body: "_Body") -> bool:
        """Return whether messages come by this response."""
        if request.method == "POST":
            return body.answers and self._on_failure is None
        return _type_of(response) == _EVENTS

    def _taken(self, request: httpx2.Request) -> httpx2.Response | None:
        """Return a response for a request that failed, whose answer would come by another one."""
        if self._on_failure is None or request.method != "POST":
            return None
        self._on_failure()
        return httpx2.Response(202, request=request)


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, as events that the SDK can read. It ends early where the connection fails.

    asked: the id of the request that the body answers; None for a stream of messages of all kinds.
    """

    def __init__(self, response: httpx2.Response, sending: Sending, wire: Wire, asked: object) -> None:
        self._response = response
        self._sending = sending
        self._wire = wire
        self._asked = asked
        self._chunks = _Chunks(response, sending)

    @property
    def answers(self) -> bool:
        """Return whether the body answers a request."""
        return self._asked is not None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        begin = await self._chunks.begin()
        is_json = begin.startswith((b"{", b"["))
        if is_json or not (begin.startswith(_FIELDS) or _type_of(self._response) == _EVENTS):
            for message in self._messages(await self._chunks.rest()):
                yield _event(message)
            return
        self._chunks.is_stream = True
        is_text = not begin.startswith(_FIELDS)  # a stream may begin with an unknown field, too
        headers, asked = {"content-type": _EVENTS}, self._response.request
        held = httpx2.Response(200, headers=headers, stream=self._chunks, request=asked)
        try:
            async for event in httpx2.EventSource(held, max_event_size=ANSWER_BYTES_MAX):
                is_text = False
                for piece in self._pieces(event):
                    yield piece
        except httpx2.SSEError:
            for message in self._above(begin):
                yield _event(message)
        if is_text:
            self._no_message(begin)

    def _pieces(self, event: httpx2.ServerSentEvent) -> list[bytes]:
        """Return an event for the SDK: its fields, and its messages as the wire reads them."""
        fields = f"id: {event.id}\n" if event.id else ""
        fields += f"retry: {event.retry}\n" if event.retry is not None else ""
        if event.event == "endpoint":
            return [f"event: endpoint\ndata: {event.data}\n\n".encode()]
        if event.event not in ("message", "error") or not event.data:  # `error`: some servers name errors so
            return [f"{fields}data: \n\n".encode()] if fields else []
        data = event.data.encode(errors="replace")
        try:
            messages = self._wire.read(data, self._asked)
        except ValueError as error:
            if self._chunks.is_over:
                return []  # it was cut
            messages = self._wire.broken(data, f"an event that cannot be read ({error})", self._asked)
        return [fields.encode() + _event(message) for message in messages]

    def _messages(self, body: bytes) -> list[Message]:
        """Return the messages of a body that is not a stream of events."""
        if self._chunks.is_above:
            return self._above(body)
        is_json = body.lstrip(_BLANK).startswith((b"{", b"["))
        try:
            return self._wire.read(body, self._asked) if is_json else self._no_message(body)
        except ValueError as error:
            headers = self._response.headers
            # Else the end of the body is that of the connection, and it may have been cut.
            is_framed = "content-length" in headers or "transfer-encoding" in headers
            if self._chunks.is_cut or not is_framed:
                return []
            return self._wire.broken(body, f"a body that cannot be read ({error})", self._asked)

    def _no_message(self, body: bytes) -> list[Message]:
        if body and not self._chunks.is_cut:
            kind = _type_of(self._response) or "a body"
            begin = shown(body[:200].decode(errors="replace"))
            self._sending.failure = f"it answered with {kind} that is not a message: {begin}"
        return []

    def _above(self, begin: bytes) -> list[Message]:
        self._sending.failure = why = f"its answer is above {ANSWER_BYTES_MAX:,} bytes"
        return self._wire.broken(begin[:1_000], why, self._asked) if self.answers and begin else []

    async def failed(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response for a status of 400 and above, and note the answer with the request's id."""
        response, sending = self._response, self._sending
        await self._chunks.begin()
        body = await self._chunks.rest()
        await self.aclose()
        words = f": {shown(body[:200].decode(errors='replace'))}" if body else ""
        sending.failure = sending.failure or f"it answered with HTTP status {response.status_code}{words}"
        with contextlib.suppress(ValueError):
            given = parsed(body)
            if isinstance(given, dict) and given.get("error") is not None:
                error = error_of(given["error"])
                sending.failure = f"it answered with HTTP status {response.status_code}: {error.message}"
                # The protocol says that this status ends the session; its server looks at no request.
                is_gone = response.status_code == 404 and _SESSION in request.headers
                is_answer = self.answers and same_id(given.get("id"), self._asked)
                if is_answer and (not is_gone or error.code == _NO_METHOD):
                    self._wire.read(body)
        kind = {"content-type": _type_of(response)}  # a stranger chooses no codec
        return httpx2.Response(response.status_code, headers=kind, content=body, request=request)

    async def aclose(self) -> None:
        """Close the answer."""
        await self._chunks.aclose()


class _Chunks(httpx2.AsyncByteStream):
    """The decoded bytes of a body from its first character on.

    is_cut: the connection failed before the end. is_above: it was left at the limit. is_stream: its events
    are limited, not the whole. is_over: all has come, and what comes now is an event that was not ended.
    """

    def __init__(self, response: httpx2.Response, sending: Sending) -> None:
        self._response = response
        self._source = unpacked(response)
        self._sending = sending
        self._begin = b""
        self._size = 0
        self.is_cut = False
        self.is_above = False
        self.is_stream = False
        self.is_over = False

    async def begin(self) -> bytes:
        """Read to the first characters that are not a space, and return the bytes from there on."""
        while len(self._begin) < _FIELD_BYTES and (chunk := await self._next()):
            self._begin = (self._begin + chunk).lstrip(_BLANK)
        return self._begin

    async def rest(self) -> bytes:
        """Return all bytes up to the limit."""
        return b"".join([chunk async for chunk in self])

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunk = self._begin
        while chunk:
            yield chunk
            chunk = await self._next()
        self.is_over = True
        if self.is_stream:
            yield b"\n\n"

    async def _next(self) -> bytes:
        """Return more bytes; none at the end, at the limit, and where the connection fails."""
        try:
            async for chunk in self._source:
                self._size += len(chunk)
                self.is_above = self._size > ANSWER_BYTES_MAX and not self.is_stream
                return b"" if self.is_above else chunk
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            self.is_cut = True
            self._sending.failure = f"{type(error).__name__}: {error}"
        return b""

    async def aclose(self) -> None:
        """Close the answer."""
        with contextlib.suppress(RuntimeError):  # it is being read
            await self._source.aclose()
        await self._response.aclose()


def _asked(request: httpx2.Request) -> object:
    """Return the id of the request that a POST carries; None if it carries none."""
    if request.method != "POST":
        return None
    try:
        sent = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):
        return None
    return sent.get("id") if isinstance(sent, dict) and "method" in sent else None


def _type_of(response: httpx2.Response) -> str:
    kind = response.headers.get("content-type", "")
    return str(kind.partition(";")[0].strip().lower())


def _event(message: Message) -> bytes:
    return f"data: {message.model_dump_json(by_alias=True, exclude_unset=True)}\n\n".encode()
