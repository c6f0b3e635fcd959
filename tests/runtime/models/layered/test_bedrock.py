"""Bedrock: its own form of a request, of an answer and of an error."""

import asyncio
import base64
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from callboard import Agent, Runtime
from callboard.actors.protocol.errors import MissingExtra, MissingKey, MisuseError
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.runtime.models.failures import UNREPORTED
from callboard.runtime.models.layered.bedrock import BedrockModel
from callboard.runtime.models.protocol import model_named
from tests.bedrock_api import STREAM, BedrockApi, event, events, exception, refused, streamed
from tests.messages_api import Canned, json_answer
from tests.openai_api import Call, Reply, Thought
from tests.runtime.models.layered.kit import (
    KEY,
    LOOK,
    Service,
    asked,
    bare,
    blocks_of,
    failure_of,
    html,
    ids_of,
    items_of,
    said,
)
from tests.runtime.models.layered.test_openai import ask

BEDROCK: Any = "converse"
STREAMS = pytest.mark.parametrize("stream", [True, False])
HELLO: dict[str, object] = {"role": "user", "content": "Hello."}
VARIABLES = (
    "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE",
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
)  # fmt: skip


@pytest.fixture
def no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Hide the configuration of AWS that this machine may have."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    for variable in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(variable, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch


def test_a_name_leads_to_a_model(no_aws: pytest.MonkeyPatch) -> None:
    no_aws.setenv("AWS_DEFAULT_REGION", "cn-north-1")
    model_named.cache_clear()
    model = model_named("bedrock:amazon.nova-lite-v1:0")
    model_named.cache_clear()
    assert type(model) is BedrockModel
    endpoint = "https://bedrock-runtime.cn-north-1.amazonaws.com.cn (converse)"
    assert model.spec.origin == Origin("pydantic-ai", "bedrock", endpoint, "amazon.nova-lite-v1:0")


def test_an_unknown_model_names_the_near_one() -> None:
    wrong = refused(400, "ValidationException", "The provided model identifier is invalid.")
    with BedrockApi([wrong]) as api:
        model = BedrockModel("amazon.nova-lit-v1:0", base_url=api.url, region="us-east-1", api_key=KEY)
        (answer,) = ask(model, asked())
    assert failure_of(answer).code == "not_found_error"
    assert "amazon.nova-lite-v1:0'" in failure_of(answer).message


def test_a_missing_region_is_named_before_a_session_opens(no_aws: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingKey, match="AWS_REGION"):
        Runtime(":memory:", model=BedrockModel("m")).run_sync(Agent("host"), "Hi.")
    BedrockModel("m", region="eu-west-1").check()


def test_missing_credentials_are_a_failure_that_costs_nothing(no_aws: pytest.MonkeyPatch) -> None:
    with BedrockApi() as api:
        (answer,) = ask(BedrockModel("m", base_url=api.url, region="us-east-1"), asked())
    assert (failure_of(answer).code, failure_of(answer).is_retryable) == ("missing_key", False)
    assert answer.usage == ZERO
    assert "AWS_ACCESS_KEY_ID" in failure_of(answer).message
    assert not api.seen


def test_a_request_is_signed_with_the_credentials_of_the_environment(no_aws: pytest.MonkeyPatch) -> None:
    no_aws.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    no_aws.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    no_aws.setenv("AWS_SESSION_TOKEN", "token")
    with BedrockApi([Reply(("Hi.",))]) as api:
        (answer,) = ask(BedrockModel("a:b/c", base_url=api.url, region="eu-west-1"), asked())
    assert answer.failure is None
    headers = api.seen[0].headers
    assert headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-west-1/bedrock/aws4_request, SignedHeaders=" in headers["authorization"]
    assert headers["x-amz-security-token"] == "token"


def test_a_missing_extra_is_named_with_its_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"needs .*boto3: pip install 'callboard\[bedrock\]'"):
        BedrockModel("m", region="us-east-1").check()


@pytest.mark.parametrize(
    "params", [{"messages": []}, {"inferenceConfig": {"maxTokens": 5}}, {"toolConfig": {}}]
)
def test_parameters_that_callboard_sets_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(MisuseError, match=next(iter(params))):
        BedrockModel("m", region="us-east-1", params=params)


def test_a_model_takes_the_list_price_on_request() -> None:
    model = BedrockModel("amazon.nova-lite-v1:0", region="us-east-1", prices="known")
    assert model.spec.prices is not None
    assert model.spec.prices.input_usd == 0.06


# --- what goes out ------------------------------------------------------------------


def test_the_request_is_in_the_form_of_the_api(service: Service) -> None:
    service.api.reply(Reply(("Hi.",)))
    params = {"inferenceConfig": {"temperature": 0.5}, "requestMetadata": {"a": "b"}}
    model = service.model(BEDROCK, params=params)
    service.ask(asked(system="Be brief.", model=model.spec), BEDROCK, params=params)
    seen = service.api.seen[0]
    tool = {"name": "look", "description": "Look at a file.", "inputSchema": {"json": LOOK["input_schema"]}}
    assert seen.body == {
        "messages": [{"role": "user", "content": [{"text": "Hello."}]}],
        "system": [{"text": "Be brief."}],
        "inferenceConfig": {"maxTokens": 100, "temperature": 0.5},
        "toolConfig": {"tools": [{"toolSpec": tool}]},
        "requestMetadata": {"a": "b"},
    }
    assert seen.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("name", "params", "choice"),
    [
        ("anthropic.claude-sonnet-4-5-20250929-v1:0", {}, {"tool": {"name": "look"}}),
        (
            "anthropic.claude-sonnet-4-5-20250929-v1:0",
            {"additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 2_000}}},
            {"auto": {}},
        ),
        ("meta.llama3-1-70b-instruct-v1:0", {}, None),
    ],
)
def test_a_forced_tool_is_asked_for_where_the_model_takes_one(name: str, params: Any, choice: object) -> None:
    with BedrockApi([Reply(("No.",))]) as api:
        model = BedrockModel(name, base_url=api.url, region="us-east-1", api_key=KEY, params=params)
        tools = [LOOK, {**LOOK, "name": "other"}]
        (answer,) = ask(model, asked(force_tool="look", tools=tools, model=model.spec))
    assert answer.failure is None
    config: Any = api.seen[0].body["toolConfig"]
    assert config.get("toolChoice") == choice
    assert len([tool for tool in config["tools"] if "toolSpec" in tool]) == 2


def test_the_words_that_nova_does_not_know_stand_in_the_description_of_the_tool() -> None:
    schema: dict[str, object] = {"type": "object", "properties": {}, "additionalProperties": False}
    with BedrockApi([Reply(("Hi.",))]) as api:
        model = BedrockModel("us.amazon.nova-lite-v1:0", base_url=api.url, region="us-east-1", api_key=KEY)
        ask(model, asked(tools=[{**LOOK, "input_schema": schema}], model=model.spec))
    (tool,) = api.seen[0].body["toolConfig"]["tools"]  # type: ignore[index]  # a dict
    assert tool["toolSpec"]["inputSchema"]["json"] == {"type": "object", "properties": {}}
    assert tool["toolSpec"]["description"] == 'Look at a file.\nAlso: {"additionalProperties":false}'


@STREAMS
def test_reasoning_goes_back_as_it_came_over_three_turns(service: Service, stream: bool) -> None:
    messages: list[object] = [HELLO]
    for turn in range(3):
        thoughts = (Thought(f"thought {turn}", f"seal{turn}"), Thought("", f"hidden{turn}"))
        service.api.reply(Reply((*thoughts, Call("look", '{"path":"a"}', f"c{turn}"))))
        answer, _ = service.ask(asked(messages), BEDROCK, stream=stream)
        messages += said(answer)
    service.api.reply(Reply(("Done.",)))
    answer, _ = service.ask(asked(messages), BEDROCK, stream=stream)
    assert answer.failure is None
    replies = [item["content"] for item in items_of(service.api.seen[-1]) if item["role"] == "assistant"]
    for turn, content in enumerate(replies):
        told = {"reasoningText": {"text": f"thought {turn}", "signature": f"seal{turn}"}}
        hidden = {"redactedContent": base64.b64encode(f"hidden{turn}".encode()).decode()}
        assert content[:2] == [{"reasoningContent": told}, {"reasoningContent": hidden}]


def test_reasoning_without_a_signature_is_not_sent_back(service: Service) -> None:
    frames = [event(*one) for one in events(Reply((Thought("Hm.", "seal"), "Yes.")))]
    unsigned = [one for one in frames if b"signature" not in one]
    service.api.reply(streamed(unsigned), Reply(("Done.",)))
    first, _ = service.ask(asked(), BEDROCK)
    assert [block["type"] for block in blocks_of(first)] == ["thinking", "text"]
    service.ask(asked([HELLO, *said(first)]), BEDROCK)
    assert items_of(service.api.seen[-1])[1]["content"] == [{"text": "Yes."}]


def test_arguments_stay_as_they_were_written_and_go_back_as_an_object(service: Service) -> None:
    written = ['{"a": 1.0,  "b": 12345678901234567890}', '{"path": "b', "[1]", "", '{"a": 1, "a": 2}']
    calls = tuple(Call("look", text, f"c{at}") for at, text in enumerate(written))
    service.api.reply(Reply(calls), Reply(("Done.",)))
    first, _ = service.ask(asked(), BEDROCK)
    given = [block["input"] for block in blocks_of(first)]
    assert given == [{"a": 1.0, "b": 12345678901234567890}, written[1], "[1]", {}, written[4]]
    second, _ = service.ask(asked([HELLO, *said(first)]), BEDROCK)
    assert second.failure is None
    back = [block["toolUse"]["input"] for block in items_of(service.api.seen[-1])[1]["content"]]
    assert back == [
        given[0],
        {"unreadable": written[1]},
        {"unreadable": "[1]"},
        {},
        {"unreadable": written[4]},
    ]
    assert b'{"a":1.0,"b":12345678901234567890}' in service.api.seen[-1].raw


def test_doubled_ids_are_told_apart_here_and_go_back_so(service: Service) -> None:
    calls = (Call("look", "{}", "same"), Call("look", '{"path": "a"}', "same"))
    service.api.reply(Reply(calls), Reply(("Done.",)))
    first, _ = service.ask(asked(), BEDROCK)
    assert [block["id"] for block in blocks_of(first)] == ["same", "call_1_1"]
    second, _ = service.ask(asked([HELLO, *said(first)]), BEDROCK)
    assert second.failure is None
    assert ids_of(service.api.seen[-1]) == ["same", "call_1_1"] * 2


@pytest.mark.parametrize("parts", [(), (" \n",)])
def test_a_reply_without_words_goes_back_as_a_remark(service: Service, parts: tuple[str, ...]) -> None:
    service.api.reply(Reply(parts), Reply(("Done.",)))
    first, _ = service.ask(asked(), BEDROCK)
    second, _ = service.ask(asked([HELLO, *said(first)]), BEDROCK)
    assert second.failure is None
    assert items_of(service.api.seen[-1])[1]["content"] == [{"text": "(no words)"}]


def test_an_image_by_its_address_is_refused_before_anything_is_sent(service: Service) -> None:
    block = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    answer, _ = service.ask(asked([{"role": "user", "content": [block]}]), BEDROCK)
    assert (failure_of(answer).code, answer.usage) == ("unsayable", ZERO)
    assert not service.api.seen


CLAUDE, NOVA, LLAMA = (
    "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "amazon.nova-pro-v1:0",
    "meta.llama3-1-70b-instruct-v1:0",
)


def pdf(text: str) -> dict[str, object]:
    data = base64.b64encode(b"%PDF-1.7 " + text.encode()).decode()
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    return {"type": "document", "source": source}


def documents_in(seen: Any) -> list[Any]:
    blocks = [block for item in items_of(seen) for block in item["content"]]
    return [block["document"] for block in blocks if "document" in block]


def over_turns(name: str, turns: Sequence[object], **settings: Any) -> list[Any]:
    """Return the requests of a conversation with these messages of the user, and of its last turn alone."""
    with BedrockApi(lambda seen: Reply(("Yes.",))) as api:
        where = {"base_url": api.url, "region": "us-east-1", "api_key": KEY, **settings}
        model, anew = BedrockModel(name, **where), BedrockModel(name, **where)
        said_so: list[object] = []
        requests = []
        for turn in turns:
            said_so += [turn]
            requests.append(asked(list(said_so), model=model.spec, system="Be brief."))
            said_so += [{"role": "assistant", "content": [{"type": "text", "text": "Yes."}]}]
        answers = [*ask(model, *requests), *ask(anew, requests[-1])]
        assert all(answer.failure is None for answer in answers), answers
        return api.seen


@pytest.mark.parametrize("name", ["test-model", CLAUDE, NOVA, LLAMA])
def test_documents_have_names_that_stay_and_are_told_apart(name: str) -> None:
    first: Any = {"role": "user", "content": [pdf("one"), {"type": "text", "text": "Read it."}]}
    sent = over_turns(name, [first, {"role": "user", "content": [pdf("two"), pdf("two")]}, HELLO])
    assert [one["name"] for one in documents_in(sent[0])] == ["Document 1"]
    three = documents_in(sent[2])
    assert [one["name"] for one in three] == ["Document 1", "Document 2", "Document 3"]
    assert base64.b64decode(three[0]["source"]["bytes"]) == b"%PDF-1.7 one"
    assert {one["format"] for one in three} == {"pdf"}
    assert sent[2].raw == sent[3].raw, "a resumed conversation is written as it was"


@pytest.mark.parametrize("name", ["test-model", CLAUDE, NOVA, LLAMA])
def test_a_document_in_a_result_goes_to_the_message_of_the_user(name: str) -> None:
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [pdf("one")]}
    with BedrockApi([Reply(("Seen.",))]) as api:
        model = BedrockModel(name, base_url=api.url, region="us-east-1", api_key=KEY)
        conversation: list[object] = [HELLO, call, {"role": "user", "content": [result]}]
        (answer,) = ask(model, asked(conversation, model=model.spec))
    assert answer.failure is None
    assert len(documents_in(api.seen[0])) == 1


def test_a_document_of_another_format_is_refused_before_anything_is_sent(service: Service) -> None:
    source = {"type": "base64", "media_type": "application/zip", "data": "UEsDBA=="}
    message = {"role": "user", "content": [{"type": "document", "source": source}]}
    answer, _ = service.ask(asked([message]), BEDROCK)
    assert (failure_of(answer).code, answer.usage) == ("invalid_request_error", ZERO)
    assert "document format: zip" in failure_of(answer).message
    assert not service.api.seen


@pytest.mark.parametrize(
    ("name", "cache", "marks"),
    [
        (CLAUDE, True, [1, 1, 1]),
        (NOVA, True, [1, 0, 1]),
        (LLAMA, True, [0, 0, 0]),
        (CLAUDE, False, [0, 0, 0]),
    ],
)
def test_cache_marks_stand_after_what_stays_where_the_model_takes_them(
    name: str, cache: bool, marks: list[int]
) -> None:
    sent = over_turns(name, [HELLO, HELLO, {"role": "user", "content": [pdf("one")]}], cache=cache)
    for seen in sent:
        body: Any = seen.body
        last = body["messages"][-1]["content"]
        lists = [body["system"], body["toolConfig"]["tools"], last]
        assert [sum("cachePoint" in block for block in one) for one in lists] == marks
        assert "cachePoint" not in json.dumps(body["messages"][:-1])
        assert "cachePoint" not in last[0], "there must be something before a mark"


# --- failures -----------------------------------------------------------------------


@STREAMS
@pytest.mark.parametrize(
    ("answer", "code", "may_retry", "charge"),
    [
        (refused(400, "ValidationException", "Bad tool."), "invalid_request_error", False, ZERO),
        (
            refused(400, "ValidationException", "Input is too long for this model."),
            "context_full",
            False,
            ZERO,
        ),
        (refused(401, "UnrecognizedClientException", "Who?"), "authentication_error", False, ZERO),
        (refused(403, "AccessDeniedException", "Not you."), "permission_error", False, ZERO),
        (refused(429, "ThrottlingException", "Slow down."), "rate_limit_error", True, ZERO),
        (refused(500, "InternalServerException", "Oops."), "api_error", True, UNREPORTED),
        (refused(503, "ServiceUnavailableException", "Full."), "overloaded_error", True, ZERO),
        (refused(529, "Overloaded", "Too much."), "overloaded_error", True, ZERO),
    ],
)
def test_a_rejection_has_the_code_of_the_messages_api(
    service: Service, answer: Canned, code: str, may_retry: bool, charge: object, stream: bool
) -> None:
    said = service.failure(answer, dialect=BEDROCK, stream=stream)
    assert (failure_of(said).code, failure_of(said).is_retryable) == (code, may_retry)
    assert said.usage == charge
    assert json.loads(answer.body)["message"] in failure_of(said).message
    assert len(service.api.seen) == 1


@pytest.mark.parametrize(("headers", "wait_ms"), [({}, None), ({"retry_after": "2"}, 2_000)])
def test_the_wait_is_the_one_that_the_service_asks_for(
    service: Service, headers: dict[str, str], wait_ms: int | None
) -> None:
    rejected = refused(429, "ThrottlingException", "Slow down.", **headers)
    assert failure_of(service.failure(rejected, dialect=BEDROCK)).retry_after_ms == wait_ms


@pytest.mark.parametrize(
    ("kind", "code", "may_retry"),
    [
        ("throttlingException", "rate_limit_error", True),
        ("modelStreamErrorException", "api_error", True),
        ("serviceUnavailableException", "overloaded_error", True),
        ("validationException", "invalid_request_error", False),
    ],
)
def test_an_error_in_a_stream_has_its_code(service: Service, kind: str, code: str, may_retry: bool) -> None:
    begun = [event(*one) for one in events(Reply(("Hello.",)))[:2]]
    said = service.failure(streamed([*begun, exception(kind, "No more.")]), dialect=BEDROCK)
    assert (failure_of(said).code, failure_of(said).is_retryable) == (code, may_retry)
    assert "No more." in failure_of(said).message
    assert said.usage is None


def test_a_stream_with_a_wrong_checksum_is_garbage(service: Service) -> None:
    frames = [event(*one) for one in events(Reply(("Hello.",)))]
    frames[1] = frames[1].replace(b"Hello", b"Jello")
    failure = failure_of(service.failure(streamed(frames), dialect=BEDROCK))
    assert (failure.code, failure.is_retryable) == ("garbage", True)
    assert "Checksum" in failure.message


@pytest.mark.parametrize(
    "frames",
    [
        [event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"toolUse": {"input": "{}"}}})],
        [event("contentBlockDelta", {"contentBlockIndex": 0})],
        [event("contentBlockDelta", [])],
        [b"data: {}\n\n" * 4],
    ],
)
def test_a_stream_of_another_form_is_garbage(service: Service, frames: list[bytes]) -> None:
    failure = failure_of(service.failure(streamed(frames), dialect=BEDROCK))
    assert (failure.code, failure.is_retryable) == ("garbage", True)


def test_a_stream_that_ends_without_an_end_is_a_failure(service: Service) -> None:
    frames = [event(*one) for one in events(Reply(("Hello.",)))[:2]]
    failure = failure_of(service.failure(streamed([*frames, frames[0][:9]]), dialect=BEDROCK))
    assert (failure.code, failure.is_retryable) == ("broken_stream", True)


@STREAMS
@pytest.mark.parametrize("status", [200, 502])
def test_a_web_page_names_base_url_or_the_status(service: Service, stream: bool, status: int) -> None:
    failure = failure_of(service.failure(html(status), dialect=BEDROCK, stream=stream))
    assert (failure.code, failure.is_retryable) == ("garbage" if status == 200 else "api_error", True)
    assert "base_url" in failure.message or "502" in failure.message
    assert "<html" not in failure.message


@pytest.mark.parametrize("body", [{"choices": []}, {"output": {}}, [], "text"])
def test_the_answer_of_another_api_is_garbage(service: Service, body: object) -> None:
    failure = failure_of(service.failure(json_answer(body), dialect=BEDROCK, stream=False))
    assert (failure.code, failure.is_retryable) == ("garbage", True)


@STREAMS
def test_a_call_that_the_model_could_not_write_is_another_attempt_at_its_cost(
    service: Service, stream: bool
) -> None:
    said = service.failure(Reply(("Hm.",), finish="malformed_tool_use"), dialect=BEDROCK, stream=stream)
    assert (failure_of(said).code, failure_of(said).is_retryable) == ("garbage", True)
    assert "malformed_tool_use" in failure_of(said).message
    assert said.usage == Usage(10, 5)


@STREAMS
def test_a_guardrail_is_a_refusal(service: Service, stream: bool) -> None:
    service.api.reply(Reply(("I may not.",), refusal="No."))
    answer, _ = service.ask(dialect=BEDROCK, stream=stream)
    assert (answer.stop_reason, answer.usage) == ("refusal", Usage(10, 5))


def test_calls_that_wait_hold_no_thread(service: Service) -> None:
    model = service.model(BEDROCK)
    service.api.reply(*[replace(Reply(("Hi.",)), delay_s=0.5)] * 60)

    async def ask_often() -> tuple[int, list[Any]]:
        calls = [
            asyncio.create_task(model.call(asked(model=model.spec), lambda text: None)) for _ in range(60)
        ]
        await asyncio.to_thread(service.api.wait_for, 60)  # more than the layer has threads
        count = sum(thread.name.startswith("AnyIO") for thread in threading.enumerate())
        return count, await asyncio.gather(*calls)

    threads, answers = service.run(ask_often())
    assert threads <= 40
    assert all(bare(blocks_of(answer)) == [{"type": "text", "text": "Hi."}] for answer in answers)


@STREAMS
def test_a_call_goes_to_a_thread_twice_however_many_events_its_answer_has(
    service: Service, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each way there and back takes 0.05 ms; the layer alone goes once for each event.
    works: list[Any] = []
    real = anyio.to_thread.run_sync

    async def counted(work: Any, *args: Any, **options: Any) -> Any:
        works.append(work)
        return await real(work, *args, **options)

    monkeypatch.setattr(anyio.to_thread, "run_sync", counted)
    service.api.reply(Reply(("Hm.", "So.", Call("look", "{}", "c1")), piece_chars=1))
    answer, _ = service.ask(dialect=BEDROCK, stream=stream)
    assert answer.failure is None
    assert len(works) == 2


def test_the_stream_of_the_tests_has_the_type_of_the_api() -> None:
    assert streamed([]).headers["content-type"] == STREAM
