"""Conversations with messages of other models, as the layer sends them in each of its dialects."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from callboard import WholeHistory
from callboard.actors.agent.state import request_of
from callboard.actors.protocol.histories import HandedHistory
from callboard.actors.protocol.origin import Origin
from callboard.replay.testing.input_rules import bedrock, gemini, openai
from callboard.replay.testing.sessions.scenario import profile
from callboard.runtime.models.layered.bedrock import BedrockModel
from callboard.runtime.models.layered.gemini import GeminiModel
from callboard.runtime.models.layered.layer import Layer
from callboard.runtime.models.layered.model import LayeredModel
from callboard.runtime.models.layered.openai import OpenAIModel
from tests.actors.harness import AgentHarness
from tests.runtime.conversations import view
from tests.several_models import (
    CLAUDE,
    Said,
    conversations,
    hears,
    request_to,
    result,
    says,
    text,
    use,
)

KEY = "sk-test-0123456789"
MODELS: dict[str, LayeredModel] = {
    "chat": OpenAIModel("gpt-5", api="chat", api_key=KEY),
    "responses": OpenAIModel("gpt-5", api_key=KEY),
    "generate-content": GeminiModel("gemini-3-pro-preview", api_key=KEY),
    "converse": BedrockModel("global.anthropic.claude-sonnet-5-v1:0", region="us-east-1"),
}
TARGETS = {api: model.spec.made_by for api, model in MODELS.items()}
MAKERS = (CLAUDE, *TARGETS.values())
SEALED = {"signature": "gAAA", "provider_name": "openai"}
SIGNED = {"provider_name": "google", "provider_details": {"thought_signature": "c2VhbA=="}}


@pytest.fixture(scope="module")
def layers() -> Iterator[dict[str, Layer]]:
    async def opened(model: LayeredModel) -> Layer:
        return await model._opened()

    made = {api: asyncio.run(opened(model)) for api, model in MODELS.items()}
    yield made
    for layer in made.values():
        asyncio.run(layer.aclose())


def sent(layer: Layer, api: str, said: list[Said]) -> dict[str, Any]:
    """Return the body that is sent to this model, without sending it."""
    request = request_to(TARGETS[api], said)
    request.model = MODELS[api].spec
    messages = MODELS[api]._translator.messages_for(request)
    body: dict[str, Any] = json.loads(layer._written_on_thread(request, messages, "body").body)
    return body


def as_layer_says(said: list[Said], maker: Origin) -> list[Said]:
    """Return a conversation in which the messages of one maker are such as the layer makes them."""
    kinds = {"text": "text", "thinking": "thinking", "tool_use": "tool-call"}
    found: list[Said] = []
    for turn, one in enumerate(said):
        if one.maker != maker:
            found.append(one)
            continue
        if found[-1].maker == maker == TARGETS["converse"]:  # it never pauses
            found.append(hears(text("Go on.")))
        blocks = [block for block in msgspec.json.decode(one.body)["content"] if block["type"] in kinds]
        while blocks and blocks[-1]["type"] == "thinking":  # a service says something after it has thought
            blocks.pop()
        for at, block in enumerate(blocks):
            block["part"] = {
                "part_kind": kinds[block["type"]],
                **_known_to(maker, block["type"], f"{turn}_{at}"),
            }
        found.append(says(maker, *(blocks or [text("Yes.", part={"part_kind": "text"})])))
    return found if found[-1].maker != maker else [*found, hears(text("Go on."))]


def _known_to(maker: Origin, kind: str, place: str) -> dict[str, Any]:
    """Return the keys of a part that its maker gets back."""
    if maker == TARGETS["generate-content"]:
        return SIGNED if kind == "tool_use" else {}
    if kind != "thinking":
        return {}
    if maker == TARGETS["converse"]:
        return {"signature": "sig", "provider_name": "bedrock"}
    return {"id": f"rs_{place}", **SEALED} if maker == TARGETS["responses"] else {"id": "reasoning_content"}


def problem_of(api: str, body: dict[str, Any]) -> str:
    if api == "generate-content":
        return gemini.problem_of(body)
    return bedrock.problem_of(body) if api == "converse" else openai.problem_of(api, body)


@pytest.mark.parametrize("api", MODELS)
@given(data=st.data())
def test_a_service_takes_every_conversation(layers: dict[str, Layer], api: str, data: st.DataObject) -> None:
    target = TARGETS[api]
    said = as_layer_says(data.draw(conversations(MAKERS, (CLAUDE, target))), target)
    assert problem_of(api, sent(layers[api], api, said)) == ""


@pytest.mark.parametrize("api", MODELS)
@given(data=st.data())
def test_a_service_takes_every_conversation_that_is_handed_over(
    layers: dict[str, Layer], api: str, data: st.DataObject
) -> None:
    target, has_tools = TARGETS[api], data.draw(st.booleans())
    said = as_layer_says(data.draw(conversations(MAKERS, (CLAUDE, target))), target)
    parent = request_to(target, [*said, says(CLAUDE, use("last", "task"))])
    seen = view([], every=parent.messages, origins=parent.origins)
    found = WholeHistory(data.draw(st.integers(100, 3_000)))(seen)
    assert isinstance(found, HandedHistory)
    who = replace(profile("kid", [], ["look"] if has_tools else []), model=MODELS[api].spec, lossy=True)
    agent = AgentHarness("host.1")
    agent.hears(
        replace(agent.begin(who=who), history=found.messages, makers=found.makers, context=found.note)
    )
    request = request_of(agent.state)
    messages = MODELS[api]._translator.messages_for(request)
    body = json.loads(layers[api]._written_on_thread(request, messages, "body").body)
    assert problem_of(api, body) == ""


def test_a_signature_goes_back_to_its_maker_and_to_no_other(layers: dict[str, Layer]) -> None:
    maker = TARGETS["generate-content"]
    call = use("call_1", "look", part={"part_kind": "tool-call", **SIGNED})
    thought = {"type": "thinking", "thinking": "Hm.", "part": {"part_kind": "thinking"}}
    said = [hears(text("Go.")), says(maker, thought, call), hears(result("call_1"))]
    back = sent(layers["generate-content"], "generate-content", said)["contents"]
    assert back[1]["parts"][0] == {"text": "Hm.", "thought": True}
    assert back[1]["parts"][1]["thoughtSignature"] == "c2VhbA=="
    for api in ("chat", "responses"):
        told = json.dumps(sent(layers[api], api, said))
        assert not [word for word in ("c2VhbA", "Hm.", "call_1") if word in told]


def test_reasoning_goes_back_to_its_maker_and_to_no_other(layers: dict[str, Layer]) -> None:
    maker = TARGETS["responses"]
    part = {"part_kind": "thinking", "id": "rs_1", **SEALED}
    thought = {"type": "thinking", "thinking": "", "part": part}
    call = use("call_1", "look", part={"part_kind": "tool-call", "id": "fc_1"})
    said = [hears(text("Go.")), says(maker, thought, call), hears(result("call_1"))]
    said += [
        says(CLAUDE, {"type": "thinking", "thinking": "Hm.", "signature": "s"}, text("b")),
        hears(text("c")),
    ]
    back = sent(layers["responses"], "responses", said)["input"]
    assert [one.get("type", one.get("role")) for one in back][1:4] == [
        "reasoning", "function_call", "function_call_output",
    ]  # fmt: skip
    assert (back[1]["id"], back[1]["encrypted_content"], back[2]["call_id"]) == ("rs_1", "gAAA", "call_1")
    assert "Hm." not in json.dumps(back)
    told = json.dumps(sent(layers["chat"], "chat", said))
    assert not [word for word in ("gAAA", "rs_1", "fc_1", "call_1", "Hm.") if word in told]
