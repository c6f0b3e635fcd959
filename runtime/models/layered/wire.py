"""The HTTP side of a call: one request goes out, completed and digested, and its answer is watched.

The layer is given the new messages of a conversation only. The items that it writes of them are taken from it
before they get to the provider's client, which would walk through each of their values; that gets a body
without a conversation. `LayeredClient.send` puts all items in, the earlier ones as the bytes that were sent.
One call sends one request: a client or layer that would send a second one gets an error instead.
"""

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, Literal

import httpx2

from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.models.addresses import endpoint_of
from callboard.runtime.models.failures import (
    CallFailed,
    garbage_answer,
    is_page,
    network_failure,
    unconnected,
)
from callboard.runtime.models.layered.bodies import (
    NOTHING_NEW,
    New,
    items_of,
    joined,
    split,
    with_ids,
    with_mark,
)
from callboard.runtime.models.layered.dialects import Dialect, JsonObject

ANSWER_BYTES_MAX: Final = 64 * 2**20  # a larger answer is garbage
ERROR_BYTES_MAX: Final = 2**20


class Captured(Exception):
    """The end of a request that is only to be written, not to be sent."""


Capture = Literal["", "items", "body"]
"""How far a request is written that is not sent: its new items, or its body. "" for one that is sent."""


class Exchange:
    """One call on its way.

    known: the items of the conversation before those that the layer writes. new: of these. params: further
    keys of the body. is_placeholder: the layer's own items stand for none. capture: the request is not sent.

    written: the items that the layer wrote. body: as it was sent. failed: the reason, if the call failed
    here. status, headers: of the answer. has_begun: bytes of an answer with status 200 have come.
    mark: for the cache, put at the end of the conversation; None for none.
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
        self.status = 0
        self.headers: dict[str, str] = {}
        self.has_begun = False
        self.mark: JsonObject | None = None
        self._head: list[bytes] | None = None
        self._response: httpx2.Response | None = None

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

    def answered(self, response: httpx2.Response) -> None:
        """Keep the answer that begins."""
        self.status = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self._response = response

    async def aclose(self) -> None:
        """Close the connection of an answer that was not read to its end."""
        # Some clients leave that to the garbage collector when their call is cancelled.
        if self._response is not None and not self._response.is_closed:
            await self._response.aclose()

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
        if exchange.body:
            why = "the library would send a second request for this call, which is refused"
            raise exchange.fail(CallFailed(ModelFailure("garbage", why)))
        body = exchange.complete(request.content)
        if exchange.capture:
            raise Captured
        is_stream = options.pop("stream", False)
        response = await self._sent(exchange, self._with_body(request, body), options)
        await _check(exchange, response, is_stream)
        if is_stream:
            return response
        mended = with_ids(exchange.dialect, await response.aread())
        return response if mended is None else _with_content(response, mended)

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
        response.encoding = "utf-8"  # a stranger chooses no codec: that of `punycode` is quadratic
        exchange.answered(response)
        response.stream = _Watched(response.stream, exchange)  # type: ignore[arg-type]  # of an async client
        return response


def _with_content(response: httpx2.Response, content: bytes) -> httpx2.Response:
    headers = {"content-type": response.headers.get("content-type", "application/json")}
    return httpx2.Response(response.status_code, headers=headers, content=content, request=response.request)


async def _check(exchange: Exchange, response: httpx2.Response, is_stream: bool) -> None:
    """Raise CallFailed for an answer of status 200 that is no document, or no stream, of an API."""
    kind = exchange.headers.get("content-type", "").partition(";")[0].strip().lower()
    wanted = exchange.dialect.stream_type if is_stream else "application/json"
    if exchange.status != 200 or kind in ("", wanted):
        return
    start = (await _beginning(response)).decode("utf-8", "replace").strip()
    what = f"the service answered with {kind}, not {wanted}: {start[:200]!r}"
    if is_page(kind):
        what = f"{endpoint_of(str(response.request.url))} answered with a web page: check base_url"
    elif kind == "application/json":
        what = f"the service answered without a stream; pass stream=False: {start[:200]!r}"
    raise exchange.fail(garbage_answer(what))


async def _beginning(response: httpx2.Response) -> bytes:
    async for chunk in response.aiter_bytes():
        await response.aclose()
        return chunk[:ERROR_BYTES_MAX]
    return b""


class _Watched(httpx2.AsyncByteStream):
    """The bytes of an answer, with a limit, and with the reason if they break off."""

    def __init__(self, stream: httpx2.AsyncByteStream, exchange: Exchange) -> None:
        self._stream = stream
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        exchange, size = self._exchange, 0
        most = ANSWER_BYTES_MAX if exchange.status == 200 else ERROR_BYTES_MAX
        try:
            async for chunk in self._stream:
                size += len(chunk)
                if size > most:
                    raise exchange.fail(garbage_answer(f"the answer is larger than {most} bytes"))
                exchange.has_begun = exchange.has_begun or exchange.status == 200
                yield chunk
        except httpx2.HTTPError as error:
            raise exchange.fail(network_failure(error) or unconnected(error)) from error

    async def aclose(self) -> None:
        """Close the connection, or give it back to the pool."""
        await self._stream.aclose()


def client_with(headers: dict[str, str], timeout_s: float, connect_timeout_s: float) -> LayeredClient:
    """Return an HTTP client. headers: sent with every request."""
    timeout = httpx2.Timeout(timeout_s, connect=connect_timeout_s)
    limits = httpx2.Limits(max_connections=1_000, max_keepalive_connections=100)
    return LayeredClient(headers=headers, timeout=timeout, limits=limits)
