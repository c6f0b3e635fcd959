"""Unreadable answers: which are the same, and what they are charged, in each dialect."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from callboard import AnthropicModel, Limits
from callboard.actors.agent import retry
from callboard.actors.protocol.usage import Usage
from callboard.runtime.models.service_errors import UNREPORTED
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
