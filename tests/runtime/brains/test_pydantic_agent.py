"""An agent of Pydantic AI as a brain: granted, recorded, resumed, and its refusals."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic_ai import Agent as FrameworkAgent
from pydantic_ai import RunContext, TextOutput
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest as Request
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.usage import RequestUsage

from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import (
    CallTool,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.brains import pydantic_ai_agent
from callboard.replay.recording import Recording
from callboard.runtime.models.scripted import ScriptedModel, call, calls, say
from callboard.runtime.runtime import Runtime
from tests.runtime.brains.agents import Verdict, expert, policy
from tests.runtime.brains.kit import saying, turns_in

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def run(brain: Any, answers: Any = policy, prompt: Any = "2+3?", **more: Any) -> Any:
    runtime = Runtime(more.pop("log", ":memory:"), model=ScriptedModel(answers), deps=more.pop("deps", None))
    return runtime.run_sync(brain, prompt, session_id="s", **more)


def gate_of(ctx: Any) -> Any:
    """Return the model of a run, which the framework's types allow to be one of another kind."""
    return ctx.model


def results(request: ModelRequest) -> list[tuple[str, bool]]:
    """Return the results in the last message: the content, and whether it is an error."""
    return [(one["content"], one.get("is_error", False)) for one in request.conversation[-1]["content"]]


def test_a_run_is_questions_calls_and_a_typed_report(tmp_path: Path) -> None:
    ran: list[str] = []
    seen: list[ModelRequest] = []

    def answers(request: ModelRequest) -> Any:
        seen.append(request)
        return policy(request)

    outcome = run(
        pydantic_ai_agent(expert(ran), effects={"add": "read"}), answers, log=tmp_path / "log.db", deps="D"
    )
    assert outcome.unwrap() == Verdict(good=True, why="5")
    assert outcome.usage.calls == 3
    assert sorted(ran) == sorted(["add 2", "add 9", "add 8", "save k D", "validate", "validate"])
    assert results(seen[1]) == [
        ("5", False),
        ("saved k", False),
        ('{"error":"not nine"}', True),
        ('{"error":"ValueError: eight"}', True),
    ]
    assert results(seen[2]) == [('{"error":"shorter"}', True)]
    assert [tool.get("name") for tool in map(_decoded, seen[0].tools)] == ["add", "save", "final_result"]
    assert bytes(seen[0].system) == b'"Be terse."'
    with Recording.open(tmp_path / "log.db", "s") as recording:
        assert recording.verify().is_ok
        bodies = [event.body for event in recording.events]
        effects = {body.tool: body.effect for body in bodies if isinstance(body, CallTool)}
        assert effects == {"add": "read", "save": "write"}


def _decoded(tool: Any) -> dict[str, Any]:
    return msgspec.json.decode(tool, type=dict[str, Any])


def test_a_refused_budget_ends_the_brain_whatever_its_code_makes_of_it() -> None:
    agent: FrameworkAgent[Any, str] = FrameworkAgent(name="stubborn", instructions="x" * 2_000)
    inner: FrameworkAgent[Any, str] = FrameworkAgent(name="inner", instructions="y" * 9_000)

    @agent.tool
    async def ask(ctx: RunContext[Any]) -> str:
        """Ask another one, and take any failure."""
        with contextlib.suppress(Exception):
            await inner.run("why?", model=gate_of(ctx), usage=ctx.usage)
        return "no matter"

    brain = pydantic_ai_agent(agent, in_program=["ask"])
    outcome = run(
        brain, lambda request: say("well") if turns_in(request) else call("ask"), limits=Limits(tokens=9_000)
    )
    assert (outcome.kind, outcome.usage.calls) == ("budget", 1)
    few = run(brain, lambda request: call("ask"), limits=Limits(max_iterations=3))
    assert (few.kind, few.usage.calls) == ("iteration_cap", 3)


def test_nested_agents_ask_through_the_same_gate_and_count_their_usage() -> None:
    inner: FrameworkAgent[Any, str] = FrameworkAgent(name="inner")
    agent: FrameworkAgent[Any, str] = FrameworkAgent(name="outer")
    counted: list[int] = []

    @agent.tool
    async def ask(ctx: RunContext[Any], what: str) -> str:
        """Ask another one."""
        result = await inner.run(what, model=gate_of(ctx), usage=ctx.usage)
        counted.append(ctx.usage.requests)
        return result.output

    def answers(request: ModelRequest) -> Any:
        if request.conversation[0]["content"][0]["text"] == "go":
            return say("both") if turns_in(request) else calls(call("ask", what="a"), call("ask", what="b"))
        return say(f"heard {request.conversation[0]['content'][0]['text']}")

    outcome = run(pydantic_ai_agent(agent, in_program=["ask"]), answers, "go")
    assert (outcome.text, outcome.usage.calls) == ("both", 4)
    assert max(counted) == 3


def test_a_person_decides_about_a_call_and_the_model_reads_a_refusal() -> None:
    agent: FrameworkAgent[Any, str] = FrameworkAgent(name="payer")
    told: list[Any] = []

    @agent.tool_plain(requires_approval=True)
    def pay(euros: int) -> str:
        """Pay."""
        return f"paid {euros}"

    def answers(request: ModelRequest) -> Any:
        if not turns_in(request):
            return calls(call("pay", euros=1), call("pay", euros=2))
        told.extend(results(request))
        return say("done")

    async def decide() -> Any:
        async with Runtime(":memory:", model=ScriptedModel(answers)) as runtime:
            session = await runtime.open(pydantic_ai_agent(agent))
            ask = asyncio.ensure_future(session.ask("go"))
            left = 2
            async for approval in session.approvals():
                if "2" in str(approval.arguments):
                    approval.deny("too much")
                else:
                    approval.approve()
                left -= 1
                if not left:
                    break
            return await ask

    assert asyncio.run(decide()).text == "done"
    assert told[0] == ("paid 1", False)
    assert told[1][1]
    assert "too much" in told[1][0]


def test_earlier_asks_of_a_session_are_its_history() -> None:
    heard: list[Any] = []

    def answers(request: ModelRequest) -> Any:
        heard.append([said["content"][0]["text"] for said in request.conversation])
        return say(f"answer {len(heard)}")

    async def talk() -> None:
        async with Runtime(":memory:", model=ScriptedModel(answers)) as runtime:
            session = await runtime.open(pydantic_ai_agent(FrameworkAgent(name="chatter")))
            await session.ask("one")
            await session.ask("two")

    asyncio.run(talk())
    assert heard == [["one"], ["one", "answer 1", "two"]]


def test_its_own_model_answers_unless_another_is_given() -> None:
    def says(messages: Any, info: AgentInfo) -> ModelResponse:
        return ModelResponse(
            parts=[TextPart(f"own {info.instructions}")], usage=RequestUsage(input_tokens=3, output_tokens=2)
        )

    agent = FrameworkAgent(FunctionModel(says), name="own", instructions="Hm.")
    outcome = Runtime(":memory:").run_sync(pydantic_ai_agent(agent), "go")
    assert (outcome.text, outcome.usage.tokens) == ("own Hm.", 5)
    other = run(pydantic_ai_agent(agent, model=ScriptedModel(saying("other"), name="other")), saying("no"))
    assert other.text == "other"


class Nested:
    """Agents that reach for something outside of the gate."""

    @staticmethod
    def native() -> FrameworkAgent[Any, str]:
        """A service's own tool, of which nothing is known before the run."""
        return FrameworkAgent(name="native", capabilities=[NativeTool(lambda ctx: WebSearchTool())])

    @staticmethod
    def settings() -> FrameworkAgent[Any, str]:
        """A setting that services name in their own ways."""
        return FrameworkAgent(name="settings", model_settings={"seed": 1})

    @staticmethod
    def network() -> FrameworkAgent[Any, str]:
        """A tool in the program that opens a connection."""
        agent: FrameworkAgent[Any, str] = FrameworkAgent(name="network")

        @agent.tool_plain
        async def look() -> str:
            """Look."""
            await asyncio.open_connection("127.0.0.1", 9)
            return "found"

        return agent


@pytest.mark.parametrize(
    ("make", "inner", "why"),
    [
        (Nested.native, (), "Native tool(s) ['WebSearchTool'] not supported"),
        (Nested.settings, (), "model_settings has 'seed'"),
        (Nested.network, ("look",), "a program has no network or files"),
    ],
)
def test_a_way_past_the_gate_is_refused(make: Callable[[], Any], inner: Any, why: str) -> None:
    outcome = run(pydantic_ai_agent(make(), in_program=inner), lambda request: call("look"))
    assert outcome.kind == "crashed"
    assert why in outcome.detail


def test_an_output_of_msgspec_is_a_value_of_json() -> None:
    class Verdict(msgspec.Struct):
        good: bool

    def verdict(words: str) -> Any:
        return [Verdict(good=words == "yes")]

    agent: FrameworkAgent[Any, Any] = FrameworkAgent(name="judge", output_type=TextOutput(verdict))
    assert run(pydantic_ai_agent(agent), saying("yes")).structured_output == [{"good": True}]


def test_a_stream_is_refused() -> None:
    agent: FrameworkAgent[Any, str] = FrameworkAgent(name="streams")
    inner: FrameworkAgent[Any, str] = FrameworkAgent(name="inner")

    @agent.tool
    async def ask(ctx: RunContext[Any]) -> str:
        """Stream."""
        async with inner.run_stream("x", model=gate_of(ctx)) as result:
            return await result.get_output()

    outcome = run(pydantic_ai_agent(agent, in_program=["ask"]), lambda request: call("ask"))
    assert outcome.kind == "crashed"
    assert "a brain does not stream" in outcome.detail


def test_a_local_model_that_is_asked_without_an_agent_is_opaque() -> None:
    model = TestModel(custom_output_text="local")
    agent: FrameworkAgent[Any, str] = FrameworkAgent(name="opaque")

    @agent.tool_plain
    async def ask() -> str:
        """Ask a model that the runtime does not see."""
        return str((await model_request(model, [Request.user_text_prompt("x")])).parts[0])

    outcome = run(
        pydantic_ai_agent(agent, in_program=["ask"]),
        lambda request: say("done") if turns_in(request) else call("ask"),
    )
    assert (outcome.text, outcome.usage.calls) == ("done", 2)  # the third call is in no log


def test_a_long_reply_is_in_the_log_once(tmp_path: Path) -> None:
    # The ends of its question repeat it, and a file keeps large values once each.
    turns, chars = 6, 2_000

    def held(length: int) -> int:
        def answers(request: ModelRequest) -> Any:
            turn = turns_in(request)
            return (
                calls(call("add", a=turn, b=1), text=f"{turn:04} " * (length // 5)) if turn < turns else "5"
            )

        agent = FrameworkAgent[Any, str](name="adder")

        @agent.tool_plain
        def add(a: int, b: int) -> int:
            return a + b

        path = tmp_path / f"{length}.db"
        brain = pydantic_ai_agent(agent, effects={"add": "read"})
        assert run(brain, answers, log=path).is_ok
        with contextlib.closing(sqlite3.connect(path)) as file:
            sizes = "SELECT (SELECT sum(length(body)) FROM events) + (SELECT total(length(data)) FROM blobs)"
            return int(file.execute(sizes).fetchone()[0])

    assert held(chars) - held(5) < 1.5 * turns * chars
