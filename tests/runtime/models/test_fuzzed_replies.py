"""Replies that no service should give, on their way back to the service that gave them: none is refused."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ModelResponsePart, TextPart, ThinkingPart, ToolCallPart

from callboard.actors.agent.content import read
from callboard.actors.protocol.conversation import message
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.repair_levels import Repair
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.input_rules.problems import DIALECTS, request_problem
from callboard.runtime.models.anthropic.model import AnthropicModel
from callboard.runtime.models.anthropic.request import body_of
from callboard.runtime.models.layered.bedrock import BedrockModel
from callboard.runtime.models.layered.gemini import GeminiModel
from callboard.runtime.models.layered.layer import Layer
from callboard.runtime.models.layered.model import LayeredModel
from callboard.runtime.models.layered.openai import OpenAIModel
from callboard.runtime.models.layered.parts import blocks_of
from tests.effort import effort
from tests.several_models import Said, as_json, hears, request_to, result, says, text

KEY = "sk-test-0123456789"
CLAUDE = AnthropicModel("claude-sonnet-4-5", api_key=KEY)
LAYERED: dict[str, LayeredModel] = {
    "chat": OpenAIModel("gpt-5", api="chat", api_key=KEY),
    "responses": OpenAIModel("gpt-5", api_key=KEY),
    "generate-content": GeminiModel("gemini-3-pro-preview", api_key=KEY),
    "converse": BedrockModel("global.anthropic.claude-sonnet-5-v1:0", region="us-east-1", api_key=KEY),
}
LAYER_NAMES = {"chat": "openai", "responses": "openai", "generate-content": "google", "converse": "bedrock"}

NAMES = st.sampled_from(["look", "look", "functions.look", "a b", "1st", "n" * 100, "ü", "look<|end|>"])
IDS = st.sampled_from(["c1", "c2", "same", "same", "a b", "functions.look:0", "i" * 70, "ü"])
ARGUMENTS = st.sampled_from(
    [
        '{"path": "a"}', '{"path": "b"}', "{}", "", "null", '{"path": "a', '"{\\"path\\": 1}"', "[1]", "7",
        "{}{}", '{"n": NaN}', '{"a": 1, "a": 2}', "{'path': 'a'}", '{"path": "\\ud800"}',
    ]
)  # fmt: skip
TEXTS = st.sampled_from(["Yes.", "Yes.", "", " \n", "[call of look: {}]"])
SIGNATURES = st.sampled_from(["c2VhbA==", "c2VhbA==", None, ""])
ITEMS = st.sampled_from([None, "item_1", "item_2", "item_" + "x" * 400])


# --- replies ----------------------------------------------------------------------------


def _call(arguments: str) -> object:
    """Return the arguments of a call as the adapter of the Messages API logs them."""
    try:
        found = json.loads(arguments or "{}", parse_constant=lambda name: float("x"))
    except ValueError:
        return arguments
    return found if isinstance(found, dict) and "\ud800" not in found.values() else arguments


SERVER_TOOL = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
]
BLOCKS = st.one_of(
    st.builds(text, TEXTS),
    st.builds(lambda sealed: {"type": "thinking", "thinking": "Hm.", "signature": sealed or ""}, SIGNATURES),
    st.just({"type": "redacted_thinking", "data": "c2VhbA=="}),
    st.builds(
        lambda use_id, name, written: {
            "type": "tool_use", "id": use_id, "name": name, "input": _call(written)
        },
        IDS, NAMES, ARGUMENTS,
    ),
    st.sampled_from(SERVER_TOOL),
)  # fmt: skip


def parts(api: str) -> st.SearchStrategy[ModelResponsePart]:
    """Return the parts that the layer may make of an answer of this dialect."""
    provider = LAYER_NAMES[api]
    items = ITEMS if api == "responses" else st.none()
    signed = {"thought_signature": "c2VhbA=="}
    details = st.sampled_from([None, signed]) if api == "generate-content" else st.none()
    return st.one_of(
        st.builds(lambda said, item: TextPart(said, id=item, provider_name=provider), TEXTS, items),
        st.builds(
            lambda sealed, item: ThinkingPart("Hm.", id=item, signature=sealed, provider_name=provider),
            SIGNATURES,
            {"chat": st.just("reasoning_content"), "responses": ITEMS.filter(bool)}.get(api, st.none()),
        ),
        st.builds(
            lambda name, written, call_id, item, more: ToolCallPart(
                name, written, call_id, id=item, provider_name=provider, provider_details=more
            ),
            NAMES, ARGUMENTS, IDS, items, details,
        ),
    )  # fmt: skip


def contents(api: str) -> st.SearchStrategy[list[Json]]:
    """Return the contents of some replies."""
    if api == "messages":
        return st.lists(st.lists(BLOCKS, max_size=4).map(as_json), min_size=1, max_size=3)
    replies = st.lists(st.lists(parts(api), max_size=4), min_size=1, max_size=3)
    return replies.map(lambda found: [blocks_of(one, turn) for turn, one in enumerate(found, 1)])


def asked(api: str, replies: list[Json], level: int = 0, *, is_quiet: bool = False) -> ModelRequest:
    """Return the request of an agent that has had these replies. is_quiet: no words stand behind results."""
    spec = CLAUDE.spec if api == "messages" else LAYERED[api].spec
    said: list[Said] = [hears(text("Go."))]
    for content in replies:
        found = read(content)
        assert found is not None
        if found.is_blank:  # as the agent does
            continue
        said.append(Said(message("assistant", content), spec.made_by))
        words = [] if is_quiet and found.uses else [text("Go on.")]
        said.append(hears(*(result(use.id) for use in found.uses), *words))
    request = request_to(spec.made_by, said)
    request.model, request.repair = spec, Repair(level, 1)
    return request


@pytest.fixture(scope="module")
def layers() -> Iterator[dict[str, Layer]]:
    async def opened(model: LayeredModel) -> Layer:
        return await model._opened()

    made = {api: asyncio.run(opened(model)) for api, model in LAYERED.items()}
    yield made
    for layer in made.values():
        asyncio.run(layer.aclose())


def translated(api: str, request: ModelRequest) -> tuple[Json, ...]:
    model = CLAUDE if api == "messages" else LAYERED[api]
    return model._translator.messages_for(request)


def repairs(api: str, request: ModelRequest) -> tuple[str, ...]:
    return (CLAUDE if api == "messages" else LAYERED[api]).repairs(request)


def written(api: str, layers: dict[str, Layer], request: ModelRequest, said: tuple[Json, ...]) -> bytes:
    """Return the body of a request with these messages."""
    if api == "messages":
        return body_of(request, said, stream=True, cache=True, force_tools=None)
    return layers[api]._written_on_thread(request, said, "body").body


# --- rules ------------------------------------------------------------------------------


@pytest.mark.parametrize("api", DIALECTS)
@settings(max_examples=effort(60, 2_000))
@given(data=st.data())
def test_no_reply_leads_to_a_request_that_its_service_refuses(
    layers: dict[str, Layer], api: str, data: st.DataObject
) -> None:
    replies = data.draw(contents(api))
    is_quiet = data.draw(st.booleans())
    for level in (0, 1, 2):
        request = asked(api, replies, level, is_quiet=is_quiet)
        body = written(api, layers, request, translated(api, request))
        assert request_problem(api, json.loads(body)) == "", level


@pytest.mark.parametrize("api", DIALECTS)
@settings(max_examples=effort(15, 2_000))
@given(data=st.data())
def test_a_reply_that_its_service_takes_goes_back_as_it_came(
    layers: dict[str, Layer], api: str, data: st.DataObject
) -> None:
    request = asked(api, data.draw(contents(api)), is_quiet=data.draw(st.booleans()))
    # The layer itself would make spoken text of the first, move the second behind the item's first text, and
    # join the third to an item before other blocks.
    moved = ("without a signature", "the id of its item", "reasoning with the id of another item")
    if any(words in told for told in repairs(api, request) for words in moved):
        return
    try:
        body = written(api, layers, request, request.messages)
    except Exception:  # the layer cannot even write it
        return
    if request_problem(api, json.loads(body)) == "":
        assert written(api, layers, request, translated(api, request)) == body


@pytest.mark.parametrize("api", DIALECTS)
@settings(max_examples=effort(10, 500))
@given(data=st.data())
def test_the_repair_of_a_reply_does_not_depend_on_later_ones(api: str, data: st.DataObject) -> None:
    replies = data.draw(contents(api))
    level = data.draw(st.sampled_from([0, 1, 2]))
    before = translated(api, asked(api, replies[:-1], level))
    after = translated(api, asked(api, replies, level))
    assert list(map(bytes, after[: len(before)])) == list(map(bytes, before))


def test_a_repaired_call_says_so_and_is_never_empty() -> None:
    for written in ("[1]", "7", "{}{}", '{"path": "a', '"{}"'):
        content = as_json([{"type": "tool_use", "id": "c1", "name": "look", "input": written}])
        reply: Any = msgspec.json.decode(translated("messages", asked("messages", [content]))[1])
        assert reply["content"][0]["input"] == {"unreadable": written}


def test_a_paused_reply_goes_back_as_it_came_until_a_user_speaks() -> None:
    paused = says(CLAUDE.spec.made_by, text("I search."), SERVER_TOOL[0])
    request = request_to(CLAUDE.spec.made_by, [hears(text("Go.")), paused])
    assert translated("messages", request) is request.messages
    went_on = request_to(
        CLAUDE.spec.made_by, [hears(text("Go.")), paused, says(CLAUDE.spec.made_by, SERVER_TOOL[1])]
    )
    assert translated("messages", went_on) is went_on.messages
    search, ours = SERVER_TOOL[0], {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    deferred = [hears(text("Go.")), says(CLAUDE.spec.made_by, search, ours), hears(result("c1"))]
    request = request_to(CLAUDE.spec.made_by, deferred)
    assert translated("messages", request) is request.messages
    told = request_to(CLAUDE.spec.made_by, [*deferred[:2], hears(result("c1"), text("Be quick."))])
    assert msgspec.json.decode(translated("messages", told)[1])["content"] == [ours]
    assert repairs("messages", told) == (
        "message 2: calls of the service's tools without a result are left out",
    )
    broken_off = request_to(CLAUDE.spec.made_by, [hears(text("Go.")), paused, hears(text("Stop."))])
    reply: Any = msgspec.json.decode(translated("messages", broken_off)[1])
    assert reply["content"] == [text("I search.")]
