"""Watched bytes: the first ones come early, the last ones are kept, and the rest is read."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from callboard import AnthropicModel, Limits
from callboard.actors.agent import retry
from callboard.actors.protocol.usage import Usage
from callboard.runtime.models.failures import UNREPORTED, CallFailed
from callboard.runtime.models.watched import KEPT_BYTES_MAX, Watched, watch
from tests.messages_api import Canned, MessagesApi, json_answer
from tests.openai_api import Answer, ProviderApi, Reply
from tests.runtime.models.layered.kit import (
    DIALECTS,
    KEY,
    WIRES,
    Api,
    Service,
    failure_of,
    html,
    model_at,
    serving,
)
from tests.runtime.models.test_attempts import attempts

ALL = pytest.mark.parametrize("dialect", DIALECTS)
ODD: dict[str, dict[str, object]] = {
    "chat": {"id": "1", "choices": [{"message": 3}], "usage": {"prompt_tokens": 40, "completion_tokens": 5}},
    "responses": {"id": "1", "output": [{"type": 3}], "usage": {"input_tokens": 40, "output_tokens": 5}},
    "generate-content": {
        "candidates": [{"content": {"parts": 3}}],
        "usageMetadata": {"promptTokenCount": 40, "candidatesTokenCount": 5},
    },
    "converse": {"output": {"message": 3}, "usage": {"inputTokens": 40, "outputTokens": 5}},
}


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


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a moment between attempts: the answers come over real sockets."""
    monkeypatch.setattr(retry, "FIRST_MS", 1)


@pytest.fixture(scope="module")
def served() -> Iterator[Service]:
    with serving() as service:
        yield service


@pytest.fixture
def service(served: Service) -> Service:
    served.api.seen.clear()
    return served


def odd(dialect: str, **more: object) -> Canned:
    """Return a whole answer that no reader takes."""
    return json_answer({**ODD[dialect], **more})


@ALL
@pytest.mark.parametrize("stream", [True, False])
def test_the_same_unreadable_answer_has_the_same_digest(service: Service, dialect: Api, stream: bool) -> None:
    answers = odd(dialect, id="a", created=1), odd(dialect, id="b", created=2), odd(dialect, x="other")
    found = [failure_of(service.failure(one, dialect=dialect, stream=stream)).digest for one in answers]
    assert found[0] == found[1] != found[2]
    assert all(found)


@ALL
def test_an_unreadable_answer_is_charged_the_usage_that_it_reports(service: Service, dialect: Api) -> None:
    assert service.failure(odd(dialect), dialect=dialect).usage == Usage(40, 5)


@ALL
def test_an_unreadable_answer_without_usage_is_charged_nothing(service: Service, dialect: Api) -> None:
    said = service.failure(odd(dialect, usage=None, usageMetadata=None), dialect=dialect)
    assert said.usage == UNREPORTED


@ALL
def test_an_answer_that_broke_off_is_charged_in_full_and_has_no_digest(
    service: Service, dialect: Api
) -> None:
    cut = replace(odd(dialect), cut_at=20)
    said = service.failure(cut, dialect=dialect)
    assert (said.usage, failure_of(said).digest) == (None, "")
    assert failure_of(said).is_retryable


def test_the_rest_of_an_unreadable_stream_is_read_for_its_usage(service: Service) -> None:
    chunks = b'data: {"choices": [{"index": 0, "delta": {"content": "Hel"}}]}\n\ndata: {"cho\n\n'
    usage = json.dumps({"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 5}}).encode()
    body = chunks + b"data: " + usage + b"\n\ndata: [DONE]\n\n"
    said = service.failure(Canned(body, 200, {"content-type": "text/event-stream"}, drip_bytes=30))
    assert failure_of(said).code == "garbage"
    assert said.usage == Usage(40, 5)
    assert failure_of(said).digest


@ALL
def test_the_same_unreadable_answer_is_asked_for_twice(dialect: Api) -> None:
    asked: list[Answer] = [odd(dialect, id=str(n)) for n in range(6)]
    with ProviderApi(asked, wires=WIRES) as api:
        assert attempts(model_at(api.url, dialect), Limits()) == ["garbage", "garbage"]
        assert len(api.seen) == 2


@pytest.mark.parametrize("other", [odd("chat", n=1), html()])
def test_any_other_unreadable_answer_follows_the_schedule(other: Canned) -> None:
    asked: list[Answer] = [odd("chat"), other, Reply(("Hi.",))]
    with ProviderApi(asked, wires=WIRES) as api:
        assert attempts(model_at(api.url, "chat"), Limits()) == ["garbage", "garbage", ""]


def messages(body: object) -> list[str]:
    """Return the codes of the attempts of a model of the Messages API that is answered so six times."""
    canned: Any = body if isinstance(body, Canned) else json_answer(body)
    with MessagesApi([canned] * 6) as api:
        return attempts(AnthropicModel("claude-sonnet-5", base_url=api.url, api_key=KEY), Limits())


@pytest.mark.parametrize("usage", [None, {"input_tokens": 40, "output_tokens": 5}])
@pytest.mark.parametrize("content", [None, [1], [{"type": "tool_use"}]])
def test_the_messages_api_gives_the_same_unreadable_answer_twice(usage: object, content: object) -> None:
    body = {"type": "message", "content": content, "stop_reason": "end_turn", "usage": usage}
    assert messages(body) == ["garbage", "garbage"]


def test_the_messages_api_streams_the_same_unreadable_answer_twice() -> None:
    body = b'data: {"type":"message_start","message":{"usage":{"input_tokens":4}}}\n\ndata: {"typ\n\n'
    assert messages(Canned(body, 200, {"content-type": "application/json"})) == ["garbage", "garbage"]
