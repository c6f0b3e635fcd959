"""The form of an answer: its first bytes decide, not its content type or the requested form."""

import gzip
import json
from dataclasses import replace
from typing import Any

import pytest

from callboard.actors.protocol.usage import ZERO, Usage
from callboard.runtime.models.failures import UNREPORTED
from tests.error_corpus import IN_ANSWERS, Case
from tests.messages_api import Canned, Seen, json_answer
from tests.openai_api import Call, Reply, failed, streamed
from tests.runtime.models.layered.kit import (
    DIALECTS,
    OPENAI_DIALECTS,
    STREAM_PATHS,
    Api,
    Service,
    blocks_of,
    failure_of,
    html,
)

ALL = pytest.mark.parametrize("dialect", DIALECTS)
STREAMS = pytest.mark.parametrize("stream", [True, False])
EVENTS = ("chat", "responses", "generate-content")
WHOLE_PATHS = {
    **STREAM_PATHS,
    "generate-content": "/v1beta/models/test-model:generateContent",
    "converse": "/model/test-model/converse",
}
HELLO = Reply(("Hello.", Call("look", '{"path":"a"}')))


def answer(service: Service, dialect: Api, *, stream: bool, content_type: str = "") -> Canned:
    """Return an answer as a service sends it, under a content type of a proxy."""
    path = STREAM_PATHS[dialect] if stream else WHOLE_PATHS[dialect]
    body = {"stream": stream, **({"stream_options": {"include_usage": True}} if stream else {})}
    canned = service.api.rendered(HELLO, Seen(path, {}, json.dumps(body).encode()))
    return replace(canned, headers={"content-type": content_type}) if content_type else canned


def is_hello(service: Service, dialect: Api, canned: Canned, **settings: Any) -> bool:
    """Ask, and return whether the answer was read, with its usage."""
    service.api.reply(canned)
    found, text = service.ask(dialect=dialect, **settings)
    blocks = blocks_of(found)
    assert (found.stop_reason, found.usage) == ("tool_use", Usage(10, 5))
    assert len(service.api.seen) == 1
    return [blocks[0].get("text"), blocks[1].get("name"), text] == ["Hello.", "look", "Hello."]


@ALL
@STREAMS
@pytest.mark.parametrize("kind", ["application/json", "text/plain; charset=utf-8", "text/html", "x"])
def test_the_content_type_does_not_matter(service: Service, dialect: Api, stream: bool, kind: str) -> None:
    canned = answer(service, dialect, stream=stream, content_type=kind)
    assert is_hello(service, dialect, canned, stream=stream)


@ALL
@pytest.mark.parametrize("asks", [True, False])
def test_an_answer_of_the_other_form_is_read(service: Service, dialect: Api, asks: bool) -> None:
    assert is_hello(service, dialect, answer(service, dialect, stream=not asks), stream=asks)


@pytest.mark.parametrize("dialect", EVENTS)
@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b"\n\n", b"\xef\xbb\xbf \r\n"])
def test_noise_before_a_stream_does_not_matter(service: Service, dialect: Api, start: bytes) -> None:
    canned = answer(service, dialect, stream=True)
    assert is_hello(service, dialect, replace(canned, body=start + canned.body))


@ALL
@STREAMS
def test_a_compressed_answer_is_read(service: Service, dialect: Api, stream: bool) -> None:
    canned = answer(service, dialect, stream=stream)
    headers = {**canned.headers, "content-encoding": "gzip"}
    assert is_hello(
        service, dialect, replace(canned, body=gzip.compress(canned.body), headers=headers), stream=stream
    )


def test_a_comment_before_a_stream_does_not_matter(service: Service) -> None:
    canned = answer(service, "chat", stream=True)
    assert is_hello(service, "chat", replace(canned, body=b": OPENROUTER PROCESSING\n\n" + canned.body))


def test_a_list_of_chunks_is_a_stream(service: Service) -> None:
    canned = answer(service, "generate-content", stream=True)
    chunks = [json.loads(line[5:]) for line in canned.body.splitlines() if line.startswith(b"data:")]
    for number, stream in enumerate((True, False), 1):
        service.api.reply(json_answer(chunks))
        found, _ = service.ask(dialect="generate-content", stream=stream)
        assert blocks_of(found)[0]["text"] == "Hello."
        assert len(service.api.seen) == number  # of each, one request


@ALL
@STREAMS
def test_a_page_is_garbage_whatever_its_content_type(service: Service, dialect: Api, stream: bool) -> None:
    page = replace(html(), headers={"content-type": "text/event-stream"})
    said = service.failure(page, dialect=dialect, stream=stream)
    failure = failure_of(said)
    assert (failure.code, failure.is_retryable, failure.digest) == ("garbage", True, "")
    assert "base_url" in failure.message
    assert said.usage == UNREPORTED


@ALL
@STREAMS
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/plain"])
def test_an_error_in_the_place_of_an_answer_is_sorted_by_its_words(
    service: Service, dialect: Api, stream: bool, kind: str
) -> None:
    body = json.dumps({"error": {"message": "Incorrect API key provided", "code": 401}}).encode()
    said = service.failure(Canned(body, 200, {"content-type": kind}), dialect=dialect, stream=stream)
    failure = failure_of(said)
    assert (failure.code, failure.is_retryable, said.usage) == ("authentication_error", False, ZERO)
    assert failure.message.endswith("Incorrect API key provided")


@pytest.mark.parametrize("case", IN_ANSWERS, ids=lambda case: case.who)
@STREAMS
def test_an_error_document_with_status_200_has_its_meaning(
    service: Service, case: Case, stream: bool
) -> None:
    failure = failure_of(service.failure(json_answer(case.document), stream=stream))
    assert (failure.code, failure.is_retryable) == (case.code, case.retry)


@pytest.mark.parametrize("case", IN_ANSWERS, ids=lambda case: case.who)
@pytest.mark.parametrize("has_begun", [True, False])
@pytest.mark.parametrize("done", [b"", b"data: [DONE]\n\n"])
def test_an_error_in_a_stream_has_the_same_meaning(
    service: Service, case: Case, has_begun: bool, done: bytes
) -> None:
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    begun = {**head, "choices": [{"index": 0, "delta": {"content": "Hel"}, "finish_reason": None}]}
    events: list[object] = [begun] * has_begun + [case.document]
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + done
    said = service.failure(Canned(body, 200, {"content-type": "text/event-stream"}))
    failure = failure_of(said)
    assert (failure.code, failure.is_retryable) == (case.code, case.retry)
    assert said.usage is None or not has_begun


def test_an_error_line_of_another_kind_is_read(service: Service) -> None:
    body = b'error: {"code":500,"message":"context size has been exceeded","type":"server_error"}\n\n'
    said = service.failure(Canned(body, 200, {"content-type": "text/event-stream"}))
    assert failure_of(said).code == "context_full"


def test_an_error_that_is_cut_by_chunks_is_read(service: Service) -> None:
    error: dict[str, object] = {"error": {"message": "The server is overloaded.", "code": 503}}
    canned = replace(streamed([error]), drip_bytes=7)
    assert failure_of(service.failure(canned)).code == "overloaded_error"


@pytest.mark.parametrize("dialect", OPENAI_DIALECTS)
def test_the_body_of_a_rejection_is_read_if_it_is_compressed(service: Service, dialect: Api) -> None:
    plain = failed(429, "Please try again in 1.5s.")
    headers = {**plain.headers, "content-encoding": "gzip"}
    said = service.failure(replace(plain, body=gzip.compress(plain.body), headers=headers), dialect=dialect)
    assert failure_of(said).retry_after_ms == 1_500


@ALL
@STREAMS
def test_a_text_is_unreadable_and_shown(service: Service, dialect: Api, stream: bool) -> None:
    text = Canned(b"Hello from the load balancer", 200, {"content-type": "text/plain"})
    said = service.failure(text, dialect=dialect, stream=stream)
    failure = failure_of(said)
    assert (failure.code, failure.is_retryable, said.usage) == ("garbage", True, UNREPORTED)
    assert failure.digest
    assert "Hello from the load balancer" in failure.message
