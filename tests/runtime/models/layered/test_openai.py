"""The models that users make: their names, their addresses, and what each service is sent."""

import asyncio
import socket
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from callboard import Agent, Limits, Outcome, Runtime, tool
from callboard.actors.protocol.errors import MissingExtra, MissingKey, MisuseError, UnknownName
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.profiles import Prices
from callboard.errors import SessionDetached
from callboard.runtime.models.layered.model import LayeredModel
from callboard.runtime.models.layered.openai import (
    OllamaModel,
    OpenAICompatibleModel,
    OpenAIModel,
    OpenRouterModel,
)
from callboard.runtime.models.protocol import model_named
from tests.messages_api import Canned, json_answer
from tests.openai_api import (
    Call,
    OpenAIApi,
    ProviderApi,
    Reply,
    Thought,
    chat_body,
    failed,
    responses_body,
    responses_events,
    streamed,
)
from tests.runtime.models.layered.kit import (
    DIALECTS,
    KEY,
    OPENAI_DIALECTS,
    WIRES,
    asked,
    blocks_of,
    failure_of,
    items_of,
    model_at,
    said,
)
from tests.tables import table


def ask(model: LayeredModel, *requests: Any) -> list[Any]:
    """Call a model with these requests, one after the other."""

    async def run() -> list[Any]:
        try:
            return [await model.call(request, lambda text: None) for request in requests]
        finally:
            await model.aclose()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "kind", "origin"),
    [
        ("openai:gpt-5", OpenAIModel, ("openai", "https://api.openai.com/v1 (responses)", "gpt-5")),
        ("openai-chat:gpt-5", OpenAIModel, ("openai", "https://api.openai.com/v1 (chat)", "gpt-5")),
        ("openrouter:a/b", OpenRouterModel, ("openrouter", "https://openrouter.ai/api/v1 (chat)", "a/b")),
        ("ollama:qwen3:8b", OllamaModel, ("ollama", "http://localhost:11434/v1 (chat)", "qwen3:8b")),
    ],
)
def test_a_name_leads_to_a_model(
    name: str, kind: type[LayeredModel], origin: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_BASE_URL", "OLLAMA_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    model_named.cache_clear()
    model = model_named(name)
    assert type(model) is kind
    assert (model.spec.name, model.spec.origin) == (name, Origin("pydantic-ai", *origin))


def test_an_unknown_provider_names_the_near_one() -> None:
    with pytest.raises(UnknownName, match="did you mean 'openai'"):
        model_named("opnai:gpt-5")


def test_an_unknown_model_names_the_near_one() -> None:
    with OpenAIApi([failed(404, "no such model", code="model_not_found")]) as api:
        (answer,) = ask(OpenAIModel("gpt-6-luma", base_url=f"{api.url}/v1", api_key=KEY), asked())
    assert failure_of(answer).code == "not_found_error"
    assert "gpt-6-luna" in failure_of(answer).message


def test_a_server_that_does_not_run_is_named_with_the_next_step() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        (answer,) = ask(OpenAICompatibleModel("m", base_url=url.replace("//", "//name:password@")), asked())
    message = failure_of(answer).message
    assert message.startswith(f"no answer from {url}/chat/completions: ConnectError")
    assert message.endswith("; check base_url, and that the server runs")


@pytest.mark.parametrize("model", [OpenAIModel("gpt-5"), OpenRouterModel("a/b")])
def test_a_missing_key_is_named_before_a_session_opens(
    model: LayeredModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(MissingKey, match="_API_KEY"):
        model.check()
    with pytest.raises(MissingKey):
        Runtime(":memory:", model=model).run_sync(Agent("host"), "Hi.")
    (answer,) = ask(model, asked())
    assert failure_of(answer).code == "missing_key"


@pytest.mark.parametrize(
    "model", [OllamaModel("m"), OpenAICompatibleModel("m", base_url="http://127.0.0.1:1/v1")]
)
def test_a_server_of_your_own_needs_no_key(model: LayeredModel) -> None:
    model.check()


def test_a_missing_extra_is_named_with_its_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'callboard\[models\]'"):
        OpenAIModel("gpt-5", api_key=KEY).check()


@pytest.mark.parametrize(
    "settings",
    [
        {"base_url": "localhost:8000"},
        {"base_url": "http://x", "max_tokens": 0},
        {"base_url": "http://x", "params": {"messages": []}},
        {"base_url": "http://x", "params": {"max_tokens": 5}},
    ],
)
def test_a_model_that_cannot_work_is_not_made(settings: dict[str, Any]) -> None:
    with pytest.raises(MisuseError):
        OpenAICompatibleModel("m", **settings)


@pytest.mark.parametrize(
    "settings", [{"context": 0}, {"params": {"options": 3}}, {"params": {"options": {"num_ctx": 5}}}]
)
def test_an_ollama_model_that_cannot_work_is_not_made(settings: dict[str, Any]) -> None:
    with pytest.raises(MisuseError):
        OllamaModel("m", **settings)


def test_an_address_with_a_password_is_not_in_the_origin() -> None:
    model = OpenAICompatibleModel("m", base_url="https://me:secret@host:8443/v1/")
    assert model.spec.origin == Origin("pydantic-ai", "compatible", "https://host:8443/v1 (chat)", "m")


def test_ollama_is_sent_the_size_of_its_context_and_a_longer_request_is_not_sent() -> None:
    reply = Reply((Thought("Hm.", field="reasoning"), Call("look", "{}", None)))
    with OpenAIApi([reply, Reply(("Done.",), {"input": 500, "output": 1})]) as api:
        model = OllamaModel("m", base_url=f"{api.url}/v1", context=500, params={"options": {"seed": 1}})
        start: list[object] = [{"role": "user", "content": "Hi."}]
        (first,) = ask(model, asked(start, model=model.spec))
        assert [block.get("id") for block in blocks_of(first)] == [None, "call_1_0"]
        (full,) = ask(model, asked([*start, *said(first)], model=model.spec))
        (long,) = ask(model, asked([{"role": "user", "content": "x" * 2_500}], model=model.spec))
    assert api.seen[0].body["options"] == {"num_ctx": 500, "seed": 1}
    assert api.seen[0].body["max_tokens"] == 8_192
    assert items_of(api.seen[1])[1]["reasoning"] == "Hm."
    assert failure_of(full).code == failure_of(long).code == "context_full"
    assert len(api.seen) == 2


def test_the_details_of_openrouters_reasoning_go_back() -> None:
    reply = Reply((Thought("Hm, so.", field="reasoning_details"), Call("look", "{}", "c1")))
    with OpenAIApi([reply, Reply(("Done.",))]) as api:
        model = OpenRouterModel("a/b", base_url=f"{api.url}/v1", api_key=KEY)
        start: list[object] = [{"role": "user", "content": "Hi."}]
        (first,) = ask(model, asked(start, model=model.spec))
        (second,) = ask(model, asked([*start, *said(first)], model=model.spec))
    assert second.failure is None
    (detail,) = items_of(api.seen[1])[1]["reasoning_details"]
    assert (detail["text"], detail["signature"], detail["type"]) == ("Hm, so.", "c2VhbGVk", "reasoning.text")


# --- whole runs ---------------------------------------------------------------------


def served(server: OpenAIApi, **settings: Any) -> OpenAICompatibleModel:
    return OpenAICompatibleModel("m", base_url=f"{server.url}/v1", **settings)


REPORT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_report_comes_back_although_no_tool_can_be_forced(dialect: Any) -> None:
    replies = [
        Reply(("I think it is 7.",)),
        # Not every service passes on a call that is cut off.
        Reply((Call("report_back", '{"n":"sev' + '"}' * (dialect not in OPENAI_DIALECTS), "r1"),)),
        Reply((Call("report_back", '{"n": 7}', "r2"),)),
    ]
    with ProviderApi(replies, wires=WIRES) as api:
        model = model_at(api.url, dialect, force_tools=False)
        runtime = Runtime(":memory:", model=model)
        outcome = runtime.run_sync(Agent("host"), "How many?", output_schema=REPORT)
    assert outcome.structured_output == {"n": 7}
    assert len(api.seen) == 3
    assert "sev" in api.seen[2].raw.decode()
    assert outcome.usage.calls == 3


def test_a_cost_limit_without_a_price_is_refused() -> None:
    with OpenAIApi() as api, pytest.raises(MisuseError, match="price"):
        Runtime(":memory:", model=served(api)).run_sync(Agent("host"), "Hi.", limits=Limits(cost_usd=1))


def test_the_cost_is_that_of_the_prices() -> None:
    with OpenAIApi([Reply(("Hi.",), {"input": 1_000, "output": 100})]) as api:
        model = served(api, prices=Prices(1, 10), max_tokens=200)
        outcome = Runtime(":memory:", model=model).run_sync(Agent("host"), "Hi.", limits=Limits(cost_usd=1))
    assert outcome.usage.micro_usd == 2_000


@tool(effect="read")
def look(path: str) -> str:
    """Look at a file."""
    return f"{path} is empty"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_session_that_is_resumed_sends_what_it_sent_before(dialect: Any, tmp_path: Path) -> None:
    host, log = Agent("host", instructions="Be brief.", tools=[look]), tmp_path / "log.db"
    calls = [Reply((Thought("Hm."), Call("look", '{"path":  "a"}', f"c{at}"))) for at in range(3)]
    replies = [*calls[:2], Reply(("never",), delay_s=30), calls[2], Reply(("Done.",))]
    with ProviderApi(replies, wires=WIRES) as api:

        def model() -> LayeredModel:
            return model_at(api.url, dialect)

        async def begin() -> str:
            async with Runtime(log, model=model()) as runtime:
                session = await runtime.open(host)
                asking = asyncio.create_task(session.ask("Look."))
                await asyncio.to_thread(api.wait_for, 3)
                await runtime.aclose(grace_s=0)
                with pytest.raises(SessionDetached):
                    await asking
                return session.session_id

        async def go_on(session_id: str) -> Outcome[Any]:
            async with Runtime(log, model=model()) as runtime:
                session = await runtime.resume(session_id, host)
                return await session.outcome

        outcome = asyncio.run(go_on(asyncio.run(begin())))
    assert outcome.text == "Done."
    sent = [items_of(seen) for seen in api.seen]
    assert len(sent) == 5
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(sent))
    assert api.seen[2].raw == api.seen[3].raw
    assert outcome.usage.unknown_calls == 1
    assert outcome.usage.calls == 5


LEFT_OUT: dict[Any, list[tuple[Any, ...]]] = {
    "chat": [
        *[("id",), ("object",), ("created",), ("model",), ("usage",)],
        *[("choices", 0, "index"), ("choices", 0, "logprobs"), ("choices", 0, "message", "role")],
    ],
    "responses": [
        *[("id",), ("object",), ("created_at",), ("model",), ("usage",)],
        *[("output", 0, "id"), ("output", 0, "role"), ("output", 0, "status")],
        *[("output", 0, "content", 0, "annotations"), ("output", 0, "content", 0, "logprobs")],
    ],
}


@table("is_null", [True, False])
@table("stream", [True, False])
@table("dialect", OPENAI_DIALECTS)
def test_a_whole_answer_is_read_without_the_keys_that_say_nothing(
    dialect: Any, stream: bool, is_null: bool
) -> None:
    def without(*paths: tuple[Any, ...]) -> Canned:
        body = chat_body(Reply(("Hi.",))) if dialect == "chat" else responses_body(Reply(("Hi.",)))
        for path in paths:
            place: Any = body
            for key in path[:-1]:
                place = place[key]
            place.pop(path[-1], None)
            place |= {path[-1]: None} if is_null else {}
        return json_answer(body)

    left_out = LEFT_OUT[dialect]
    bodies = [without(path) for path in left_out] + [without(*left_out)]
    with OpenAIApi(bodies) as server:
        for answer in ask(served(server, api=dialect, stream=stream), *(asked() for _ in bodies)):
            assert answer.failure is None
            assert [block["text"] for block in blocks_of(answer)] == ["Hi."]


@pytest.mark.parametrize("stream", [False, True])
def test_the_compaction_of_the_service_is_recorded_and_goes_back(stream: bool) -> None:
    """https://platform.openai.com/docs/guides/compaction: its item stands for all before it."""
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"}
    edits = {"context_management": [{"type": "compaction", "compact_threshold": 1_000}]}
    whole = responses_body(Reply(("Hello.",)))
    whole["output"] = [item, *cast("list[object]", whole["output"])]
    done = [
        {"type": f"response.output_item.{part}", "output_index": 0, "item": item}
        for part in ("added", "done")
    ]
    events = responses_events(Reply(("Hello.",)))
    later = [{**event, "output_index": 1} if "output_index" in event else event for event in events[2:-1]]
    all_events = [*events[:2], *done, *later, {**events[-1], "response": whole}]
    numbered = [{**event, "sequence_number": number} for number, event in enumerate(all_events)]
    with ProviderApi(wires=WIRES) as api:
        model = model_at(api.url, "responses", max_tokens=100, params=edits, stream=stream)
        api.reply(streamed(numbered) if stream else json_answer(whole), Reply(("Bye.",)))
        (first,) = ask(model, asked(model=model.spec))
        said = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": blocks_of(first)}]
        ask(model, asked([*said, {"role": "user", "content": "And?"}], model=model.spec))
        sent = api.seen
    assert [block["type"] for block in blocks_of(first)] == ["compaction", "text"]
    assert sent[0].body["context_management"] == edits["context_management"]
    assert items_of(sent[1])[0] == item
