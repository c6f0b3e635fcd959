"""The bytes of an answer on their way to the library that reads them.

They are counted against a limit. The first ones are there before the rest is read, the beginning is kept in
case that the library cannot read it, and the rest can be read after it gave up: then the answer has come
whole, and its usage is known.

The bytes of an answer without their compression, while the event loop goes on.

A compressed body can be a thousand times as large as it was on its way. A body of several layers could be so
at each of them, also where nothing is left of it at the end that could be counted: it is refused.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from typing import Final

import httpx2

from callboard.runtime.models.answer_bodies import (
    Form,
    form_of,
    start_of,
)
from callboard.runtime.models.failures import (
    CallFailed,
    garbage_answer,
    network_failure,
    unconnected,
)

STEP_BYTES: Final = 2**20  # that are unpacked before other tasks run


async def unpacked(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a body. Raises DecodingError for a body of several layers, or a broken one."""
    stated: str = response.headers.get("content-encoding", "")
    layers = [layer for layer in stated.lower().split(",") if layer.strip() not in ("", "identity")]
    if len(layers) > 1:
        raise httpx2.DecodingError(f"the body is compressed {len(layers)} times", request=response.request)
    size = 0
    async for piece in response.aiter_bytes():
        yield piece
        size += len(piece)
        if size >= STEP_BYTES:
            size = 0
            await asyncio.sleep(0)


ANSWER_BYTES_MAX: Final = 64 * 2**20  # a larger answer is garbage
ERROR_BYTES_MAX: Final = 2**20
KEPT_BYTES_MAX: Final = 2**16  # of an answer with status 200
REST_S: Final = 5.0  # for the rest of an answer that could not be read
_LAST: Final = 4  # chunks


class Watched(httpx2.AsyncByteStream):
    """The bytes of one answer. is_whole: its end has come. fail: keeps the reason if the bytes break off."""

    def __init__(
        self, stream: httpx2.AsyncByteStream, status: int, fail: Callable[[CallFailed], CallFailed]
    ) -> None:
        self.is_whole = False
        self.has_begun = False
        self._stream = stream
        self._chunks = aiter(stream)
        self._fail = fail
        self._size = 0
        self._limit = ANSWER_BYTES_MAX if status == 200 else ERROR_BYTES_MAX
        self._most_kept = KEPT_BYTES_MAX if status == 200 else ERROR_BYTES_MAX
        self._kept: list[bytes] = []
        self._last: deque[bytes] = deque(maxlen=_LAST)
        self._ahead = b""
        self._is_closed = False

    @property
    def body(self) -> bytes | None:
        """Return all bytes that have come; None if they are too many."""
        return b"".join(self._kept) if self._size <= self._most_kept else None

    @property
    def end(self) -> bytes:
        """Return the last bytes that have come: all of them, if they are few."""
        body = self.body
        return b"".join(self._last) if body is None else body

    async def form(self) -> Form:
        """Wait for the first bytes and return the form that they show."""
        start = b""
        while not start:
            try:
                chunk = await anext(self._chunks)
            except StopAsyncIteration:
                self.is_whole = True
                break
            except httpx2.HTTPError as error:
                raise self._broken(error) from error
            self._take(chunk)
            # White space before an answer has no meaning, and not every library passes over it.
            start = start_of(start + chunk)
        self._ahead = start
        return form_of(start)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        ahead, self._ahead = self._ahead, b""
        if ahead:
            yield ahead
        try:
            async for chunk in self._chunks:
                self._take(chunk)
                yield chunk
        except httpx2.HTTPError as error:
            raise self._broken(error) from error
        self.is_whole = True

    async def rest(self) -> None:
        """Read the bytes that a library has left, as far as they come soon."""
        with suppress(Exception):
            async with asyncio.timeout(REST_S):
                async for _ in self:
                    pass

    def _take(self, chunk: bytes) -> None:
        self.has_begun = True
        self._size += len(chunk)
        if self._size > self._limit:
            raise self._fail(garbage_answer(f"the answer is larger than {self._limit} bytes"))
        if self._size <= self._most_kept:
            self._kept.append(chunk)
        else:
            self._kept.clear()
        self._last.append(chunk)

    def _broken(self, error: httpx2.HTTPError) -> CallFailed:
        return self._fail(network_failure(error) or unconnected(error))

    async def aclose(self) -> None:
        """Close the connection, or give it back to the pool, once the answer is whole."""
        # A library closes an answer that it cannot read; `close` does it after the rest was read.
        if self.is_whole:
            await self.close()

    async def close(self) -> None:
        """Close the connection, or give it back to the pool."""
        if not self._is_closed:
            self._is_closed = True
            await self._stream.aclose()


class _Decoded(httpx2.AsyncByteStream):
    """The bytes of an answer without their compression."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    def __aiter__(self) -> AsyncIterator[bytes]:
        return unpacked(self._response)

    async def aclose(self) -> None:
        """Close the connection, or give it back to the pool."""
        await self._response.aclose()


def watch(
    response: httpx2.Response, fail: Callable[[CallFailed], CallFailed]
) -> tuple[httpx2.Response, Watched]:
    """Return a response whose bytes are watched, and these. They are decompressed first."""
    if response.headers.get("content-encoding", "identity") == "identity":
        watched = Watched(_stream_of(response), response.status_code, fail)
        response.stream = watched
        return response, watched
    watched = Watched(_Decoded(response), response.status_code, fail)
    dropped = ("content-encoding", "content-length")
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in dropped]
    plain = httpx2.Response(
        response.status_code,
        headers=headers,
        stream=watched,
        request=response.request,
        extensions=response.extensions,
    )
    return plain, watched


def _stream_of(response: httpx2.Response) -> httpx2.AsyncByteStream:
    assert isinstance(response.stream, httpx2.AsyncByteStream)  # of an async client
    return response.stream
