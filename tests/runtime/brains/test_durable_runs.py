"""Ways in which durable runs of this framework's agents went wrong for others: each has an end here."""

import asyncio
import dataclasses
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent as FrameworkAgent
from pydantic_ai import ModelRetry, RunContext
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.toolsets import FunctionToolset

from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.request import ModelRequest
from callboard.brains import pydantic_ai_agent
from callboard.runtime.models.scripted import call, calls, say
from callboard.testing import simulate
from tests.runtime.brains.agents import Verdict, expert
from tests.runtime.brains.kit import results, run, turns_in


def test_sync_instructions_validators_and_output_functions_run_in_the_step() -> None:
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    agent: FrameworkAgent[Any, str] = FrameworkAgent(name="sync", output_type=shout, deps_type=object)

    @agent.instructions
    def told(ctx: RunContext[Any]) -> str:
        return f"Be kind to {ctx.deps['who']}."

    systems: list[bytes] = []

    def answers(request: ModelRequest) -> Any:
        systems.append(bytes(request.system))
        return call("final_result", text="hello")

    # Deps that no JSON can hold.
    outcome = run(pydantic_ai_agent(agent, deps={"who": "Ann", "lock": asyncio.Lock}), answers)
    assert (outcome.text, systems) == ("HELLO", [b'"Be kind to Ann."'])


def test_a_retry_that_a_tool_asks_for_reaches_the_model_and_is_bounded_by_the_framework() -> None:
    outcome = run(pydantic_ai_agent(expert()), lambda request: call("add", a=9, b=turns_in(request)))
    assert outcome.kind == "crashed"
    assert "exceeded max retries" in outcome.detail
    assert outcome.usage.calls == 4


def test_an_output_that_never_fits_ends_the_run_instead_of_repeating_it() -> None:
    wrong = {"good": True, "why": "a much too long reason"}
    outcome = run(pydantic_ai_agent(expert()), lambda request: call("final_result", **wrong))
    assert outcome.kind == "crashed"
    assert outcome.usage.calls == 4


def test_wrong_arguments_are_told_to_the_model_and_call_no_tool() -> None:
    ran: list[str] = []
    seen: list[Any] = []

    def answers(request: ModelRequest) -> Any:
        if not turns_in(request):
            return call("add", a="much", b=1)
        seen.extend(results(request))
        return call("final_result", good=True, why="5")

    outcome = run(pydantic_ai_agent(expert(ran)), answers)
    assert outcome.is_ok
    assert ran == ["validate"]
    assert seen[0][1]
    assert "valid integer" in seen[0][0]


def test_parallel_tools_of_equal_arguments_have_the_same_ends_in_each_execution() -> None:
    agent: FrameworkAgent[Any, str] = FrameworkAgent(name="parallel")

    @agent.tool_plain
    async def look(at: int) -> str:
        """Look."""
        return f"seen {at}"

    def answers(request: ModelRequest) -> Any:
        if turns_in(request):
            return say(" ".join(content for content, _ in results(request)))
        return calls(*[call("look", at=at % 2) for at in range(6)])

    brain = pydantic_ai_agent(agent)
    fakes = {"look": lambda at: f"seen {at}"}
    ends = {simulate(brain, answers, "go", seed=seed, tools=fakes).outcome.text for seed in range(5)}
    assert ends == {"seen 0 seen 1 seen 0 seen 1 seen 0 seen 1"}


def test_a_run_has_the_same_ids_and_times_in_each_execution() -> None:
    agent: FrameworkAgent[Any, str] = FrameworkAgent(name="named")

    @agent.instructions
    def told(ctx: RunContext[Any]) -> str:
        return f"Run {ctx.run_id} of {ctx.conversation_id}."

    @agent.tool_plain
    def look() -> str:
        """Look."""
        return "x"

    # The kit executes a program again for each step, so another id would be a divergence.
    done = simulate(
        pydantic_ai_agent(agent), lambda request: say("a") if turns_in(request) else call("look"), "go"
    )
    assert done.outcome.text == "a"


def test_a_tool_that_returns_a_model_or_bytes_answers_with_their_json() -> None:
    agent: FrameworkAgent[Any, str] = FrameworkAgent(name="typed")

    @agent.tool_plain
    def look() -> Verdict:
        """Look."""
        return Verdict(good=True, why="x")

    outcome = run(
        pydantic_ai_agent(agent),
        lambda request: say(results(request)[0][0]) if turns_in(request) else call("look"),
    )
    assert outcome.text == '{"good":true,"why":"x"}'


@pytest.mark.parametrize("where", ["toolset", "wrapped"])
def test_toolsets_whose_functions_are_not_known_are_refused_by_name(where: str) -> None:
    agent: FrameworkAgent[Any, str] = FrameworkAgent(
        name="dynamic", toolsets=[FunctionToolset().prefixed("p")] if where == "wrapped" else []
    )
    if where == "toolset":

        @agent.toolset
        def later(ctx: RunContext[Any]) -> Any:
            return FunctionToolset()

    with pytest.raises(InvalidAgent, match="is not a list of functions, so its calls cannot be recorded"):
        pydantic_ai_agent(agent)


def test_images_of_a_prompt_and_a_changed_reply_go_to_the_model() -> None:
    def blur(messages: list[Any]) -> list[Any]:
        """Rewrite the conversation, as a history processor may."""
        return [
            dataclasses.replace(one, parts=[TextPart("blurred"), *one.parts[1:]])
            if isinstance(one, ModelResponse)
            else one
            for one in messages
        ]

    agent: FrameworkAgent[Any, str] = FrameworkAgent(name="seer", capabilities=[ProcessHistory(blur)])

    @agent.tool_plain
    def look() -> str:
        """Look."""
        return "x"

    seen: list[Any] = []

    def answers(request: ModelRequest) -> Any:
        seen.append(request.conversation)
        return say("done") if turns_in(request) else calls(call("look"), text="sharp")

    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}
    outcome = run(pydantic_ai_agent(agent), answers, [{"type": "text", "text": "what?"}, image])
    assert outcome.text == "done"
    assert seen[0][0]["content"][1] == image
    assert seen[1][1]["content"][0]["text"] == "blurred"


class Plan(BaseModel):
    """A plan."""

    steps: list[str]


def test_a_validator_that_raises_ends_the_brain_with_its_own_line() -> None:
    agent: FrameworkAgent[Any, Plan] = FrameworkAgent(name="broken", output_type=Plan)

    @agent.output_validator
    def check(plan: Plan) -> Plan:
        if not plan.steps:
            raise ModelRetry("none")
        raise RuntimeError("broken validator")

    outcome = run(pydantic_ai_agent(agent), lambda request: call("final_result", steps=["a"]))
    assert outcome.kind == "crashed"
    assert "broken validator" in outcome.detail
    assert "test_durable_runs.py" in outcome.detail


def test_the_time_that_an_agent_gives_its_tools_bounds_their_calls() -> None:
    agent: FrameworkAgent[None, str] = FrameworkAgent(name="hasty", tool_timeout=0.05)
    told: list[tuple[str, bool]] = []

    @agent.tool_plain
    async def rest() -> str:
        """Rest."""
        await asyncio.sleep(30)
        return "rested"

    @agent.tool_plain(timeout=20)
    async def nap() -> str:
        """Nap."""
        await asyncio.sleep(0.1)
        return "napped"

    def answers(request: ModelRequest) -> Any:
        if turns_in(request):
            told.extend(results(request))
            return say("done")
        return calls(call("rest"), call("nap"))

    assert run(pydantic_ai_agent(agent), answers).text == "done"
    assert [is_error for _, is_error in told] == [True, False]


def test_history_processors_see_each_request_and_pass_it_on() -> None:
    lengths: list[int] = []

    async def short(ctx: RunContext[None], messages: list[Any]) -> list[Any]:
        await asyncio.sleep(1)  # of the program's time
        return messages[-3:]

    agent: FrameworkAgent[None, str] = FrameworkAgent(name="short", capabilities=[ProcessHistory(short)])

    @agent.tool_plain
    def look(at: int) -> str:
        """Look."""
        return f"seen {at}"

    def answers(request: ModelRequest) -> Any:
        lengths.append(len(request.conversation))
        at = int(results(request)[0][0].removeprefix("seen ")) + 1 if lengths[-1] > 1 else 0
        return say("done") if at > 3 else call("look", at=at)

    fakes: Any = {"look": lambda at: f"seen {at}"}
    brain = pydantic_ai_agent(agent)
    ends = {simulate(brain, answers, "go", seed=seed, tools=fakes).outcome.text for seed in range(2)}
    assert max(lengths) == 3
    assert ends == {"done"}
