"""Ways in which runs of this framework's agents went wrong for others: each has an end here."""

import asyncio
from typing import Any

import agents
import pytest
from agents import ModelRetrySettings, ModelSettings, function_tool
from pydantic import BaseModel

from callboard.actors.protocol.request import ModelRequest
from callboard.brains import openai_agent
from callboard.runtime.approvals import Approval, ApprovalAnswer
from callboard.runtime.models.scripted import ScriptedModel, call, calls, fail, say
from callboard.runtime.runtime import Runtime
from callboard.testing import simulate
from tests.runtime.brains.kit import results, run, turns_in
from tests.runtime.brains.openai_cases import Verdict, expert
from tests.runtime.brains.test_openai_run import system_of

NO_JSON = "```json\n{}\n```"


@function_tool
async def look(at: int) -> str:
    """Look."""
    return f"seen {at}"


def test_each_call_beside_a_hand_off_has_a_result_and_the_first_hand_off_wins() -> None:
    targets = [agents.Agent(name, instructions=name) for name in ("b", "c")]
    first = agents.Agent("a", instructions="a", tools=[look], handoffs=[*targets])
    seen: list[Any] = []

    def answers(request: ModelRequest) -> Any:
        if system_of(request) == "a":
            return calls(call("look", at=1), call("transfer_to_b"), call("transfer_to_c"), text="wait")
        seen.extend(request.conversation)
        return say(f"I am {system_of(request)}")

    outcome = run(openai_agent(first), answers)
    assert outcome.text == "I am b"
    asked = [block["id"] for block in seen[1]["content"] if block["type"] == "tool_use"]
    told = {block["tool_use_id"]: block["content"] for block in seen[2]["content"]}
    ignored = "Multiple handoffs detected, ignoring this one."
    assert [told[call] for call in asked] == ["seen 1", '{"assistant": "b"}', ignored]


@pytest.mark.parametrize("second", ["good", "bad"])
def test_an_output_that_is_no_json_is_asked_for_once_more_as_a_call(second: str) -> None:
    asked: list[Any] = []

    def answers(request: ModelRequest) -> Any:
        asked.append((request.force_tool, len(request.conversation)))
        if len(asked) == 1:
            return say(NO_JSON)
        return call("final_output", good=True, why="5") if second == "good" else call("final_output", good=1)

    outcome = run(openai_agent(expert()), answers)
    assert asked == [("", 1), ("final_output", 3)]
    if second == "good":
        assert outcome.unwrap() == Verdict(good=True, why="5")
    else:
        assert outcome.kind == "failed"
        assert "Invalid JSON" in outcome.detail


def test_an_output_as_text_and_one_without_other_tools_need_one_question() -> None:
    forced: list[str] = []

    def answers(request: ModelRequest) -> Any:
        forced.append(request.force_tool)
        return (
            say('{"good":true,"why":"x"}')
            if request.force_tool == ""
            else call("final_output", good=True, why="x")
        )

    assert run(openai_agent(expert()), answers).unwrap() == Verdict(good=True, why="x")
    bare = agents.Agent("bare", output_type=Verdict)
    assert run(openai_agent(bare), answers).unwrap() == Verdict(good=True, why="x")
    assert forced == ["", "final_output"]


def test_an_approval_inside_an_agent_used_as_a_tool_goes_on_in_it() -> None:
    @function_tool(needs_approval=True)
    def pay(euros: int) -> str:
        """Pay."""
        return f"paid {euros}"

    inner = agents.Agent("inner", instructions="inner", tools=[pay])
    outer = agents.Agent("outer", instructions="outer", tools=[inner.as_tool("ask", "Ask.")])

    def answers(request: ModelRequest) -> Any:
        if turns_in(request):
            return say(results(request)[0][0])
        return call("pay", euros=3) if system_of(request) == "inner" else call("ask", input="pay")

    async def decide() -> Any:
        async with Runtime(":memory:", model=ScriptedModel(answers)) as runtime:
            session = await runtime.open(openai_agent(outer))
            ask = asyncio.ensure_future(session.ask("go"))
            async for approval in session.approvals():
                approval.approve()
                break
            return await ask

    assert asyncio.run(decide()).text == "paid 3"


def test_parallel_tools_of_equal_arguments_have_the_same_ends_in_each_execution() -> None:
    def answers(request: ModelRequest) -> Any:
        if turns_in(request):
            return say(" ".join(content for content, _ in results(request)))
        return calls(*[call("look", at=at % 2) for at in range(6)])

    brain = openai_agent(agents.Agent("parallel", tools=[look]), effects={"look": "read"})
    ends = {simulate(brain, answers, "go", seed=seed).outcome.text for seed in range(4)}
    assert ends == {"seen 0 seen 1 seen 0 seen 1 seen 0 seen 1"}


class Found(BaseModel):
    """The result of a tool."""

    at: int


def test_results_are_what_the_framework_would_tell() -> None:
    kinds: dict[str, Any] = {
        "dict": {"a": 1},
        "model": Found(at=1),
        "text": agents.ToolOutputText(text="t"),
        "none": None,
        "image": agents.ToolOutputImage(file_id="f"),
    }

    @function_tool
    def find(kind: str) -> Any:
        """Find."""
        return kinds[kind]

    def answers(request: ModelRequest) -> Any:
        if turns_in(request):
            return say("|".join(content for content, _ in results(request)))
        return calls(*[call("find", kind=kind) for kind in kinds])

    outcome = run(openai_agent(agents.Agent("typed", tools=[find])), answers)
    assert outcome.text.split("|")[:4] == ["{'a': 1}", "at=1", "t", "None"]
    assert outcome.text.endswith("Please try again.")


def test_images_and_files_of_a_tool_go_to_the_model() -> None:
    page = {"type": "document", "source": {"type": "url", "url": "http://x/a.pdf"}}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}

    @function_tool
    async def shoot() -> Any:
        """Shoot."""
        return [
            agents.ToolOutputText(text="two:"),
            agents.ToolOutputImage(image_url="data:image/png;base64,aGk="),
            agents.ToolOutputFileContent(file_url="http://x/a.pdf"),
        ]

    seen: list[Any] = []

    def answers(request: ModelRequest) -> Any:
        seen.append(request.conversation[-1])
        return say("done") if turns_in(request) else call("shoot")

    assert run(openai_agent(agents.Agent("eyes", tools=[shoot])), answers).text == "done"
    (result,) = seen[1]["content"]
    assert result["content"] == [{"type": "text", "text": "two:"}, image, page]


def test_the_own_words_of_a_failed_tool_are_told_and_a_failure_that_must_end_the_run_does() -> None:
    def words(context: Any, error: Exception) -> str:
        return f"sorry: {error}"

    @function_tool(failure_error_function=words)
    def fails(at: int) -> str:
        """Fail."""
        raise ValueError(f"no {at}")

    @function_tool(failure_error_function=None)
    def ends() -> str:
        """End."""
        raise ValueError("the end")

    def first(name: str, **given: Any) -> Any:
        def play(request: ModelRequest) -> Any:
            return say(results(request)[0][0]) if turns_in(request) else call(name, **given)

        return play

    brain = openai_agent(agents.Agent("failing", tools=[fails, ends]))
    assert "no 1" in run(brain, first("fails", at=1)).text
    wrong = run(brain, first("fails", at="much"))
    assert wrong.text.endswith("Invalid JSON input for tool fails")  # the framework hides what a model wrote
    missing = run(brain, first("fails"))
    assert missing.text.startswith("sorry: ")
    ended = run(brain, first("ends"))
    assert ended.kind == "crashed"
    assert "the end" in ended.detail


def test_a_tool_that_takes_too_long_is_a_failed_one() -> None:
    @function_tool(timeout=0.01)
    async def slow() -> str:
        """Wait."""
        await asyncio.sleep(30)
        return "never"

    outcome = run(
        openai_agent(agents.Agent("waits", tools=[slow])),
        lambda request: say(results(request)[0][0]) if turns_in(request) else call("slow"),
    )
    assert outcome.text == "An error occurred while running the tool. Please try again."


def test_a_synchronous_tool_may_run_a_loop_of_its_own_and_a_run_has_more_than_ten_turns() -> None:
    @function_tool
    def wait(at: int) -> str:
        """Wait."""
        return asyncio.run(later(at))

    async def later(at: int) -> str:
        await asyncio.sleep(0)
        return f"waited {at}"

    def answers(request: ModelRequest) -> Any:
        done = turns_in(request)
        return say(results(request)[0][0]) if done == 12 else call("wait", at=done)

    outcome = run(openai_agent(agents.Agent("long", tools=[wait])), answers)
    assert (outcome.text, outcome.usage.calls) == ("waited 11", 13)


def test_a_tool_whose_result_is_the_output_ends_the_run() -> None:
    agent = agents.Agent("stops", tools=[look], tool_use_behavior="stop_on_first_tool")
    outcome = run(openai_agent(agent), lambda request: call("look", at=4))
    assert (outcome.text, outcome.usage.calls) == ("seen 4", 1)

    async def approve(question: Approval) -> ApprovalAnswer:
        return ApprovalAnswer(True, arguments={"at": 5})

    asked = openai_agent(agent, approvals={"look": "before"})
    changed = run(asked, lambda request: call("look", at=4), approve=approve)
    assert changed.text == "seen 5", "the note about the arguments is for a model"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (ModelSettings(extra_body={"a": 1}), "model_settings has 'extra_body'"),
        (ModelSettings(parallel_tool_calls=False), "model_settings has 'parallel_tool_calls'"),
        (ModelSettings(tool_choice="none"), "tool_choice is 'none'"),
    ],
)
def test_a_setting_that_a_question_does_not_have_ends_the_brain(settings: Any, why: str) -> None:
    agent = agents.Agent("set", instructions="set", tools=[look], model_settings=settings)
    outcome = run(openai_agent(agent), lambda request: say("done"))
    assert outcome.kind == "crashed"
    assert why in outcome.detail
    # As a tool it fails for the framework, which would tell the model so and go on.
    above = agents.Agent("above", tools=[agent.as_tool("ask", "Ask.")])
    nested = run(
        openai_agent(above), lambda request: say("x") if turns_in(request) else call("ask", input="?")
    )
    assert nested.kind == "crashed"
    assert why in nested.detail


@pytest.mark.parametrize("where", ["agent", "run"])
def test_the_retries_of_a_run_are_those_of_the_session(where: str) -> None:
    retry = ModelRetrySettings(max_retries=3, policy=lambda context: True)
    settings = ModelSettings(retry=retry)
    agent = agents.Agent("again", model_settings=settings if where == "agent" else ModelSettings())
    config = agents.RunConfig(model_settings=settings) if where == "run" else None
    asked: list[ModelRequest] = []

    def answers(request: ModelRequest) -> Any:
        asked.append(request)
        return fail("invalid_request_error", "no", is_retryable=False)

    assert run(openai_agent(agent, run_config=config), answers).kind == "model_error"
    assert len(asked) == 1


def test_settings_that_a_question_has_are_passed_on_and_a_tool_is_forced_once() -> None:
    asked: list[Any] = []

    def answers(request: ModelRequest) -> Any:
        asked.append((bytes(request.model.params), request.model.max_tokens, request.force_tool))
        return say("done") if turns_in(request) else call("look", at=1)

    settings = ModelSettings(temperature=0.5, max_tokens=50, tool_choice="required")
    agent = agents.Agent("set", tools=[look], model_settings=settings)
    assert run(openai_agent(agent), answers).text == "done"
    assert asked == [(b'{"temperature":0.5}', 50, "look"), (b'{"temperature":0.5}', 50, "")]
    # The framework itself gives an agent of such a model an effort and a verbosity: not for other models.
    default = agents.Agent("default", model="gpt-5")
    assert run(openai_agent(default, model=ScriptedModel(lambda request: say("x"), name="o"))).text == "x"
