"""Agents of Pydantic AI that run others: their models, tools and deps are led to the session, or refused."""

import asyncio
import contextlib
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pydantic_ai import Agent as FrameworkAgent
from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred
from pydantic_ai.messages import ModelResponse, TextPart, ToolReturn
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import FunctionToolset
from pydantic_ai.usage import RequestUsage, UsageLimits

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.errors import InvalidAgent, OutcomeError
from callboard.actors.protocol.port_messages import CallTool, ToolReturned, ToolStarted
from callboard.actors.protocol.request import ModelRequest
from callboard.brains import PydanticAIModel, pydantic_ai_agent
from callboard.replay.recording import Recording
from callboard.replay.testing.sessions.resumes import go_on
from callboard.runtime.approvals import ApprovalAnswer
from callboard.runtime.models.scripted import ScriptedModel, call, calls, say
from callboard.runtime.runtime import Runtime
from callboard.testing import simulate
from tests.runtime.brains.kit import results, run, turns_in

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

Framework: TypeAlias = FrameworkAgent[Any, str]
Ask = Callable[[RunContext[Any], Framework], Any]


def answers(request: ModelRequest) -> Any:
    """Answer as the lead, which asks twice, or as the agent inside, which saves."""
    if b"Lead." in bytes(request.system):
        return say("done") if turns_in(request) else calls(call("ask", what="a"), call("ask", what="b"))
    if turns_in(request):
        return say("saved")
    return call("save", key=request.conversation[-1]["content"][0]["text"])


def inside(saved: list[str], model: Any = None) -> Framework:
    """Return an agent with a tool that writes."""
    inner: Framework = FrameworkAgent(model, name="inner")

    @inner.tool
    def save(ctx: RunContext[Any], key: str) -> str:
        """Save."""
        saved.append(f"{key} {ctx.deps}")
        return "ok"

    return inner


def lead(inner: Framework, ask_of: Ask) -> Framework:
    """Return an agent that runs another one in its tool."""
    outer: Framework = FrameworkAgent(name="lead", instructions="Lead.")

    @outer.tool
    async def ask(ctx: RunContext[Any], what: str = "x") -> str:
        """Ask."""
        with contextlib.suppress(Exception):
            return str((await ask_of(ctx, inner)(what)).output)
        return "no matter"

    return outer


def plain(ctx: RunContext[Any], inner: Framework) -> Any:
    return inner.run


def led(ctx: RunContext[Any], inner: Framework) -> Any:
    model: Any = ctx.model  # of no realtime session
    return lambda what: inner.run(what, model=model, usage=ctx.usage)


@pytest.mark.parametrize("ask", [plain, led])
def test_the_tools_of_nested_agents_are_calls_of_the_session(ask: Ask, tmp_path: Path) -> None:
    saved: list[str] = []
    inner = inside(saved)
    brain = pydantic_ai_agent(lead(inner, ask), in_program=["ask"], nested=[inner], deps="D")
    outcome = run(brain, answers, log=tmp_path / "log.db")
    assert (outcome.text, outcome.usage.calls, sorted(saved)) == ("done", 6, ["a D", "b D"])
    with Recording.open(tmp_path / "log.db", "s") as recording:
        assert recording.verify().is_ok
        bodies = [event.body for event in recording.events]
    assert [(one.tool, one.effect) for one in bodies if isinstance(one, CallTool)] == [("save", "write")] * 2


def test_a_write_of_a_nested_agent_starts_once_wherever_the_run_is_killed() -> None:
    inner = inside([])
    brain = pydantic_ai_agent(lead(inner, plain), in_program=["ask"], nested=[inner])
    done = simulate(brain, answers, "go")
    for length in range(3, len(done.events) + 1, 3):
        after = go_on(done.world.scenario, done.events[:length]).run(lambda count: 0)
        assert after.of(AskEnded)[-1].text == "done"
        assert len(after.of(ToolStarted)) == 2
        assert [one.status for one in after.of(ToolReturned)].count("interrupted") <= 2


def own_model(word: str) -> FunctionModel:
    def says(messages: Any, info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(word)], usage=RequestUsage(input_tokens=3, output_tokens=2))

    return FunctionModel(says)


def test_a_nested_agent_asks_the_model_that_it_names_in_the_session() -> None:
    inner: Framework = FrameworkAgent(own_model("own"), name="inner")
    told: list[Any] = []

    def asked(request: ModelRequest) -> Any:
        told.extend(one["content"] for one in request.conversation[-1]["content"] if "content" in one)
        return say("done") if turns_in(request) or b"Lead." not in bytes(request.system) else call("ask")

    brain = pydantic_ai_agent(lead(inner, plain), in_program=["ask"], nested=[inner])
    assert (run(brain, asked).usage.calls, told) == (3, ["own"])
    other = PydanticAIModel(inner.model, name="mine")
    listed = pydantic_ai_agent(lead(inner, plain), in_program=["ask"], models=[other])
    assert (run(listed, asked).usage.calls, told[1:]) == (3, ["own"])
    one = pydantic_ai_agent(lead(inner, plain), in_program=["ask"], model=ScriptedModel(asked, name="one"))
    assert run(one).usage.calls == 3
    assert told[2:] == ["done"]
    twice = FrameworkAgent(own_model("b"), name="twice")
    brain = pydantic_ai_agent(lead(inner, plain), in_program=["ask"], nested=[inner, twice])
    assert len({model.spec.name for model in brain.models}) == 2


def overridden(ctx: RunContext[Any], inner: Framework) -> Any:
    async def ask(what: str) -> Any:
        with inner.override(model=TestModel(call_tools=[])):
            return await inner.run(what)

    return ask


def falling_back(ctx: RunContext[Any], inner: Framework) -> Any:
    model: Any = ctx.model
    return lambda what: inner.run(what, model=FallbackModel(model, TestModel(call_tools=[])))


def shout(word: str) -> str:
    """Shout."""
    return word.upper()


def with_toolset(ctx: RunContext[Any], inner: Framework) -> Any:
    return lambda what: inner.run(what, toolsets=[FunctionToolset([shout])])


def with_deps(ctx: RunContext[Any], inner: Framework) -> Any:
    return lambda what: inner.run(what, deps="other")


def in_workspace(ctx: RunContext[Any], inner: Framework) -> Any:
    return lambda what: inner.run(what, workspace="new")


@pytest.mark.parametrize(
    ("ask", "is_named", "why"),
    [
        (led, False, "agent 'inner' has the tool 'save', and its brain does not know it"),
        (overridden, True, "TestModel is put in the place of the brain's model"),
        (falling_back, True, "asks FallbackModel.*pass `model=ctx.model`"),
        (with_toolset, True, "gets no toolsets"),
        (with_deps, True, "deps of its own, and its tool 'save' may run in another process"),
        (in_workspace, True, "has no workspace of its own"),
    ],
)
def test_a_nested_run_past_the_session_ends_the_brain_though_its_code_hides_it(
    ask: Ask, is_named: bool, why: str
) -> None:
    inner = inside([])
    brain = pydantic_ai_agent(lead(inner, ask), in_program=["ask"], nested=[inner] if is_named else [])
    with pytest.raises(OutcomeError, match=why):
        run(brain, answers).unwrap()


def test_a_model_of_a_nested_agent_that_is_not_named_is_refused() -> None:
    inner: Framework = FrameworkAgent(TestModel(), name="inner")
    outcome = run(pydantic_ai_agent(lead(inner, plain), in_program=["ask"]), answers)
    assert outcome.kind == "crashed"
    assert "agent 'inner' asks TestModel(" in outcome.detail


def test_a_fallback_of_models_that_are_all_led_is_led() -> None:
    def ask(ctx: RunContext[Any], inner: Framework) -> Any:
        model: Any = ctx.model
        return lambda what: inner.run(what, model=FallbackModel(model, model))

    inner = inside([])
    brain = pydantic_ai_agent(lead(inner, ask), in_program=["ask"], nested=[inner])
    assert run(brain, answers).text == "done"


def look() -> str:
    """Look."""
    return "nothing"


def look_elsewhere() -> str:
    """Look elsewhere."""
    return "nothing"


def test_a_nested_run_has_no_limit_of_requests_but_its_own() -> None:
    def answer(request: ModelRequest) -> Any:
        if b"Lead." in bytes(request.system):
            return say("done") if turns_in(request) else call("ask")
        return say("long") if turns_in(request) > 51 else call("look")

    inner: Framework = FrameworkAgent(name="inner")
    inner.tool_plain(name="look")(look)
    many = pydantic_ai_agent(lead(inner, led), in_program=["ask", "look"], nested=[inner])
    assert (run(many, answer).text, run(many, answer).usage.calls) == ("done", 55)

    def limited(ctx: RunContext[Any], inner: Framework) -> Any:
        return lambda what: inner.run(what, usage_limits=UsageLimits(request_limit=2))

    few = pydantic_ai_agent(lead(inner, limited), in_program=["ask", "look"], nested=[inner])
    assert (run(few, answer).text, run(few, answer).usage.calls) == ("done", 4)


def test_two_agents_of_a_brain_may_share_a_tool_but_not_its_name() -> None:
    first, second = (FrameworkAgent[Any, str](name=name, tools=[look]) for name in ("first", "second"))
    assert list(pydantic_ai_agent(first, nested=[second]).tools) == ["look"]
    third: Framework = FrameworkAgent(name="third")
    third.tool_plain(name="look")(look_elsewhere)
    with pytest.raises(InvalidAgent, match="two tools have the name 'look', one of them of agent 'third'"):
        pydantic_ai_agent(first, nested=[third])
    with pytest.raises(InvalidAgent, match=r"3 is not a pydantic_ai\.Agent"):
        pydantic_ai_agent(first, nested=[3])  # type: ignore[list-item]  # as a careless caller does


def test_runs_outside_of_a_brain_are_as_before() -> None:
    inner: Framework = FrameworkAgent(TestModel(custom_output_text="local"))
    assert run(pydantic_ai_agent(FrameworkAgent(name="brain")), lambda request: say("x")).is_ok
    assert asyncio.run(inner.run("x")).output == "local"


def decided(brain: Any, **given: Any) -> tuple[Any, list[tuple[Any, ...]]]:
    """Run a brain whose only call a person decides about, and return its text and its results."""
    told: list[tuple[Any, ...]] = []

    def answer(request: ModelRequest) -> Any:
        if turns_in(request):
            told.extend(results(request))
        return say("done") if turns_in(request) else call("ask", day="2026-01-02")

    async def approve(question: Any) -> ApprovalAnswer:
        return ApprovalAnswer(**given)

    async def ask() -> Any:
        async with Runtime(":memory:", model=ScriptedModel(answer), approve=approve) as runtime:
            return await runtime.run(brain, "go")

    return asyncio.run(ask()).text, told


@pytest.mark.parametrize("mark", ["tool", "brain"])
def test_a_person_decides_about_a_call_in_the_program_and_its_arguments(mark: str) -> None:
    outer: Framework = FrameworkAgent(name="lead")

    @outer.tool_plain(requires_approval=mark == "tool")
    def ask(day: datetime.date) -> str:
        """Ask."""
        return f"it was {day:%d.%m.}"

    brain = pydantic_ai_agent(
        outer, in_program=["ask"], approvals={"ask": "before"} if mark == "brain" else None
    )
    assert decided(brain, is_approved=True) == ("done", [("it was 02.01.", False)])
    other = decided(brain, is_approved=True, arguments={"day": "2026-03-04"})
    told = 'This call was approved with other arguments: {"day":"2026-03-04"}'
    assert other == ("done", [(f"{told}\nit was 04.03.", False)])
    text, [(refused, is_error)] = decided(brain, is_approved=False, note="no")
    assert (text, is_error) == ("done", True)
    assert "no" in refused


@pytest.mark.parametrize(
    ("returned", "rest"),
    [
        ({"a": 1}, []),
        (ToolReturn("one"), []),
        (ToolReturn("one", content="more"), ["more"]),
        (ToolReturn("one", content=["more", "words"]), ["more", "words"]),
    ],
)
def test_any_result_in_the_program_is_told_with_the_arguments_that_a_person_gave(
    returned: Any, rest: list[str]
) -> None:
    outer: Framework = FrameworkAgent(name="lead")

    @outer.tool_plain(requires_approval=True)
    def ask(day: str) -> Any:
        """Ask."""
        return returned

    def answer(request: ModelRequest) -> Any:
        if not turns_in(request):
            return call("ask", day="x")
        first, *texts = request.conversation[-1]["content"]
        assert first["content"] == ("one" if isinstance(returned, ToolReturn) else '{"a":1}')
        note = 'This call was approved with other arguments: {"day":"y"}'
        assert [one["text"] for one in texts] == [note, *rest]
        return say("done")

    async def approve(question: Any) -> ApprovalAnswer:
        return ApprovalAnswer(True, arguments={"day": "y"})

    async def go() -> Any:
        async with Runtime(":memory:", model=ScriptedModel(answer), approve=approve) as runtime:
            return await runtime.run(pydantic_ai_agent(outer, in_program=["ask"]), "go")

    assert asyncio.run(go()).unwrap() == "done"


def raising(error: type[Exception]) -> Framework:
    outer: Framework = FrameworkAgent(name="lead")

    @outer.tool
    def ask(ctx: RunContext[Any], day: datetime.date) -> str:
        """Ask."""
        if not ctx.tool_call_approved:
            raise error
        return f"it was {day:%d.%m.}"

    return outer


def test_a_call_in_the_program_that_asks_for_an_approval_goes_on_only_if_a_person_is_asked() -> None:
    asked = pydantic_ai_agent(raising(ApprovalRequired), in_program=["ask"], approvals={"ask": "before"})
    assert decided(asked, is_approved=True) == ("done", [("it was 02.01.", False)])
    unasked = pydantic_ai_agent(raising(ApprovalRequired), in_program=["ask"])
    outcome = run(unasked, lambda request: call("ask", day="2026-01-02"))
    assert outcome.kind == "crashed"
    assert "tool 'ask' raises ApprovalRequired, and no person is asked" in outcome.detail


@pytest.mark.parametrize("error", [ApprovalRequired, CallDeferred])
def test_a_call_that_only_its_run_could_go_on_with_ends_the_brain(error: type[Exception]) -> None:
    outcome = run(pydantic_ai_agent(raising(error)), lambda request: call("ask", day="2026-01-02"))
    assert outcome.kind == "crashed"
    assert f"tool 'ask' raises {error.__name__}" in outcome.detail


class Clamp(AbstractCapability[Any]):
    """A capability that lowers the arguments of a call after they were checked."""

    async def after_tool_validate(
        self, ctx: RunContext[Any], *, call: Any, tool_def: Any, args: dict[str, Any]
    ) -> dict[str, Any]:
        return {**args, "euros": min(args["euros"], 50)}


def test_a_person_and_the_tool_get_the_arguments_that_a_capability_has_rewritten() -> None:
    # pydantic-ai#6968: the approver was shown others than those that ran.
    shown: list[Any] = []
    payer: Framework = FrameworkAgent(name="payer", capabilities=[Clamp()])

    @payer.tool_plain(requires_approval=True)
    def pay(euros: int, day: datetime.date = datetime.date(2026, 1, 2)) -> str:
        """Pay."""
        return f"paid {euros} on {day}"

    def answer(request: ModelRequest) -> Any:
        if turns_in(request):
            return say(str(results(request)[0][0]))
        return call("pay", euros=100, day="2026-03-04")

    async def approve(question: Any) -> bool:
        shown.append(question.arguments)
        return True

    async def ask() -> Any:
        async with Runtime(":memory:", model=ScriptedModel(answer), approve=approve) as runtime:
            return await runtime.run(pydantic_ai_agent(payer), "go")

    assert asyncio.run(ask()).text == "paid 50 on 2026-03-04"
    assert shown == [{"euros": 50, "day": "2026-03-04"}]


def test_a_check_of_arguments_that_asks_for_an_approval_needs_a_person() -> None:
    # pydantic-ai#6897
    def check(ctx: RunContext[Any], path: str) -> None:
        if path.startswith("/etc") and not ctx.tool_call_approved:
            raise ApprovalRequired

    agent: Framework = FrameworkAgent(name="cleaner")

    @agent.tool(args_validator=check)
    def delete(ctx: RunContext[Any], path: str) -> str:
        """Delete."""
        return f"deleted {path}"

    def answer(request: ModelRequest) -> Any:
        return say(results(request)[0][0]) if turns_in(request) else call("delete", path="/etc/passwd")

    unasked = run(pydantic_ai_agent(agent), answer)
    assert unasked.kind == "crashed"
    assert "no person is asked: name it in `approvals`" in unasked.detail

    async def approve(question: Any) -> bool:
        return True

    async def ask() -> Any:
        asked = pydantic_ai_agent(agent, approvals={"delete": "before"})
        async with Runtime(":memory:", model=ScriptedModel(answer), approve=approve) as runtime:
            return await runtime.run(asked, "go")

    assert asyncio.run(ask()).text == "deleted /etc/passwd"
