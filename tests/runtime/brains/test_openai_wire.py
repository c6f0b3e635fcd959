"""Agents of the OpenAI Agents SDK with the SDK's own models, on a server that checks their requests."""

import asyncio
from collections.abc import Callable
from typing import Any

import agents
import pytest
from agents import ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel
from openai import AsyncOpenAI
from openai.types.shared import Reasoning

from callboard.brains import openai_agent
from callboard.runtime.runtime import Runtime
from tests.openai_api import Answer, Call, OpenAIApi, Reply, Thought, failed
from tests.runtime.brains.openai_cases import Verdict, expert

pytestmark = pytest.mark.slow

MODELS: dict[str, Any] = {"responses": OpenAIResponsesModel, "chat": OpenAIChatCompletionsModel}


def run(api: OpenAIApi, kind: str, make: Callable[[Any], Any]) -> Any:
    """Run the brain that is made of a model of the SDK."""

    async def main() -> Any:
        async with AsyncOpenAI(api_key="k", base_url=f"{api.url}/v1", max_retries=0) as client:
            brain = openai_agent(make(MODELS[kind](model="gpt-test", openai_client=client)))
            async with Runtime(":memory:") as runtime:
                return await runtime.run(brain, "2+3?")

    return asyncio.run(main())


@pytest.mark.parametrize("kind", ["responses", "chat"])
def test_a_brain_asks_its_service_as_the_service_wants(kind: str) -> None:
    steps: list[Answer] = [
        Reply((Thought("hm"), Call("transfer_to_the_expert", "{}", "c1"))),
        failed(503, "busy"),
        Reply(("Wait.", Call("add", '{"a": 2, "b": 3}', "c2"), Call("save", '{"key": "k"}', "c3"))),
        Reply((Call("final_output", '{"good": true, "why": "5"}', "c4"),)),
    ]

    def desk(model: Any) -> Any:
        known = expert()
        known.model = model
        settings = ModelSettings(max_tokens=99, reasoning=Reasoning(effort="low"), parallel_tool_calls=True)
        return agents.Agent(
            "desk",
            instructions="Hand off.",
            handoffs=[known],
            model=model,
            model_settings=settings,
            output_type=Verdict,
        )

    with OpenAIApi(steps) as api:
        outcome = run(api, kind, desk)
        bodies: list[Any] = [seen.body for seen in api.seen]
    assert outcome.unwrap() == Verdict(good=True, why="5")
    assert (outcome.usage.calls, len(bodies)) == (4, 4)
    if kind == "responses":
        assert (bodies[0]["max_output_tokens"], bodies[0]["reasoning"]) == (99, {"effort": "low"})
        told = [item for item in bodies[3]["input"] if item.get("type") == "function_call_output"]
        assert [item["call_id"] for item in told] == ["c1", "c2", "c3"]
        assert [item["type"] for item in bodies[3]["input"] if "encrypted_content" in item] == ["reasoning"]
    else:
        assert (bodies[0]["max_tokens"], bodies[0]["reasoning_effort"]) == (99, "low")
        roles = [said["role"] for said in bodies[3]["messages"]]
        assert roles == ["system", "user", "assistant", "tool", "assistant", "tool", "tool"]
    assert "sk-" not in str(bodies)


def test_a_failure_of_the_service_ends_the_brain_as_one_of_the_model() -> None:
    with OpenAIApi([failed(400, "no such model")]) as api:
        outcome = run(api, "responses", lambda model: agents.Agent("a", model=model))
    assert outcome.kind == "model_error"
    assert "no such model" in outcome.detail
