"""A model of the OpenAI Agents SDK as a model of a session."""

from typing import Any

import agents
import httpx2
import openai
import pytest
from agents import ModelSettings
from agents.items import ModelResponse
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from agents.usage import Usage
from openai.types.responses import ResponseOutputMessage, ResponseOutputRefusal, ResponseReasoningItem
from openai.types.responses.response_reasoning_item import Summary
from openai.types.responses.response_usage import InputTokensDetails
from openai.types.shared import Reasoning

from callboard.actors.protocol.limits import Limits
from callboard.brains import OpenAIAgentsModel, openai_agent
from callboard.runtime.agent import Agent
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool

USED = Usage(
    requests=1,
    input_tokens=10,
    output_tokens=5,
    total_tokens=15,
    input_tokens_details=InputTokensDetails(cached_tokens=4, cache_write_tokens=0),
)
THOUGHT = ResponseReasoningItem(
    id="r1", type="reasoning", summary=[Summary(type="summary_text", text="hm")], encrypted_content="e"
)


@tool(effect="read")
def look(at: str) -> str:
    """Look."""
    return f"saw {at}"


def run(model: Any, prompt: Any = "go", **limits: Any) -> Any:
    host = Agent("host", instructions="Be brief.", tools=[look])
    own = OpenAIAgentsModel(model, max_tokens=77, name="f")
    return Runtime(":memory:", model=own, limits=Limits(**limits)).run_sync(host, prompt)


def test_it_answers_an_agent_with_its_tools_its_settings_and_its_usage() -> None:
    call = function_call("look", {"at": "x"}, call_id="c1")
    model = ScriptedModel(
        [ModelStep([THOUGHT, call], usage=USED), ModelStep([assistant_message("done")], usage=USED)]
    )
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    outcome = run(model, [{"type": "text", "text": "what?"}, image])
    assert (outcome.text, outcome.usage.input_tokens, outcome.usage.cache_read_tokens) == ("done", 12, 8)
    first, second = model.calls
    assert (first.system_instructions, first.model_settings.max_tokens) == ("Be brief.", 77)
    assert [one.name for one in first.tools] == ["look"]
    assert first.tracing is agents.ModelTracing.DISABLED
    assert first.input[0]["content"][1]["image_url"] == "data:image/png;base64,aGk="
    # The thought goes back as it came.
    assert second.input[1]["encrypted_content"] == "e"
    assert second.input[2:] == [
        {
            "type": "function_call",
            "id": "c1",
            "call_id": "c1",
            "name": "look",
            "arguments": '{"at":"x"}',
        },
        {"type": "function_call_output", "call_id": "c1", "output": "saw x"},
    ]


REQUEST = httpx2.Request("POST", "http://x")


def status(code: int) -> openai.APIStatusError:
    return openai.APIStatusError("no", response=httpx2.Response(code, request=REQUEST), body=None)


@pytest.mark.parametrize(
    ("error", "calls", "word"),
    [
        (status(400), 1, "invalid_request_error"),
        (status(503), 2, "api_error"),
        (status(429), 2, "rate_limit_error"),
        (openai.APIConnectionError(request=REQUEST), 2, "connection"),
        (agents.ModelBehaviorError("odd"), 2, "garbage"),
    ],
)
def test_its_failures_are_tried_again_where_that_may_help(error: Exception, calls: int, word: str) -> None:
    model = ScriptedModel([ModelStep(error=error)] * 2)
    outcome = run(model, max_model_attempts=2)
    assert (outcome.kind, len(model.calls)) == ("model_error", calls)
    assert word in outcome.detail


def test_a_refusal_is_one_for_a_session_and_for_a_brain() -> None:
    no = ResponseOutputMessage(
        id="m",
        role="assistant",
        status="completed",
        type="message",
        content=[ResponseOutputRefusal(type="refusal", refusal="I will not.")],
    )
    assert run(ScriptedModel([[no]])).kind == "model_refused"
    brain = openai_agent(agents.Agent("a", model=ScriptedModel([[no]])))
    assert Runtime(":memory:").run_sync(brain, "go").kind == "model_refused"


class Kept(agents.Model):
    """A model that keeps the settings of its calls."""

    def __init__(self) -> None:
        self.settings: list[ModelSettings] = []

    async def get_response(self, *args: Any, **more: Any) -> ModelResponse:
        self.settings.append(args[2])
        return ModelResponse(output=[assistant_message("own")], usage=USED, response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> Any:
        raise NotImplementedError


def test_a_brain_asks_the_model_of_its_agent_with_the_settings_of_the_agent() -> None:
    model = Kept()
    given = ModelSettings(temperature=0.5, reasoning=Reasoning(effort="high"), verbosity="low", max_tokens=9)
    brain = openai_agent(agents.Agent("own", model=model, model_settings=given))
    outcome = Runtime(":memory:").run_sync(brain, "go")
    assert (outcome.text, outcome.usage.tokens) == ("own", 15)
    (asked,) = model.settings
    assert (asked.temperature, asked.verbosity, asked.max_tokens) == (0.5, "low", 9)
    assert asked.reasoning is not None
    assert asked.reasoning.effort == "high"


def test_a_model_has_the_settings_that_the_framework_gives_it() -> None:
    named = OpenAIAgentsModel("gpt-5")
    named._model = kept = Kept()
    assert Runtime(":memory:", model=named).run_sync(Agent("host"), "go").text == "own"
    assert kept.settings[0].verbosity == "low"


def test_a_choice_of_tools_and_a_listed_model_are_those_of_the_framework() -> None:
    model = Kept()

    @agents.function_tool
    async def ask() -> str:
        """Ask an agent that the brain finds while it runs."""
        return str((await agents.Runner.run(agents.Agent("late", model="gpt-late"), "x")).final_output)

    late = OpenAIAgentsModel("gpt-late")
    late._model = Kept()
    given = ModelSettings(tool_choice="required")
    first = ScriptedModel([[function_call("ask", {}, call_id="c")], [assistant_message("done")]])
    lead = agents.Agent("lead", model=first, tools=[ask, agents.Agent("x").as_tool("x", "X.")])
    brain = openai_agent(lead, in_program=["ask"], models=[late])
    outcome = Runtime(":memory:").run_sync(brain, "go")
    assert (outcome.text, outcome.usage.calls, len(late._model.settings)) == ("done", 3, 1)
    choosy = agents.Agent("choosy", model=model, model_settings=given, tools=lead.tools)
    Runtime(":memory:").run_sync(openai_agent(choosy, in_program=["ask"]), "go")
    assert model.settings[0].tool_choice == "required"


def test_agents_of_one_brain_ask_their_own_models() -> None:
    second = agents.Agent("second", model=ScriptedModel([[assistant_message("second")]]))
    step = function_call("transfer_to_second", {}, call_id="c")
    first = agents.Agent("first", model=ScriptedModel([[step]]), handoffs=[second])
    brain = openai_agent(first)
    assert [one.spec.name for one in brain.models] == [
        "openai-agents:ScriptedModel",
        "openai-agents:ScriptedModel#1",
    ]
    assert Runtime(":memory:").run_sync(brain, "go").text == "second"
