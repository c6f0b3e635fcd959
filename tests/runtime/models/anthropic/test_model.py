"""AnthropicModel: keys, parameters, its life on event loops; against a real local server."""

import asyncio
import dataclasses
import importlib.util
import subprocess
import sys
import warnings

import anthropic
import pytest

from callboard.actors.protocol.errors import MissingExtra, MissingKey, MisuseError
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.profiles import ModelSpec, Prices
from callboard.actors.protocol.usage import Usage, priced
from callboard.runtime.models.anthropic.model import KNOWN, AnthropicModel, known_prices
from callboard.runtime.models.protocol import Model
from tests.messages_api import (
    MessagesApi,
    error_answer,
    json_answer,
    message,
    sse_answer,
    stream_answer,
    text,
)
from tests.runtime.models.anthropic.kit import (
    HELLO,
    KEY,
    ask,
    ask_at,
    content_of,
    failure_at,
    model_at,
    request_with,
)


@pytest.fixture(autouse=True)
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


ANSWER = message(text("Good morning."))


def test_it_is_a_model() -> None:
    model: Model = AnthropicModel("claude-opus-5")
    assert model.spec == ModelSpec("claude-opus-5", image_tokens=4_784, context_tokens=1_000_000)


@pytest.mark.parametrize("stream", [True, False])
def test_it_answers_with_content_stop_reason_usage_and_model(api: MessagesApi, stream: bool) -> None:
    body = message(text("Hi."), stop_reason="max_tokens", cache_read_input_tokens=7, model="claude-x")
    api.add(sse_answer(body) if stream else json_answer(body))
    answer, streamed = ask_at(api.url, stream=stream)
    assert content_of(answer) == [{"type": "text", "text": "Hi."}]
    assert (answer.stop_reason, answer.model) == ("max_tokens", "claude-x")
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (10, 5)
    assert (answer.usage.cache_read_tokens, answer.usage.calls, answer.usage.micro_usd) == (7, 0, 0)
    assert streamed == ("Hi." if stream else "")
    assert api.seen[0].body.get("stream", False) is stream


@pytest.mark.parametrize("stop", ["refusal", "pause_turn", "model_context_window_exceeded", "something_new"])
@pytest.mark.parametrize("stream", [True, False])
def test_every_reason_to_stop_passes_through(api: MessagesApi, stop: str, stream: bool) -> None:
    body = message(text("I"), stop_reason=stop)
    api.add(sse_answer(body) if stream else json_answer(body))
    answer, _ = ask_at(api.url, stream=stream)
    assert (answer.failure, answer.stop_reason) == (None, stop)


@pytest.mark.parametrize("stream", [True, False])
def test_a_refusal_without_content_is_an_answer(api: MessagesApi, stream: bool) -> None:
    body = message(stop_reason="refusal")
    api.add(sse_answer(body) if stream else json_answer(body))
    assert content_of(ask_at(api.url, stream=stream)[0]) == []


def test_a_success_that_names_a_retry_after_is_a_success(api: MessagesApi) -> None:
    api.add(json_answer(ANSWER, retry_after="20"))
    assert content_of(ask_at(api.url)[0]) == ANSWER["content"]


# --- keys -----------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
def test_the_key_comes_from_the_environment_at_the_time_of_the_call(
    api: MessagesApi, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    model = AnthropicModel("claude-opus-5", base_url=api.url)
    with pytest.raises(MissingKey):
        model.check()
    monkeypatch.setenv(variable, "sk-from-environment")
    model.check()
    api.add(sse_answer(ANSWER))

    async def run() -> None:
        content_of((await ask(model))[0])
        await model.aclose()

    asyncio.run(run())
    assert api.seen[0].headers["authorization"] == "Bearer sk-from-environment"


def test_a_key_given_is_used_before_the_environment(
    api: MessagesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-from-environment")
    api.add(sse_answer(ANSWER))
    ask_at(api.url)
    assert api.seen[0].headers["authorization"] == f"Bearer {KEY}"


def test_without_a_key_the_check_says_which_variable_and_argument_to_use() -> None:
    with pytest.raises(MissingKey, match=r"ANTHROPIC_API_KEY.*api_key="):
        AnthropicModel("claude-opus-5").check()


def test_without_the_sdk_the_model_says_which_extra_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'callboard\[anthropic\]'"):
        AnthropicModel("claude-sonnet-5", api_key="k" * 20).check()


def test_without_a_key_a_call_fails_and_nothing_is_sent(api: MessagesApi) -> None:
    failure, answer = failure_at(api.url, api_key=None)
    assert (failure.code, failure.is_retryable) == ("missing_key", False)
    assert "ANTHROPIC_API_KEY" in failure.message
    assert answer.usage is not None
    assert answer.usage.tokens == 0
    assert api.seen == []


def test_the_key_is_neither_in_the_spec_nor_in_the_repr() -> None:
    model = AnthropicModel("claude-opus-5", api_key=KEY, headers={"x-gateway-key": "gateway-secret"})
    assert KEY not in repr(model)
    assert KEY not in repr(model.spec)
    assert "gateway" not in f"{model!r} {model.spec!r}"


@pytest.mark.parametrize("stream", [True, False])
def test_no_secret_is_in_a_failure_even_if_the_service_repeats_it(api: MessagesApi, stream: bool) -> None:
    api.add(error_answer(401, "authentication_error", f"bad key {KEY}, gateway-secret" + "!" * 10_000))
    failure, _ = failure_at(api.url, stream=stream, headers={"x-gateway-key": "gateway-secret"})
    assert api.seen[0].headers["x-gateway-key"] == "gateway-secret"
    assert KEY not in failure.message
    assert "gateway-secret" not in failure.message
    assert failure.message.startswith("the service answered 401 authentication_error: bad key [secret]")
    assert len(failure.message) == 4_000


# --- parameters ---------------------------------------------------------------------------


def test_parameters_betas_and_version_are_logged_and_sent(api: MessagesApi) -> None:
    model = model_at(
        api.url,
        params={"thinking": {"type": "adaptive"}, "metadata": {"user_id": "u"}},
        betas=["one-2026-01-01", "two-2026-01-01"],
        api_version="2023-06-01",
        prices=Prices(1e-06, 2e-06),
    )
    assert bytes(model.spec.params) == (
        b'{"thinking":{"type":"adaptive"},"metadata":{"user_id":"u"},'
        b'"betas":["one-2026-01-01","two-2026-01-01"],"api_version":"2023-06-01"}'
    )
    assert model.spec.prices == Prices(1e-06, 2e-06)
    api.add(sse_answer(ANSWER))

    async def run() -> None:
        content_of((await ask(model, request_with(model=model.spec)))[0])
        await model.aclose()

    asyncio.run(run())
    seen = api.seen[0]
    assert seen.headers["anthropic-beta"] == "one-2026-01-01,two-2026-01-01"
    assert seen.headers["anthropic-version"] == "2023-06-01"
    assert seen.body["thinking"] == {"type": "adaptive"}
    assert not {"betas", "api_version"} & seen.body.keys()


def test_the_request_is_made_with_the_logged_parameters_not_with_the_models_own(api: MessagesApi) -> None:
    api.add(sse_answer(ANSWER))
    ask_at(api.url, request_with(model=ModelSpec("claude-other", 77)), params={"metadata": {}})
    assert (api.seen[0].body["model"], api.seen[0].body["max_tokens"]) == ("claude-other", 77)
    assert "metadata" not in api.seen[0].body


@pytest.mark.parametrize("key", ["messages", "model", "stream", "api_key", "betas", "extra_headers"])
def test_parameters_with_a_place_of_their_own_are_refused(key: str) -> None:
    with pytest.raises(MisuseError, match=key):
        AnthropicModel("claude-opus-5", params={key: "x"})


def test_sampling_parameters_need_the_old_api_version() -> None:
    with pytest.raises(MisuseError, match=r'temperature, top_p.*api_version="2023-06-01"'):
        AnthropicModel("claude-opus-5", params={"top_p": 0.9, "temperature": 0})
    AnthropicModel("claude-sonnet-4-5", params={"temperature": 0}, api_version="2023-06-01")


@pytest.mark.parametrize("value", [object(), {1: {2}}, {"a": AnthropicModel}])
def test_parameters_that_are_no_json_are_refused(value: object) -> None:
    with pytest.raises(MisuseError, match="params"):
        AnthropicModel("claude-opus-5", params={"metadata": value})


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(MisuseError, match="http"):
        AnthropicModel("claude-opus-5", base_url="localhost:8080")


def test_an_answer_needs_room_for_a_token() -> None:
    with pytest.raises(MisuseError, match="max_tokens=0"):
        AnthropicModel("claude-opus-5", max_tokens=0)


def test_without_parameters_the_spec_has_none() -> None:
    assert AnthropicModel("claude-opus-5").spec.params == NULL


# --- retries, clients, event loops -----------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 529])
def test_it_never_asks_twice_on_its_own(api: MessagesApi, status: int) -> None:
    api.add(error_answer(status, "overloaded_error", "busy", retry_after="0", x_should_retry="true"))
    failure_at(api.url)
    assert len(api.seen) == 1


def test_a_client_of_the_users_own_is_used_without_retries_and_left_open(api: MessagesApi) -> None:
    api.add(error_answer(529, "overloaded_error", "busy"), sse_answer(ANSWER))

    async def run() -> None:
        async with anthropic.AsyncAnthropic(api_key="sk-of-the-client", base_url=api.url) as client:
            model = AnthropicModel("claude-opus-5", client=client)
            model.check()
            failed, _ = await ask(model)
            assert failed.failure is not None
            assert len(api.seen) == 1
            await model.aclose()
            content_of((await ask(model))[0])

    asyncio.run(run())
    assert api.seen[0].headers["authorization"] == "Bearer sk-of-the-client"


def test_streams_that_end_give_their_connection_back(api: MessagesApi) -> None:
    api.add(*[sse_answer(ANSWER)] * 5)

    async def run() -> None:
        model = model_at(api.url)
        for _ in range(5):
            content_of((await ask(model))[0])
        await model.aclose()

    asyncio.run(run())
    assert api.connections == 1


def test_many_calls_run_at_once_on_one_model(api: MessagesApi) -> None:
    answers = [message(text(f"I am answer {number}.")) for number in range(20)]
    api.add(*map(sse_answer, answers))

    async def run() -> list[str]:
        model = model_at(api.url)
        results = await asyncio.gather(*[ask(model) for _ in answers])
        await model.aclose()
        return sorted(streamed for _, streamed in results)

    assert asyncio.run(run()) == sorted(f"I am answer {number}." for number in range(20))


def test_a_model_works_on_one_event_loop_after_another_and_after_it_was_closed(api: MessagesApi) -> None:
    api.add(*[sse_answer(ANSWER)] * 3)
    model = model_at(api.url)

    async def run(calls: int) -> list[object]:
        said: list[object] = []
        for _ in range(calls):
            said.append(content_of((await ask(model))[0]))
            await model.aclose()
        await model.aclose()
        return said

    assert asyncio.run(run(2)) + asyncio.run(run(1)) == [ANSWER["content"]] * 3


def test_each_event_loop_gets_a_client_of_its_own() -> None:
    """Use one model on two loops: a client left open would offer its dead connections on the second."""
    model = AnthropicModel("claude-opus-5", api_key=KEY)
    assert asyncio.run(model._opened()) is not asyncio.run(model._opened())


def test_a_cancelled_call_closes_its_connection(api: MessagesApi) -> None:
    api.add(dataclasses.replace(sse_answer(ANSWER), delay_s=30))

    async def run() -> None:
        model = model_at(api.url)
        call = asyncio.create_task(ask(model))
        await asyncio.to_thread(api.wait_for, 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await model.aclose()

    asyncio.run(run())
    assert api.hung_up.wait(5)


def test_a_call_cancelled_in_the_middle_of_a_stream_closes_its_connection(api: MessagesApi) -> None:
    api.add(dataclasses.replace(sse_answer(message(text("x" * 500))), drip_bytes=2_000, drip_s=30))

    async def run() -> None:
        model, texts = model_at(api.url), asyncio.Queue[str]()
        call = asyncio.create_task(model.call(request_with(), texts.put_nowait))
        await texts.get()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await model.aclose()

    asyncio.run(run())
    assert api.hung_up.wait(5)


class Quit(BaseException):
    """Stands for KeyboardInterrupt and SystemExit, which asyncio handles in a way of its own."""


def test_what_is_no_exception_is_never_swallowed(api: MessagesApi) -> None:
    api.add(sse_answer(ANSWER))

    def quit_now(text: str) -> None:
        raise Quit

    async def run() -> None:
        model = model_at(api.url)
        try:
            await model.call(request_with(), quit_now)
        finally:
            await model.aclose()

    with pytest.raises(Quit):
        asyncio.run(run())


def test_an_exception_out_of_our_own_code_is_a_failure_that_is_not_retried(api: MessagesApi) -> None:
    api.add(sse_answer(ANSWER))

    async def run() -> None:
        model = model_at(api.url)
        answer = await model.call(request_with(), lambda text: 1 / 0)  # type: ignore[arg-type]  # a callback that raises
        await model.aclose()
        assert answer.failure is not None
        assert (answer.failure.code, answer.failure.is_retryable) == ("model_crashed", False)
        assert "ZeroDivisionError" in answer.failure.message
        assert answer.usage is None

    asyncio.run(run())


def test_a_long_answer_may_be_asked_for_without_streaming(api: MessagesApi) -> None:
    """Ask for a long answer, which the SDK's `messages.create` refuses without a stream."""
    api.add(json_answer(ANSWER))
    request = request_with(HELLO, model=ModelSpec("claude-opus-5", 128_000))
    assert content_of(ask_at(api.url, request, stream=False)[0]) == ANSWER["content"]


def test_a_deprecated_model_causes_no_warning(api: MessagesApi) -> None:
    """Use a deprecated model: the SDK's `messages.create` warns, which fails many test suites."""
    api.add(stream_answer([]), sse_answer(ANSWER))
    request = request_with(HELLO, model=ModelSpec("claude-3-opus-20240229"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ask_at(api.url, request)
        assert content_of(ask_at(api.url, request)[0]) == ANSWER["content"]


@pytest.mark.slow
def test_importing_and_making_a_model_does_not_import_the_sdk() -> None:
    code = (
        "import sys; from callboard.runtime.models.anthropic.model import AnthropicModel as M;"
        "M('claude-opus-5');"
        "print([name for name in ('anthropic', 'httpx2', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_model_tells_the_runtime_which_secrets_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    assert AnthropicModel("m").secrets() == {}
    headers = {"Authorization": "Bearer abcdefgh", "X-Team": "a-team-of-ours", "x-api-key": "short"}
    found = AnthropicModel("m", api_key="key-of-mine", headers=headers).secrets()
    assert found == {"api-key": "key-of-mine", "Authorization": "Bearer abcdefgh"}
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-of-mine")
    assert AnthropicModel("m").secrets() == {"api-key": "token-of-mine"}


def test_prices_are_used_only_when_asked_for() -> None:
    assert AnthropicModel("claude-opus-5").spec.prices is None
    prices = AnthropicModel("claude-opus-5", prices="known").spec.prices
    assert prices == Prices(5, 25, 0.5, 6.25)
    assert priced(Usage(1_000, 100, 10_000, 400), prices).micro_usd == 5_000 + 2_500 + 5_000 + 2_500


def test_a_model_without_a_known_price_is_refused_with_a_way_out() -> None:
    with pytest.raises(MisuseError, match=r"claude-haiku-5-5.*prices=Prices"):
        AnthropicModel("claude-haiku-5-5", prices="known")


def test_a_price_that_is_not_known_names_the_near_models() -> None:
    with pytest.raises(MisuseError, match=r"did you mean 'claude-sonnet-5'.*pass prices="):
        AnthropicModel("claude-sonet-5", prices="known")


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        ("claude-sonet-5", "; did you mean 'claude-sonnet-5' or 'claude-sonnet-4-5'?"),
        ("claude-sonnet-5", "not_found_error: model"),
        ("x", "not_found_error: model"),
    ],
)
def test_an_unknown_model_names_the_near_ones(api: MessagesApi, name: str, ending: str) -> None:
    api.add(error_answer(404, "not_found_error", "model"))

    async def run() -> str:
        model = AnthropicModel(name, base_url=api.url, api_key=KEY)
        answer, _ = await ask(model)
        await model.aclose()
        assert answer.failure is not None
        return answer.failure.message

    assert asyncio.run(run()).endswith(ending)


def test_a_cache_that_lasts_an_hour_costs_twice_the_input_to_write() -> None:
    assert known_prices("claude-sonnet-4-5", "1h").cache_write_usd == 6


@pytest.mark.parametrize("name", KNOWN)
def test_every_price_has_the_proportions_of_the_published_table(name: str) -> None:
    prices = KNOWN[name]
    assert prices.output_usd == 5 * prices.input_usd
    assert prices.cache_write_usd * 4 == 5 * prices.input_usd
    assert prices.cache_read_usd * 10 <= prices.input_usd
