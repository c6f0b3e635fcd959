"""Recorded traffic, served again by a real server and read with the real SDK under AnthropicModel.

The streams are compared with what the SDK's own accumulation makes of the same bytes: two independent
readings of the same protocol.
"""

import asyncio
from collections.abc import Sequence
from typing import cast

import anthropic
import pytest

from callboard.actors.protocol.usage import ZERO, Usage
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.models.protocol import ModelAnswer
from tests.messages_api import MessagesApi, recorded
from tests.realdata import records, sample, samples
from tests.runtime.models.anthropic.kit import ask, content_of, failure_at, model_at

JsonObject = dict[str, object]


def answers_to(found: Sequence[JsonObject]) -> list[tuple[ModelAnswer, str]]:
    """Return the answers of AnthropicModel to these records, each served for one call."""

    async def run(url: str) -> list[tuple[ModelAnswer, str]]:
        model = model_at(url)
        answers = [await ask(model) for _ in found]
        await model.aclose()
        return answers

    with MessagesApi(map(recorded, found)) as api:
        return asyncio.run(run(api.url))


def by_the_sdk(found: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the answers of the SDK's own stream helper."""

    async def run(url: str) -> list[JsonObject]:
        async with anthropic.AsyncAnthropic(api_key="key", base_url=url) as client:
            return [await final_message(client) for _ in found]

    async def final_message(client: anthropic.AsyncAnthropic) -> JsonObject:
        async with client.beta.messages.stream(
            model="claude-opus-5", max_tokens=100, messages=[{"role": "user", "content": "Hello."}]
        ) as stream:
            return (await stream.get_final_message()).to_dict()

    with MessagesApi(map(recorded, found)) as api:
        return asyncio.run(run(api.url))


def body_of(record: JsonObject) -> JsonObject:
    return cast(JsonObject, cast(JsonObject, record["response"])["body"])


def failure_to(record: JsonObject) -> tuple[ModelFailure, ModelAnswer]:
    with MessagesApi([recorded(record)]) as api:
        return failure_at(api.url)


def texts_of(content: Sequence[JsonObject]) -> str:
    return "".join(str(block["text"]) for block in content if block["type"] == "text")


@pytest.mark.slow
def test_every_recorded_json_answer_comes_through_whole() -> None:
    found = records("messages_json")
    for record, (answer, told) in zip(found, answers_to(found), strict=True):
        body = body_of(record)
        usage = cast(dict[str, int], body["usage"])
        assert content_of(answer) == body["content"], record["id"]
        assert (answer.stop_reason, answer.model, told) == (body["stop_reason"], body["model"], "")
        assert answer.usage == Usage(
            usage["input_tokens"],
            usage["output_tokens"],
            usage.get("cache_read_input_tokens") or 0,
            usage.get("cache_creation_input_tokens") or 0,
        )


@pytest.mark.slow
def test_every_recorded_stream_is_read_as_the_sdk_reads_it() -> None:
    found = [record for name in ("messages_sse", "responses_only") for record in records(name)]
    for record, (answer, told), other in zip(found, answers_to(found), by_the_sdk(found), strict=True):
        content = content_of(answer)
        usage = cast(dict[str, int], other["usage"])
        if "incomplete_partial_json" not in str(record["source"]):
            assert content == other["content"], record["id"]
        assert (answer.stop_reason, answer.model) == (other["stop_reason"], other["model"]), record["id"]
        assert told == texts_of(content), record["id"]
        assert answer.usage is not None, record["id"]
        assert answer.usage.input_tokens == usage["input_tokens"]
        assert answer.usage.output_tokens == usage["output_tokens"]


@pytest.mark.slow
def test_a_block_has_the_same_keys_streamed_as_in_one_piece() -> None:
    def keys_by_type(blocks: Sequence[JsonObject]) -> dict[object, set[tuple[str, ...]]]:
        found: dict[object, set[tuple[str, ...]]] = {}
        for block in blocks:
            found.setdefault(block["type"], set()).add(tuple(sorted(block)))
        return found

    whole = [
        block
        for record in records("messages_json")
        for block in cast(list[JsonObject], body_of(record)["content"])
    ]
    streamed = [block for answer, _ in answers_to(records("messages_sse")) for block in content_of(answer)]
    in_one_piece = keys_by_type(whole)
    for kind, shapes in keys_by_type(streamed).items():
        assert kind not in in_one_piece or shapes <= in_one_piece[kind], kind


def test_every_recorded_error_has_its_outcome() -> None:
    expected = {401: ("authentication_error", False), 404: ("not_found_error", False)}
    expected |= {429: ("rate_limit_error", True), 400: ("invalid_request_error", False)}
    found = records("messages_errors")
    for record, (answer, _) in zip(found, answers_to(found), strict=True):
        status = cast(int, cast(JsonObject, record["response"])["status"])
        assert answer.failure is not None
        assert (answer.failure.code, answer.failure.is_retryable) == expected[status], record["id"]
        assert str(cast(JsonObject, body_of(record)["error"])["message"])[:300] in answer.failure.message
        assert answer.usage == ZERO


# --- the few records that are part of the repository ---------------------------------------------


def test_every_sample_says_where_it_is_from_and_under_which_licence() -> None:
    for found in samples():
        source = cast(JsonObject, found["source"])
        assert source["repo"]
        assert source["licence"] in ("MIT", "Apache-2.0")
    assert len(samples()) == 6


def test_a_sample_with_parallel_calls_comes_through() -> None:
    ((answer, _),) = answers_to([sample("parallel_tools_json")])
    assert content_of(answer) == body_of(sample("parallel_tools_json"))["content"]
    assert [block["type"] for block in content_of(answer)].count("tool_use") == 2


def test_a_sample_with_a_signed_thought_comes_through() -> None:
    ((answer, told),) = answers_to([sample("thinking_tool_sse")])
    thought, call = content_of(answer)
    assert (thought["type"], call["type"], told) == ("thinking", "tool_use", "")
    assert len(str(thought["signature"])) > 100
    assert isinstance(call["input"], dict)


def test_a_sample_of_arguments_cut_at_max_tokens_keeps_them_as_text() -> None:
    ((answer, _),) = answers_to([sample("cut_tool_input_sse")])
    arguments = content_of(answer)[1]["input"]
    assert answer.stop_reason == "max_tokens"
    assert str(arguments).startswith('{"filename": "taxes.txt", "lines_of_text": [')


def test_a_sample_with_a_betas_own_delta_comes_through() -> None:
    ((answer, told),) = answers_to([sample("compaction_sse")])
    assert content_of(answer)[0]["content"] == "Earlier conversation summarized."
    assert str(content_of(answer)[0]["encrypted_content"]).endswith("payload")
    assert told == "Hello there!"


def test_a_sample_success_with_a_retry_after_header_is_a_success() -> None:
    ((answer, _),) = answers_to([sample("retry_after_on_success")])
    assert content_of(answer)


def test_a_sample_of_a_rate_limit_may_be_retried_and_used_nothing() -> None:
    failure, answer = failure_to(sample("rate_limited"))
    assert (failure.code, failure.is_retryable, failure.retry_after_ms) == ("rate_limit_error", True, None)
    assert answer.usage == ZERO
