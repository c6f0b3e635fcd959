"""The failures of a service: their code, their retry, their wait, and their cost."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.protocol.usage import ZERO
from callboard.runtime.models.failures import UNREPORTED
from callboard.runtime.models.watched import ERROR_BYTES_MAX
from tests.messages_api import Canned, json_answer
from tests.openai_api import Reply, failed, streamed
from tests.runtime.models.layered.kit import KEY, Api, Service, failure_of, html

BOTH = pytest.mark.parametrize("dialect", ["chat", "responses"])
STREAMS = pytest.mark.parametrize("stream", [True, False])


@BOTH
@pytest.mark.parametrize(
    ("answer", "code", "may_retry", "charge"),
    [
        (failed(400, "Bad tool."), "invalid_request_error", False, ZERO),
        (failed(401, "Bad key.", code="invalid_api_key"), "authentication_error", False, ZERO),
        (failed(402, "Pay first."), "billing_error", False, ZERO),
        (failed(403, "Not you."), "permission_error", False, ZERO),
        (failed(404, "No such model.", code="model_not_found"), "not_found_error", False, ZERO),
        (failed(408, "Slow."), "timeout_error", True, None),
        (failed(429, "Slow down.", code="rate_limit_exceeded"), "rate_limit_error", True, ZERO),
        (failed(429, "No money left.", code="insufficient_quota"), "billing_error", False, ZERO),
        (failed(500, "Oops.", kind="server_error"), "api_error", True, UNREPORTED),
        (failed(503, "Overloaded."), "overloaded_error", True, ZERO),
        (failed(529, "Overloaded."), "overloaded_error", True, ZERO),
        (failed(413, "Too large."), "context_full", False, ZERO),
        (
            failed(400, "This model's maximum context length is 8 tokens.", code="context_length_exceeded"),
            "context_full",
            False,
            ZERO,
        ),
    ],
)
def test_a_rejection_has_the_code_of_the_messages_api(
    service: Service, dialect: Api, answer: Canned, code: str, may_retry: bool, charge: object
) -> None:
    said = service.failure(answer, dialect=dialect)
    failure = failure_of(said)
    assert (failure.code, failure.is_retryable) == (code, may_retry)
    assert said.usage == charge
    assert json.loads(answer.body)["error"]["message"] in failure.message
    assert len(service.api.seen) == 1


@BOTH
@pytest.mark.parametrize(
    ("headers", "wait_ms"),
    [
        ({}, None),
        ({"retry_after": "2"}, 2_000),
        ({"retry_after_ms": "150"}, 150),
        ({"retry_after": "Wed, 21 Oct 2026 07:28:05 GMT"}, 6_000),
    ],
)
def test_the_wait_is_the_one_that_the_service_asks_for(
    service: Service, dialect: Api, headers: dict[str, str], wait_ms: int | None
) -> None:
    said = service.failure(failed(429, "Slow down.", **headers), dialect=dialect)
    assert failure_of(said).retry_after_ms == wait_ms


def test_a_service_may_say_if_another_attempt_helps(service: Service) -> None:
    assert not failure_of(service.failure(failed(500, "No.", x_should_retry="false"))).is_retryable
    assert failure_of(service.failure(failed(400, "Again.", x_should_retry="true"))).is_retryable


@BOTH
@STREAMS
def test_a_web_page_is_garbage_that_names_base_url(service: Service, dialect: Api, stream: bool) -> None:
    failure = failure_of(service.failure(html(), dialect=dialect, stream=stream))
    assert (failure.code, failure.is_retryable) == ("garbage", True)
    assert "base_url" in failure.message


@BOTH
def test_a_web_page_of_a_proxy_has_the_code_of_its_status(service: Service, dialect: Api) -> None:
    failure = failure_of(service.failure(html(502), dialect=dialect))
    assert (failure.code, failure.is_retryable) == ("api_error", True)
    assert "<html" not in failure.message


@STREAMS
@pytest.mark.parametrize("body", [{"type": "message", "content": []}, [], "text", {"choices": []}])
def test_the_answer_of_another_api_is_garbage(service: Service, stream: bool, body: object) -> None:
    failure = failure_of(service.failure(json_answer(body), stream=stream))
    assert (failure.code, failure.is_retryable) == ("garbage", True)


@BOTH
def test_an_answer_that_is_no_json_is_garbage(service: Service, dialect: Api) -> None:
    broken = Canned(b'{"id": ', 200, {"content-type": "application/json"})
    assert failure_of(service.failure(broken, dialect=dialect, stream=False)).code == "garbage"


def test_an_error_in_a_stream_has_its_code(service: Service) -> None:
    error = {"message": "The server is overloaded.", "type": "server_error", "code": "server_error"}
    said = service.failure(streamed([{"error": error}]))
    assert (failure_of(said).code, failure_of(said).is_retryable) == ("overloaded_error", True)
    assert said.usage == ZERO


def test_an_error_event_of_responses_has_its_code(service: Service) -> None:
    event: dict[str, object] = {"type": "error", "code": "rate_limit_exceeded", "message": "Slow down."}
    said = service.failure(streamed([{**event, "sequence_number": 0, "param": None}]), dialect="responses")
    assert (failure_of(said).code, failure_of(said).is_retryable) == ("rate_limit_error", True)


def test_a_failed_response_has_its_code(service: Service) -> None:
    response = {"id": "r", "object": "response", "status": "failed", "model": "m", "output": []}
    error = {"code": "server_error", "message": "Oops."}
    event: dict[str, object] = {"type": "response.failed", "response": {**response, "error": error}}
    said = service.failure(streamed([{**event, "sequence_number": 0}]), dialect="responses")
    assert (failure_of(said).code, failure_of(said).is_retryable) == ("api_error", True)


def test_a_huge_error_is_cut_off(service: Service) -> None:
    huge = Canned(b"x" * (ERROR_BYTES_MAX + 1), 500, {"content-type": "text/plain"})
    failure = failure_of(service.failure(huge))
    assert failure.is_retryable
    assert len(failure.message) < 5_000


def test_a_redirect_is_no_second_request(service: Service) -> None:
    moved = Canned(b"", 307, {"location": f"{service.api.url}/v1/chat/completions"})
    said = service.failure(moved)
    assert failure_of(said).code == "http_307"
    assert len(service.api.seen) == 1


def test_the_key_is_in_no_message(service: Service) -> None:
    said = service.failure(failed(401, f"Incorrect API key provided: {KEY}."))
    assert KEY not in failure_of(said).message


def test_a_block_that_no_service_takes_is_refused_before_anything_is_sent(service: Service) -> None:
    from tests.runtime.models.layered.kit import asked

    video = {"type": "video", "source": {"type": "base64", "data": "", "media_type": "video/mp4"}}
    answer, _ = service.ask(asked([{"role": "user", "content": [video]}]))
    assert (failure_of(answer).code, answer.usage) == ("unsayable", ZERO)
    assert not service.api.seen


def test_a_tool_of_another_service_is_refused_before_anything_is_sent(service: Service) -> None:
    from tests.runtime.models.layered.kit import asked

    answer, _ = service.ask(asked(tools=[{"type": "web_search_20250305", "name": "web_search"}]))
    assert (failure_of(answer).code, answer.usage) == ("invalid_request_error", ZERO)
    assert not service.api.seen


def test_nothing_is_kept_of_a_call_that_failed(service: Service) -> None:
    service.failure(failed(500, "Oops."))
    service.api.reply(Reply(("Hi.",)))
    answer, _ = service.ask()
    assert answer.failure is None
    assert service.api.seen[0].raw == service.api.seen[1].raw


@STREAMS
def test_an_answer_that_failed_behind_a_gateway_is_no_answer(service: Service, stream: bool) -> None:
    part = {"role": "assistant", "content": "The half of"}
    for word, code in (("network_error", "api_error"), ("MALFORMED_FUNCTION_CALL", "garbage")):
        choice = {"index": 0, "finish_reason": "stop", "native_finish_reason": word}
        choice["delta" if stream else "message"] = part
        kind = "chat.completion.chunk" if stream else "chat.completion"
        usage = {"prompt_tokens": 4, "completion_tokens": 3}
        whole = {"id": "c", "object": kind, "created": 1, "model": "m", "choices": [choice], "usage": usage}
        written = f"data: {json.dumps(whole)}\n\ndata: [DONE]\n\n" if stream else json.dumps(whole)
        answer = Canned(written.encode(), 200, {"content-type": "application/json"})
        said = service.failure(answer, stream=stream)
        assert (failure_of(said).code, failure_of(said).is_retryable) == (code, True)
        assert said.usage is not None
        assert said.usage.tokens == 7


ODD: Sequence[object] = (None, "", "x", 0, 1.5, [], {})
UNREAD = (
    ("system_fingerprint",), ("service_tier",), ("choices", 0, "logprobs"),
    ("choices", 0, "message", "annotations"), ("choices", 0, "message", "audio"),
    ("choices", 0, "message", "function_call"),
    ("usage", "total_tokens"), ("usage", "completion_tokens_details"), ("usage", "prompt_tokens_details"),
    ("usage", "completion_tokens_details", "reasoning_tokens"),
)  # fmt: skip


def odd_answers() -> Iterator[JsonObject]:
    """Yield whole answers in which one field that decides nothing is missing, or of another type."""
    for path in UNREAD:
        for value in (..., *ODD):
            usage: JsonObject = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
            usage |= {"prompt_tokens_details": {}, "completion_tokens_details": {}}
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}
            whole: Any = {"id": "c", "created": 1, "model": "m", "choices": [choice], "usage": usage}
            place = whole
            for key in path[:-1]:
                place = place[key]
            place.pop(path[-1], None)
            place |= {} if value is ... else {path[-1]: value}
            yield whole


@STREAMS
def test_no_answer_is_lost_because_of_a_field_that_decides_nothing(service: Service, stream: bool) -> None:
    for whole in odd_answers():
        if stream:
            whole["choices"][0]["delta"] = whole["choices"][0].pop("message")
        answer = streamed([whole]) if stream else json_answer(whole)
        service.api.reply(answer)
        said, text = service.ask(stream=stream)
        assert (said.failure, text) == (None, "Hi"), whole
        assert said.usage is not None, whole
        assert said.usage.tokens == 10, whole


@STREAMS
def test_counts_are_read_as_they_were_meant(service: Service, stream: bool) -> None:
    for told, tokens in (
        ({"prompt_tokens": 7.0, "completion_tokens": "3"}, 10),
        ({"prompt_tokens": 6.5, "completion_tokens": 3}, 10),
        ({"prompt_tokens": 7, "completion_tokens": None}, None),
        ({"prompt_tokens": 7, "completion_tokens": []}, None),
        ({"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2.0}}, 10),
        ({"prompt_tokens": "many", "completion_tokens": 3}, None),
        ({"prompt_tokens": True, "completion_tokens": 3}, None),
        ("none", None),
    ):
        whole: Any = {"id": "c", "created": 1, "model": "m", "usage": told}
        message = {"role": "assistant", "content": "Hi"}
        whole["choices"] = [{"index": 0, "finish_reason": "stop", "delta" if stream else "message": message}]
        service.api.reply(streamed([whole]) if stream else json_answer(whole))
        said, _ = service.ask(stream=stream)
        assert said.failure is None, told
        assert (said.usage.tokens if said.usage else None) == tokens, told
