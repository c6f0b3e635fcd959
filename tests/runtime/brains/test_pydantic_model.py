"""A model of Pydantic AI as a model of a session."""

from typing import Any

import pytest
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from callboard.actors.protocol.limits import Limits
from callboard.runtime.agent import Agent
from callboard.runtime.brains.pydantic_model import PydanticAIModel
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool

USED = RequestUsage(input_tokens=10, output_tokens=5, cache_read_tokens=4)


@tool(effect="read")
def look(at: str) -> str:
    """Look."""
    return f"saw {at}"


def run(answer: Any, **limits: Any) -> Any:
    model = PydanticAIModel(FunctionModel(answer, model_name="f"), max_tokens=77)
    agent = Agent("host", instructions="Be brief.", tools=[look])
    return Runtime(":memory:", model=model, limits=Limits(**limits)).run_sync(agent, "go")


def test_it_answers_an_agent_with_its_tools_its_settings_and_its_usage() -> None:
    seen: list[AgentInfo] = []
    turns: list[Any] = []

    def answer(messages: list[Any], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        turns.append([[part.part_kind for part in one.parts] for one in messages])
        if len(messages) == 1:
            parts: list[Any] = [ThinkingPart("hm", signature="s"), ToolCallPart("look", {"at": "x"}, "c1")]
            return ModelResponse(parts=parts, usage=USED)
        return ModelResponse(parts=[TextPart("done")], usage=USED)

    outcome = run(answer)
    assert (outcome.text, outcome.usage.input_tokens, outcome.usage.cache_read_tokens) == ("done", 12, 8)
    assert (seen[0].instructions, seen[0].model_settings) == ("Be brief.", {"max_tokens": 77})
    assert [one.name for one in seen[0].function_tools] == ["look"]
    assert turns[1] == [["user-prompt"], ["thinking", "tool-call"], ["tool-return"]]


@pytest.mark.parametrize(
    ("error", "calls", "word"),
    [
        (ModelHTTPError(400, "f", "no"), 1, "invalid_request_error"),
        (ModelHTTPError(503, "f", "no"), 2, "api_error"),
        (ModelHTTPError(429, "f", "no"), 2, "rate_limit_error"),
        (ModelAPIError("f", "gone"), 2, "connection"),
        (UnexpectedModelBehavior("odd"), 2, "garbage"),
    ],
)
def test_its_failures_are_tried_again_where_that_may_help(error: Exception, calls: int, word: str) -> None:
    made: list[int] = []

    def answer(messages: list[Any], info: AgentInfo) -> ModelResponse:
        made.append(1)
        raise error

    outcome = run(answer, max_model_attempts=2)
    assert (outcome.kind, len(made)) == ("model_error", calls)
    assert word in outcome.detail


@pytest.mark.parametrize(("finish", "kind"), [("length", "answered"), ("content_filter", "model_refused")])
def test_the_reason_for_its_end_is_kept(finish: Any, kind: str) -> None:
    outcome = run(
        lambda messages, info: ModelResponse(parts=[TextPart("x")], usage=USED, finish_reason=finish)
    )
    assert outcome.kind == kind
    assert repr(PydanticAIModel("test")) == "PydanticAIModel('pydantic-ai:test:test')"
