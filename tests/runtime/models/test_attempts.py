"""One HTTP request for each attempt in the log, for any answer, by every adapter."""

import asyncio
from typing import Any

import pytest

from callboard import Agent, AnthropicModel, Limits, Runtime
from callboard.actors.agent import retry
from callboard.actors.protocol.port_messages import CallModel, ModelReplied
from callboard.log import MemoryLog
from tests.messages_api import MessagesApi, error_answer, message, sse_answer, text
from tests.openai_api import Answer, ProviderApi, Reply, failed
from tests.runtime.mcp.kit import NAME, events_of
from tests.runtime.models.layered.kit import DIALECTS, KEY, WIRES, html, model_at

NOW = {"retry_after": "0"}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a moment between attempts: the answers come over real sockets."""
    monkeypatch.setattr(retry, "FIRST_MS", 1)


def attempts(model: Any, limits: Limits) -> list[str]:
    """Return the code of each attempt in the log, empty for the one that was answered."""

    async def main() -> list[str]:
        log = MemoryLog()
        async with Runtime(log, model=model) as runtime:
            await runtime.run(Agent("host"), "go", session_id=NAME, limits=limits)
            bodies = [event.body for event in await events_of(log)]
            answers = [body for body in bodies if isinstance(body, ModelReplied)]
            assert len(answers) == sum(isinstance(body, CallModel) for body in bodies)
            return [body.failure.code if body.failure else "" for body in answers]

    return asyncio.run(main())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_layered_model_sends_one_request_for_each_attempt_in_the_log(dialect: Any) -> None:
    answers: list[Answer] = [
        failed(429, "slow", **NOW),
        failed(500, "no", **NOW),
        failed(503, "no", **NOW),
        Reply(("Hi.",)),
    ]
    with ProviderApi(answers, wires=WIRES) as api:
        codes = attempts(model_at(api.url, dialect), Limits(max_model_attempts=6))
        assert len(api.seen) == len(codes) == 4
    assert codes[0] == "rate_limit_error"
    assert codes[-1] == ""
    assert all(codes[:-1])


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_rejection_is_one_request_and_one_attempt(dialect: Any, status: int) -> None:
    with ProviderApi([failed(status, "no")], wires=WIRES) as api:
        codes = attempts(model_at(api.url, dialect), Limits())
        assert len(api.seen) == len(codes) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_web_page_is_asked_for_as_often_as_the_log_says(dialect: Any) -> None:
    with ProviderApi([html(), html()], wires=WIRES) as api:
        codes = attempts(model_at(api.url, dialect), Limits(max_model_attempts=1))
        assert len(api.seen) == len(codes) == 1
    assert codes == ["garbage"]


def test_the_messages_api_gets_one_request_for_each_attempt_in_the_log() -> None:
    busy = error_answer(529, "overloaded_error", "busy", **NOW)
    slow = error_answer(429, "rate_limit_error", "slow", **NOW)
    with MessagesApi([busy, slow, sse_answer(message(text("Hi.")))]) as api:
        model = AnthropicModel("claude-sonnet-5", base_url=api.url, api_key=KEY)
        codes = attempts(model, Limits(max_model_attempts=6))
        assert len(api.seen) == len(codes) == 3
    assert codes == ["overloaded_error", "rate_limit_error", ""]
