"""A server behind HTTP: the SDK's transport with a client that notes how far a request came.

A failure of the network is turned into an answer, so that it ends its own call only, not the connection of
all. An answer is unpacked and cleaned before the SDK reads it, and has a limit, since it is held in memory.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import httpx2
from mcp.client.streamable_http import streamable_http_client

from callboard.runtime.mcp.sending import CURRENT, Sending
from callboard.runtime.sanitize import clean_json

if TYPE_CHECKING:
    from callboard.runtime.mcp.options import Auth

ANSWER_BYTES_MAX: Final = 32 * 2**20  # bytes of one answer: twice what one value of the log may have
_CONNECT_S: Final = 30.0
_OF_PACKING: Final = frozenset(("content-encoding", "content-length", "transfer-encoding"))
_NOT_SENT: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
)


def http_client(headers: Mapping[str, str], auth: "Auth | None" = None) -> httpx2.AsyncClient:
    """Return a client for one server. The time of an answer is bounded by the call, not here."""
    return _Client(headers=dict(headers), auth=auth, timeout=httpx2.Timeout(_CONNECT_S, read=None))


@contextlib.asynccontextmanager
async def http_server(url: str, headers: Mapping[str, str], auth: "Auth | None" = None) -> AsyncIterator[Any]:
    """Yield the streams of the messages of a server."""
    async with (
        http_client(headers, auth) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=ANSWER_BYTES_MAX) as streams,
    ):
        yield streams


class _Client(httpx2.AsyncClient):
    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request, and note in its `Sending` whether it may have left and how it failed."""
        sending = CURRENT.get() or Sending()
        sending.has_left = True  # until the opposite is known
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            sending.has_left = not isinstance(error, _NOT_SENT)
            sending.failure = f"{type(error).__name__}: {error}"
            return httpx2.Response(503, request=request)
        sending.status = response.status_code
        return response if response.is_stream_consumed else _unpacked(response, sending)


def _unpacked(packed: httpx2.Response, sending: Sending) -> httpx2.Response:
    """Return an answer whose body is unpacked and cleaned as it is read."""
    headers = [(name, value) for name, value in packed.headers.multi_items() if name not in _OF_PACKING]
    body = _Clean(packed, sending)
    clean = httpx2.Response(packed.status_code, headers=headers, stream=body, request=packed.request)
    clean.encoding = "utf-8"  # a stranger chooses no codec: that of `punycode` is quadratic
    return clean


class _Clean(httpx2.AsyncByteStream):
    """The body of an answer by whole lines, which ends early where it fails or the limit is passed."""

    def __init__(self, packed: httpx2.Response, sending: Sending) -> None:
        self._packed = packed
        self._sending = sending

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, rest = 0, list[bytes]()
        try:
            async for chunk in self._packed.aiter_bytes():
                size += len(chunk)
                if size > ANSWER_BYTES_MAX:
                    self._sending.failure = f"its answer is above {ANSWER_BYTES_MAX:,} bytes"
                    return
                # An escape may lie in two chunks, but not in two lines.
                end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
                if end:
                    yield clean_json(b"".join((*rest, chunk[:end])))
                    rest.clear()
                rest.append(chunk[end:])
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            self._sending.failure = f"{type(error).__name__}: {error}"
        if any(rest):
            yield clean_json(b"".join(rest))

    async def aclose(self) -> None:
        await self._packed.aclose()
