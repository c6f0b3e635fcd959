"""Watched bytes: the first ones come early, the last ones are kept, and the rest is read."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Sequence

import httpx2
import pytest

from callboard.runtime.models.failures import CallFailed
from callboard.runtime.models.watched import KEPT_BYTES_MAX, Watched, watch


class Chunks(httpx2.AsyncByteStream):
    """Some bytes, then perhaps an error. given: chunks that were taken. is_closed: the stream was closed."""

    def __init__(self, chunks: Sequence[bytes], error: Exception | None = None) -> None:
        self.chunks = list(chunks)
        self.error = error
        self.given = 0
        self.is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            self.given += 1
            yield chunk
        if self.error is not None:
            raise self.error

    async def aclose(self) -> None:
        self.is_closed = True


def watched(stream: Chunks, status: int = 200) -> Watched:
    return Watched(stream, status, lambda failed: failed)


async def read(one: Watched) -> bytes:
    return b"".join([chunk async for chunk in one])


def test_the_first_bytes_are_read_before_the_rest_and_come_again() -> None:
    stream = Chunks([b"\n", b"data: 1", b"\n\n"])
    one = watched(stream)

    async def main() -> None:
        assert await one.form() == "events"
        assert (stream.given, one.is_whole) == (2, False)
        assert await read(one) == b"data: 1\n\n"
        assert one.is_whole
        assert one.body == one.end == b"\ndata: 1\n\n"

    asyncio.run(main())


def test_an_empty_answer_is_whole_and_has_no_form() -> None:
    one = watched(Chunks([]))
    assert asyncio.run(one.form()) == ""
    assert (one.is_whole, one.body, one.has_begun) == (True, b"", False)


def test_the_rest_is_read_after_a_reader_gave_up() -> None:
    stream = Chunks([b"data: 1\n\n", b"data: {", b"data: 3\n\n"])
    one = watched(stream)

    async def main() -> None:
        async for chunk in one:
            if chunk == b"data: {":
                break
        await one.aclose()  # as a library does; the connection stays
        assert not stream.is_closed
        await one.rest()
        assert one.is_whole
        assert one.end.endswith(b"data: 3\n\n")
        await one.close()
        assert stream.is_closed

    asyncio.run(main())


def test_a_whole_answer_gives_its_connection_back_at_once() -> None:
    stream = Chunks([b"{}"])
    one = watched(stream)

    async def main() -> None:
        await read(one)
        await one.aclose()

    asyncio.run(main())
    assert stream.is_closed


def test_an_answer_that_breaks_off_is_not_whole() -> None:
    one = watched(Chunks([b"data"], httpx2.ReadError("gone")))
    with pytest.raises(CallFailed) as raised:
        asyncio.run(read(one))
    assert raised.value.failure.code == "broken_stream"
    assert not one.is_whole


def test_of_a_long_answer_only_the_end_is_kept() -> None:
    one = watched(Chunks([b"x" * KEPT_BYTES_MAX, b"y", b"end"]))
    asyncio.run(read(one))
    assert one.body is None
    assert one.end.endswith(b"yend")


def test_a_compressed_answer_is_watched_without_its_compression() -> None:
    packed = gzip.compress(b"data: 1\n\n")
    headers = {"content-encoding": "gzip", "content-length": str(len(packed)), "x": "1"}
    response = httpx2.Response(
        200, headers=headers, stream=Chunks([packed]), request=httpx2.Request("GET", "http://x")
    )

    async def main() -> None:
        plain, one = watch(response, lambda failed: failed)
        assert await one.form() == "events"
        assert await plain.aread() == b"data: 1\n\n"
        assert dict(plain.headers) == {"x": "1"}

    asyncio.run(main())
