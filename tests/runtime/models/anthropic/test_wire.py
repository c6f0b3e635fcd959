"""What a network and a broken service do to an exchange; against a real local server."""

import asyncio
import dataclasses
import gzip
import json
import socket

import pytest

from callboard.actors.protocol.usage import ZERO, Usage
from callboard.runtime.models import watched
from callboard.runtime.models.anthropic import wire as anthropic_wire
from callboard.runtime.models.failures import UNREPORTED
from tests.messages_api import (
    Canned,
    MessagesApi,
    events_of,
    json_answer,
    message,
    sse_answer,
    stream_answer,
    text,
)
from tests.runtime.models.anthropic.kit import ask, ask_at, content_of, failure_at, model_at

ANSWER = message(text("Good morning to you all."))
STREAM = sse_answer(ANSWER)
ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


COMPLETE = STREAM.body.index(b"event: message_stop")
"""Before this byte something is missing; after it, only that the stream has ended."""


def test_every_cut_of_a_stream_is_broken_and_retryable_and_never_a_short_answer(api: MessagesApi) -> None:
    cuts = range(0, COMPLETE, 37)
    api.add(*[dataclasses.replace(STREAM, cut_at=cut) for cut in cuts])

    async def run() -> None:
        model = model_at(api.url)
        for _ in cuts:
            answer, _ = await ask(model)
            assert answer.failure is not None
            assert (answer.failure.code, answer.failure.is_retryable) == ("broken_stream", True)
            assert answer.usage is None
        await model.aclose()

    asyncio.run(run())


@pytest.mark.parametrize("cut", [COMPLETE, COMPLETE + 20, len(STREAM.body) - 1, len(STREAM.body)])
def test_a_stream_cut_after_the_stop_reason_has_lost_nothing(api: MessagesApi, cut: int) -> None:
    api.add(dataclasses.replace(STREAM, cut_at=cut))
    answer, _ = ask_at(api.url)
    assert content_of(answer) == ANSWER["content"]
    assert answer.usage == Usage(10, 5)


def test_a_stream_that_ends_well_but_early_is_broken(api: MessagesApi) -> None:
    api.add(stream_answer(events_of(ANSWER)[:-2]))
    assert failure_at(api.url)[0].code == "broken_stream"


def test_a_stream_that_falls_silent_after_the_stop_reason_has_lost_nothing(api: MessagesApi) -> None:
    api.add(dataclasses.replace(STREAM, drip_bytes=COMPLETE, drip_s=30))
    assert content_of(ask_at(api.url, timeout_s=0.05)[0]) == ANSWER["content"]


def test_a_stream_left_open_after_its_message_is_not_waited_for(
    api: MessagesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anthropic_wire, "ENDING_S", 0.02)
    api.add(dataclasses.replace(STREAM, drip_bytes=len(STREAM.body), drip_s=30))
    assert content_of(ask_at(api.url)[0]) == ANSWER["content"]
    assert api.hung_up.wait(5)


def test_text_arrives_while_the_rest_is_still_to_come(api: MessagesApi) -> None:
    early = STREAM.body.index(b"event: content_block_stop")
    api.add(dataclasses.replace(STREAM, drip_bytes=early, drip_s=0.05))
    assert ask_at(api.url)[1] == "Good morning to you all."


def test_a_stream_in_single_bytes_is_the_same_stream(api: MessagesApi) -> None:
    body = message(text("Grüße, 世界 🌍"))
    api.add(dataclasses.replace(sse_answer(body), drip_bytes=1))
    answer, streamed = ask_at(api.url)
    assert content_of(answer) == body["content"]
    assert streamed == "Grüße, 世界 🌍"


def test_a_body_cut_off_is_broken_and_retryable(api: MessagesApi) -> None:
    api.add(dataclasses.replace(json_answer(ANSWER), cut_at=30))
    failure, answer = failure_at(api.url, stream=False)
    assert (failure.code, failure.is_retryable, answer.usage) == ("broken_stream", True, None)


@pytest.mark.parametrize("stream", [True, False])
def test_a_silent_service_is_a_timeout_of_unknown_usage(api: MessagesApi, stream: bool) -> None:
    api.add(dataclasses.replace(STREAM, delay_s=30))
    failure, answer = failure_at(api.url, stream=stream, timeout_s=0.05)
    assert (failure.code, failure.is_retryable, answer.usage) == ("timeout", True, None)
    assert "ReadTimeout" in failure.message
    assert api.hung_up.wait(5)


def test_a_stream_that_falls_silent_is_a_timeout(api: MessagesApi) -> None:
    api.add(dataclasses.replace(STREAM, drip_bytes=600, drip_s=30))
    failure, answer = failure_at(api.url, timeout_s=0.05)
    assert (failure.code, failure.is_retryable, answer.usage) == ("timeout", True, None)


def test_no_server_at_the_address_is_a_connection_failure_that_used_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    failure, answer = failure_at(f"http://127.0.0.1:{port}")
    assert (failure.code, failure.is_retryable, answer.usage) == ("connection", True, ZERO)
    assert "ConnectError" in failure.message


def test_a_service_that_hangs_up_without_a_word_is_a_connection_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        async def run() -> None:
            loop = asyncio.get_running_loop()
            server.setblocking(False)
            model = model_at(f"http://127.0.0.1:{server.getsockname()[1]}")
            call = asyncio.create_task(ask(model))
            connection, _ = await loop.sock_accept(server)
            await loop.sock_recv(connection, 100_000)
            connection.close()
            answer, _ = await call
            await model.aclose()
            assert answer.failure is not None
            assert (answer.failure.code, answer.failure.is_retryable) == ("connection", True)
            assert answer.usage is None

        asyncio.run(run())


def test_an_error_event_before_the_message_used_nothing(api: MessagesApi) -> None:
    api.add(stream_answer([ERROR]))
    failure, answer = failure_at(api.url)
    assert (failure.code, failure.is_retryable, answer.usage) == ("overloaded_error", True, ZERO)
    assert failure.message == "the service said overloaded_error: Overloaded"


def test_an_error_event_in_the_middle_of_the_message_has_unknown_usage(api: MessagesApi) -> None:
    api.add(stream_answer([*events_of(ANSWER)[:3], ERROR]))
    failure, answer = failure_at(api.url)
    assert (failure.code, failure.is_retryable, answer.usage) == ("overloaded_error", True, None)


@pytest.mark.parametrize(
    ("kind", "is_retryable"),
    [
        ("rate_limit_error", True),
        ("api_error", True),
        ("timeout_error", True),
        ("invalid_request_error", False),
    ],
)
def test_an_error_event_is_retried_by_its_type(api: MessagesApi, kind: str, is_retryable: bool) -> None:
    api.add(stream_answer([{"type": "error", "error": {"type": kind, "message": "m"}}]))
    assert failure_at(api.url)[0].is_retryable is is_retryable


def test_a_stream_that_is_given_up_is_closed(api: MessagesApi) -> None:
    broken = stream_answer([*events_of(ANSWER)[:3], ERROR, *events_of(ANSWER)])
    at = broken.body.index(b"event: message_start", 100)
    api.add(dataclasses.replace(broken, drip_bytes=at, drip_s=30))
    assert failure_at(api.url)[0].code == "overloaded_error"
    assert api.hung_up.wait(5)


def test_an_error_document_with_status_200_is_an_error(api: MessagesApi) -> None:
    api.add(json_answer(ERROR))
    assert failure_at(api.url)[0].code == "overloaded_error"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>Bad gateway</html>",
        b"null",
        b"[]",
        b"{}",
        b'{"content": {}}',
        b'{"content": [], "stop_reason": null}',
        b'{"content": [1], "stop_reason": "end_turn"}',
        b'{"content": [{"text": "x"}], "stop_reason": "end_turn"}',
        b'{"content": [{"type": "text"}], "stop_reason": "end_turn"}',
        b'{"content": [NaN], "stop_reason": "end_turn"}',
        b'{"content": [1e999], "stop_reason": "end_turn"}',
        b'{"content": "\xff", "stop_reason": "end_turn"}',
        b"[" * 100_000,
        b'{"content": [' + b"[" * 5_000 + b"]" * 5_000 + b"]}",
        b"\x00\xff\xfe garbage",
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_a_body_that_is_no_message_is_garbage(api: MessagesApi, body: bytes, stream: bool) -> None:
    api.add(Canned(body, headers={"content-type": "application/json"}))
    failure, answer = failure_at(api.url, stream=stream)
    assert (failure.code, failure.is_retryable, answer.usage) == ("garbage", True, UNREPORTED)
    assert len(failure.message) <= 500


@pytest.mark.parametrize(
    "body",
    [
        b"data: nonsense\n\n",
        b"data: [1]\n\n",
        b'data: {"type": "message_start"}\n\n',
        b'data: {"type": "content_block_delta", "index": 0, "delta": {}}\n\n',
    ],
)
def test_a_stream_of_anything_else_is_garbage(api: MessagesApi, body: bytes) -> None:
    api.add(Canned(body, headers={"content-type": "text/event-stream"}))
    failure, answer = failure_at(api.url)
    assert (failure.code, failure.is_retryable, answer.usage) == ("garbage", True, UNREPORTED)


@pytest.mark.parametrize("body", [b"", b"\n\n\n", b": keep-alive\n\n", b"data: \xff\xfe\n\n"])
def test_a_stream_of_nothing_is_broken(api: MessagesApi, body: bytes) -> None:
    api.add(Canned(body, headers={"content-type": "text/event-stream"}))
    assert failure_at(api.url)[0].code == "broken_stream"


def test_the_answer_is_read_by_its_own_type_not_by_the_requested_one(api: MessagesApi) -> None:
    api.add(json_answer(ANSWER), sse_answer(ANSWER))
    assert content_of(ask_at(api.url, stream=True)[0]) == ANSWER["content"]
    assert content_of(ask_at(api.url, stream=False)[0]) == ANSWER["content"]


def test_events_without_names_and_with_other_line_ends_are_understood(api: MessagesApi) -> None:
    lines = "".join(f"data: {json.dumps(event)}\r\n\r\n" for event in events_of(ANSWER))
    api.add(Canned(b": hello\r\n\r\n" + lines.encode(), headers={"content-type": "text/event-stream"}))
    assert content_of(ask_at(api.url)[0]) == ANSWER["content"]


def test_a_compressed_answer_is_read(api: MessagesApi) -> None:
    plain = json_answer(ANSWER, content_encoding="gzip")
    api.add(dataclasses.replace(plain, body=gzip.compress(plain.body)))
    assert content_of(ask_at(api.url)[0]) == ANSWER["content"]


def test_an_answer_that_claims_to_be_compressed_is_garbage(api: MessagesApi) -> None:
    api.add(json_answer(ANSWER, content_encoding="gzip"))
    assert failure_at(api.url)[0].code == "garbage"


@pytest.mark.parametrize("canned", [STREAM, json_answer(ANSWER)])
def test_an_answer_without_end_is_garbage(
    api: MessagesApi, monkeypatch: pytest.MonkeyPatch, canned: Canned
) -> None:
    monkeypatch.setattr(watched, "ANSWER_BYTES_MAX", 100)
    api.add(canned)
    failure, _ = failure_at(api.url)
    assert failure.code == "garbage"
    assert "larger than 100 bytes" in failure.message


@pytest.mark.parametrize("stream", [True, False])
def test_lone_surrogates_and_nul_come_through_for_the_boundary_to_clean(
    api: MessagesApi, stream: bool
) -> None:
    body = message(text("a\ud800b\0c"))
    api.add(sse_answer(body) if stream else json_answer(body))
    answer, _ = ask_at(api.url, stream=stream)
    assert content_of(answer) == body["content"]
    bytes(answer.content).decode()


def test_a_web_page_is_told_with_its_address(api: MessagesApi) -> None:
    api.add(Canned(b"<html></html>", 200, {"content-type": "text/html; charset=utf-8"}))
    failure, answer = failure_at(api.url)
    assert failure.code == "garbage"
    assert failure.message == f"{api.url}/v1/messages answered with a web page: check base_url"
    assert (answer.usage, failure.digest) == (UNREPORTED, "")
