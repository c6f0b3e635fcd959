"""Compressed bodies: one layer is unpacked while other tasks run, several are refused and not read."""

import asyncio
import zlib
from collections.abc import AsyncIterator

import httpx2
import pytest

from callboard import AnthropicModel
from callboard.actors.protocol.errors import HttpError
from callboard.runtime.http.call_http import _read
from callboard.runtime.http.places import place_of_url, url_of
from callboard.runtime.mcp import http as mcp_http
from callboard.runtime.models.protocol import ModelAnswer
from callboard.runtime.models.watched import STEP_BYTES, unpacked
from tests.messages_api import Canned, MessagesApi
from tests.runtime.mcp.test_wire import waiting
from tests.runtime.models.anthropic.kit import KEY, request_with
from tests.runtime.models.layered.kit import failure_of
from tests.tables import table

ASKED = httpx2.Request("POST", "http://a.example")


def packed(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=31)
    return deflate.compress(data) + deflate.flush()


# Empty blocks of deflate: five bytes each, of which nothing is left. What holds them shrinks to a thousandth.
NOTHING = packed(b"")[:10] + b"\x00\x00\x00\xff\xff" * 200_000
LAYERS = packed(packed(NOTHING))


def answer(body: bytes, encoding: str) -> httpx2.Response:
    headers = {"content-encoding": encoding}
    return httpx2.Response(200, headers=headers, stream=Counted(body), request=ASKED)


class Counted(httpx2.AsyncByteStream):
    """A body. read: the bytes that were asked for."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.read = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.read += len(self.body)
        yield self.body


async def whole(response: httpx2.Response) -> bytes:
    return b"".join([piece async for piece in unpacked(response)])


@table("encoding", ["gzip", "x-gzip", "identity, gzip", "GZIP", "gzip,"])
def test_one_layer_is_unpacked(encoding: str) -> None:
    if encoding == "x-gzip":  # which the client does not know
        assert asyncio.run(whole(answer(b"abc", encoding))) == b"abc"
    else:
        assert asyncio.run(whole(answer(packed(b"abc"), encoding))) == b"abc"


@pytest.mark.parametrize("encoding", ["gzip, gzip", "gzip,deflate", "deflate , gzip, gzip", "br, gzip"])
def test_several_layers_are_refused_and_not_read(encoding: str) -> None:
    response = answer(LAYERS, encoding)
    with pytest.raises(httpx2.DecodingError, match=r"compressed [23] times"):
        asyncio.run(whole(response))
    assert isinstance(response.stream, Counted)
    assert response.stream.read == 0


def test_other_tasks_run_while_a_large_body_is_unpacked() -> None:
    steps = 0

    async def main() -> None:
        nonlocal steps
        reading = asyncio.ensure_future(whole(answer(packed(bytes(8 * STEP_BYTES)), "gzip")))
        while not reading.done():
            steps += 1
            await asyncio.sleep(0)
        assert len(await reading) == 8 * STEP_BYTES

    asyncio.run(main())
    assert steps >= 8


def test_a_model_a_server_and_a_page_of_several_layers_are_refused() -> None:
    with MessagesApi([Canned(LAYERS, 200, {"content-encoding": "gzip, gzip, gzip"})]) as api:

        async def ask() -> ModelAnswer:
            model = AnthropicModel("claude-test", base_url=api.url, api_key=KEY)
            try:
                return await model.call(request_with(), lambda piece: None)
            finally:
                await model.aclose()

        assert "compressed 3 times" in failure_of(asyncio.run(ask())).message

    wire, sending = waiting()
    body = mcp_http._Body(answer(LAYERS, "gzip, gzip"), sending, wire, 3)
    failed = asyncio.run(body.failed(ASKED))
    assert failed.content == b""
    assert "compressed 2 times" in str(sending.failure)

    place = place_of_url(url_of("http://a.example"))
    with pytest.raises(HttpError, match="which is not supported"):
        asyncio.run(_read(answer(LAYERS, "gzip, gzip"), place, 1_000))
