"""Gemini: its own form of a request, of an answer and of an error."""

import base64
import json
from typing import Any

import pytest

from callboard import Agent, Runtime
from callboard.actors.protocol.errors import MissingExtra, MissingKey, MisuseError, UnknownName
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.runtime.models.failures import UNREPORTED
from callboard.runtime.models.layered.gemini import GeminiModel
from callboard.runtime.models.protocol import model_named
from tests.gemini_api import GeminiApi, events, refused
from tests.messages_api import Canned, Seen
from tests.openai_api import Call, Reply, Thought, streamed
from tests.runtime.models.layered.kit import (
    KEY,
    LOOK,
    STREAM_PATHS,
    Service,
    asked,
    blocks_of,
    failure_of,
    html,
    ids_of,
    items_of,
    said,
)
from tests.runtime.models.layered.test_openai import ask

GEMINI: Any = "generate-content"
STREAMS = pytest.mark.parametrize("stream", [True, False])
HELLO: dict[str, object] = {"role": "user", "content": "Hello."}


def test_a_name_leads_to_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_GEMINI_BASE_URL", raising=False)
    model_named.cache_clear()
    model = model_named("google:gemini-2.5-pro")
    endpoint = "https://generativelanguage.googleapis.com (generate-content)"
    assert type(model) is GeminiModel
    assert model.spec.name == "google:gemini-2.5-pro"
    assert model.spec.origin == Origin("pydantic-ai", "google", endpoint, "gemini-2.5-pro")


def test_an_unknown_provider_names_the_near_one() -> None:
    with pytest.raises(UnknownName, match="did you mean 'google'"):
        model_named("gogle:gemini-2.5-pro")


def test_an_unknown_model_names_the_near_one() -> None:
    text = "models/gemini-2.5-por is not found for API version v1beta"
    with GeminiApi([refused(404, "NOT_FOUND", text)]) as api:
        (answer,) = ask(GeminiModel("gemini-2.5-por", base_url=api.url, api_key=KEY), asked())
    assert failure_of(answer).code == "not_found_error"
    assert "gemini-2.5-pro'" in failure_of(answer).message


def test_a_missing_key_is_named_before_a_session_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    model = GeminiModel("gemini-2.5-pro")
    with pytest.raises(MissingKey, match="GOOGLE_API_KEY"):
        Runtime(":memory:", model=model).run_sync(Agent("host"), "Hi.")
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    model.check()
    assert model.secrets() == {"api-key": KEY}


def test_a_missing_extra_is_named_with_its_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("importlib.util.find_spec", missing)
    with pytest.raises(MissingExtra, match=r"needs .*google\.genai: pip install 'callboard\[gemini\]'"):
        GeminiModel("gemini-2.5-pro", api_key=KEY).check()


@pytest.mark.parametrize(
    "params", [{"contents": []}, {"generationConfig": {"maxOutputTokens": 5}}, {"tools": []}, {"timeout": 3}]
)
def test_parameters_that_callboard_sets_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(MisuseError, match=next(iter(params))):
        GeminiModel("gemini-2.5-pro", params=params)


# --- what goes out ------------------------------------------------------------------


def test_the_request_is_in_the_form_of_the_api(service: Service) -> None:
    service.api.reply(Reply(("Hi.",)))
    params = {"generationConfig": {"temperature": 0.5}, "safetySettings": []}
    model = service.model(GEMINI, params=params)
    service.ask(asked(system="Be brief.", model=model.spec), GEMINI, params=params)
    seen = service.api.seen[0]
    schema = LOOK["input_schema"]
    function = {"name": "look", "description": "Look at a file.", "parameters_json_schema": schema}
    assert seen.body == {
        "contents": [{"role": "user", "parts": [{"text": "Hello."}]}],
        "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [function]}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "generationConfig": {"maxOutputTokens": 100, "responseModalities": ["TEXT"], "temperature": 0.5},
        "safetySettings": [],
    }
    assert seen.headers["x-goog-api-key"] == KEY
    assert KEY not in seen.path


def test_a_forced_tool_is_asked_for_where_that_is_allowed(service: Service) -> None:
    service.api.reply(Reply((Call("look", "{}"),)), Reply(("No.",)))
    tools = [LOOK, {**LOOK, "name": "other"}]
    service.ask(asked(force_tool="look", tools=tools), GEMINI)
    service.ask(asked(force_tool="look", tools=tools), GEMINI, force_tools=False)
    one, two = (seen.body["toolConfig"]["functionCallingConfig"] for seen in service.api.seen)  # type: ignore[index]  # a dict
    assert one == {"mode": "ANY", "allowedFunctionNames": ["look"]}
    assert two == {"mode": "AUTO"}
    assert service.api.seen[0].body["tools"] == service.api.seen[1].body["tools"]


@STREAMS
def test_signatures_go_back_where_they_were_over_three_turns(service: Service, stream: bool) -> None:
    messages: list[object] = [HELLO]
    seals = [base64.b64encode(f"seal {turn}".encode()).decode() for turn in range(3)]
    for turn, seal in enumerate(seals):
        parts = (Thought(f"thought {turn}", seal), Call("look", '{"path":"a"}', f"c{turn}"))
        service.api.reply(Reply(parts))
        answer, _ = service.ask(asked(messages), GEMINI, stream=stream)
        messages += said(answer)
    service.api.reply(Reply(("Done.",)))
    answer, _ = service.ask(asked(messages), GEMINI, stream=stream)
    assert answer.failure is None
    replies = [item["parts"] for item in items_of(service.api.seen[-1]) if item["role"] == "model"]
    assert [parts[0] for parts in replies] == [
        {"text": f"thought {turn}", "thought": True} for turn in range(3)
    ]
    assert [parts[1]["thoughtSignature"] for parts in replies] == seals


def test_a_signature_of_a_text_goes_back_with_it(service: Service) -> None:
    service.api.reply(Reply((Thought("Hm.", "c2VhbA=="), "Hello there.")), Reply(("Done.",)))
    first, _ = service.ask(asked(), GEMINI)
    service.ask(asked([HELLO, *said(first)]), GEMINI)
    assert items_of(service.api.seen[-1])[1]["parts"][1] == {
        "text": "Hello there.",
        "thoughtSignature": "c2VhbA==",
    }


def test_a_call_without_a_signature_goes_back_with_the_documented_one(service: Service) -> None:
    service.api.reply(Reply((Call("look", "{}", "c1"),)), Reply(("Done.",)))
    first, _ = service.ask(asked(), GEMINI)
    service.ask(asked([HELLO, *said(first)]), GEMINI)
    (call,) = items_of(service.api.seen[-1])[1]["parts"]
    assert base64.b64decode(call["thoughtSignature"]) == b"skip_thought_signature_validator"


def test_arguments_go_back_with_the_numbers_that_came(service: Service) -> None:
    service.api.reply(
        Reply((Call("look", '{"a": 1.0, "b": 12345678901234567890}', "c1"),)), Reply(("Done.",))
    )
    first, _ = service.ask(asked(), GEMINI)
    assert json.dumps(blocks_of(first)[0]["input"]) == '{"a": 1.0, "b": 12345678901234567890}'
    service.ask(asked([HELLO, *said(first)]), GEMINI)
    assert b'"args":{"a":1.0,"b":12345678901234567890}' in service.api.seen[-1].raw


@STREAMS
def test_a_number_that_is_none_in_json_is_no_argument(service: Service, stream: bool) -> None:
    service.api.reply(Reply((Call("look", '{"n": 1e999}', "c1"),)), Reply(("Done.",)))
    first, _ = service.ask(asked(), GEMINI, stream=stream)
    assert blocks_of(first)[0]["input"] == '{"n": Infinity}'
    second, _ = service.ask(asked([HELLO, *said(first)]), GEMINI)
    assert second.failure is None
    call = items_of(service.api.seen[-1])[1]["parts"][0]["functionCall"]
    assert call["args"] == {"unreadable": '{"n": Infinity}'}


def test_doubled_ids_are_told_apart_here_and_go_back_as_they_came(service: Service) -> None:
    calls = (Call("look", '{"path": "b"}', "same"), Call("look", '{"path": "a"}', "same"))
    service.api.reply(Reply(calls), Reply(("Done.",)))
    first, _ = service.ask(asked(), GEMINI)
    assert [block["id"] for block in blocks_of(first)] == ["same", "call_1_1"]
    second, _ = service.ask(asked([HELLO, *said(first)]), GEMINI)
    assert second.failure is None
    assert ids_of(service.api.seen[-1]) == ["same"] * 4


# --- files --------------------------------------------------------------------------

PICTURE = base64.b64encode(b"a picture").decode()
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}


def by(kind: str, **source: object) -> dict[str, object]:
    return {"type": kind, "source": source}


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (IMAGE, {"inlineData": {"data": PICTURE, "mimeType": "image/png"}}),
        (by("image", type="url", url="https://a.org/b.png?c=d"), ("https://a.org/b.png?c=d", "image/png")),
        (by("image", type="url", url="https://a.org/b"), ("https://a.org/b", "image/jpeg")),
        (by("document", type="url", url="https://a.org/b.csv"), ("https://a.org/b.csv", "text/csv")),
        (by("document", type="file", file_id="https://a.org/1"), ("https://a.org/1", "application/pdf")),
        (
            by("document", type="file", file_id="https://a.org/1", media_type="text/plain"),
            ("https://a.org/1", "text/plain"),
        ),
    ],
)
def test_the_service_loads_a_file_by_its_address(service: Service, block: object, part: Any) -> None:
    service.api.reply(Reply(("Hi.",)))
    answer, _ = service.ask(asked([{"role": "user", "content": [block]}]), GEMINI)
    assert answer.failure is None
    if isinstance(part, tuple):
        part = {"fileData": {"fileUri": part[0], "mimeType": part[1]}}
    assert items_of(service.api.seen[-1])[0]["parts"] == [part]
    assert len(service.api.seen) == 1


def test_an_address_that_the_service_cannot_load_is_refused(service: Service) -> None:
    block = by("image", type="url", url="http://127.0.0.1/a.png")
    answer, _ = service.ask(asked([{"role": "user", "content": [block]}]), GEMINI)
    assert (failure_of(answer).code, answer.usage) == ("invalid_request_error", ZERO)
    assert "not an https address" in failure_of(answer).message
    assert not service.api.seen


@STREAMS
def test_an_image_by_the_model_is_a_block_and_goes_back(service: Service, stream: bool) -> None:
    blob = {"inlineData": {"mimeType": "image/png", "data": PICTURE}, "thoughtSignature": "c2VhbA=="}
    document = events(Reply())[0]
    document["candidates"][0]["content"] = {"role": "model", "parts": [blob]}  # type: ignore[index]  # a dict
    body = json.dumps(document).encode()
    whole = Canned(body, headers={"content-type": "application/json"})
    service.api.reply(streamed([document], ends_with_done=False) if stream else whole, Reply(("Done.",)))
    first, _ = service.ask(asked(), GEMINI, stream=stream)
    (block,) = blocks_of(first)
    assert {"type": block["type"], "source": block["source"]} == IMAGE
    service.ask(asked([HELLO, *said(first)]), GEMINI, stream=stream)
    (part,) = items_of(service.api.seen[-1])[1]["parts"]
    assert part["thoughtSignature"] == "c2VhbA=="
    assert part["inlineData"]["data"] == PICTURE


def test_an_image_in_a_result_is_beside_it(service: Service) -> None:
    call = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    content = [{"type": "text", "text": "a plot"}, IMAGE]
    result = {"type": "tool_result", "tool_use_id": "c1", "content": content}
    service.api.reply(Reply(("Hi.",)))
    messages = [HELLO, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    answer, _ = service.ask(asked(messages), GEMINI)
    assert answer.failure is None
    back = items_of(service.api.seen[-1])[2:]
    assert back[0]["parts"][0]["functionResponse"]["response"] == {"return_value": "a plot"}
    assert [next(iter(part)) for part in back[1]["parts"]] == ["text", "inlineData"]


# --- failures -----------------------------------------------------------------------

RETRY: dict[str, object] = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2.5s"}
BAD_KEY: dict[str, object] = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "API_KEY_INVALID",
}


@STREAMS
@pytest.mark.parametrize(
    ("answer", "code", "may_retry", "charge"),
    [
        (refused(400, "INVALID_ARGUMENT", "Bad tool."), "invalid_request_error", False, ZERO),
        (refused(400, "INVALID_ARGUMENT", "Bad key.", BAD_KEY), "authentication_error", False, ZERO),
        (
            refused(400, "INVALID_ARGUMENT", "The input token count exceeds the maximum number of tokens."),
            "context_full",
            False,
            ZERO,
        ),
        (refused(401, "UNAUTHENTICATED", "Who?"), "authentication_error", False, ZERO),
        (refused(403, "PERMISSION_DENIED", "Not you."), "permission_error", False, ZERO),
        (refused(429, "RESOURCE_EXHAUSTED", "Slow down."), "rate_limit_error", True, ZERO),
        (refused(500, "INTERNAL", "Oops."), "api_error", True, UNREPORTED),
        (refused(503, "UNAVAILABLE", "The model is overloaded."), "overloaded_error", True, ZERO),
        (refused(529, "OVERLOADED", "Too much."), "overloaded_error", True, ZERO),
        (refused(504, "DEADLINE_EXCEEDED", "Late."), "timeout_error", True, None),
    ],
)
def test_a_rejection_has_the_code_of_the_messages_api(
    service: Service, answer: Canned, code: str, may_retry: bool, charge: object, stream: bool
) -> None:
    said = service.failure(answer, dialect=GEMINI, stream=stream)
    assert (failure_of(said).code, failure_of(said).is_retryable) == (code, may_retry)
    assert said.usage == charge
    assert json.loads(answer.body)["error"]["message"] in failure_of(said).message
    assert len(service.api.seen) == 1


@pytest.mark.parametrize(
    ("details", "headers", "wait_ms"),
    [((), {}, None), ((RETRY,), {}, 2_500), ((), {"retry_after": "2"}, 2_000)],
)
def test_the_wait_is_the_one_that_the_service_asks_for(
    service: Service, details: Any, headers: dict[str, str], wait_ms: int | None
) -> None:
    rejected = refused(429, "RESOURCE_EXHAUSTED", "Slow down.", *details, **headers)
    assert failure_of(service.failure(rejected, dialect=GEMINI)).retry_after_ms == wait_ms


@STREAMS
def test_a_call_that_the_model_could_not_write_is_another_attempt_at_its_cost(
    service: Service, stream: bool
) -> None:
    said = service.failure(Reply((Call("look", '{"pa'),)), dialect=GEMINI, stream=stream)
    assert (failure_of(said).code, failure_of(said).is_retryable) == ("garbage", True)
    assert "MALFORMED_FUNCTION_CALL" in failure_of(said).message
    assert said.usage == Usage(10, 5)


@STREAMS
def test_a_blocked_prompt_is_a_refusal(service: Service, stream: bool) -> None:
    service.api.reply(Reply((), refusal="No."))
    answer, _ = service.ask(dialect=GEMINI, stream=stream)
    assert answer.failure is None
    assert (answer.stop_reason, answer.usage) == ("refusal", Usage(10, 5))


def test_an_error_in_a_stream_has_its_code(service: Service) -> None:
    error: dict[str, Any] = {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}
    begun = events(Reply(("Hello.",)))[0]
    said = service.failure(streamed([begun, {"error": error}], ends_with_done=False), dialect=GEMINI)
    assert (failure_of(said).code, failure_of(said).is_retryable) == ("overloaded_error", True)
    assert said.usage is None


@STREAMS
@pytest.mark.parametrize("status", [200, 502])
def test_a_web_page_names_base_url(service: Service, stream: bool, status: int) -> None:
    failure = failure_of(service.failure(html(status), dialect=GEMINI, stream=stream))
    assert (failure.code, failure.is_retryable) == ("garbage" if status == 200 else "api_error", True)
    assert "base_url" in failure.message
    assert "<html" not in failure.message


@STREAMS
@pytest.mark.parametrize("body", [b"[]", b'"text"', b'{"choices": []}', b'{"candid'])
def test_the_answer_of_another_api_is_garbage(service: Service, stream: bool, body: bytes) -> None:
    answer = Canned(body, headers={"content-type": "application/json"})
    failure = failure_of(service.failure(answer, dialect=GEMINI, stream=stream))
    assert (failure.code, failure.is_retryable) == ("garbage", True)


def test_a_stream_that_ends_without_an_end_is_a_failure(service: Service) -> None:
    begun = events(Reply(("Hello.",)))[:1]
    failure = failure_of(service.failure(streamed(begun, ends_with_done=False), dialect=GEMINI))
    assert (failure.code, failure.is_retryable) == ("broken_stream", True)


def test_an_answer_that_asks_for_a_second_request_is_a_failure(service: Service) -> None:
    begun = events(Reply(("Hello.",)))[0]
    begun["candidates"][0] |= {"finishReason": "CONTINUATION", "continuationToken": "dG9rZW4="}  # type: ignore[index]  # a dict
    said = service.failure(streamed([begun], ends_with_done=False), dialect=GEMINI)
    assert not failure_of(said).is_retryable
    assert "second request" in failure_of(said).message
    assert len(service.api.seen) == 1


def test_the_path_of_the_tests_is_that_of_the_api(service: Service) -> None:
    service.api.reply(Reply(("Hi.",)))
    service.ask(dialect=GEMINI)
    seen: Seen = service.api.seen[0]
    assert seen.path == STREAM_PATHS[GEMINI]
