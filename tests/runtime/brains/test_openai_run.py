"""The runs inside a brain: by hand-off, as a tool, in guardrails and functions; and ways past its gate."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agents
import pytest
from agents import Runner, function_tool
from agents.exceptions import AgentsException
from agents.run import get_default_agent_runner
from agents.testing import ScriptedModel as FrameworkScript
from agents.testing import assistant_message
from agents.tracing.processor_interface import TracingProcessor
from pydantic import BaseModel

from callboard.actors.protocol.port_messages import CallTool
from callboard.actors.protocol.request import ModelRequest
from callboard.brains import openai_agent
from callboard.replay.recording import Recording
from callboard.runtime.models.scripted import ScriptedModel, call, calls, say
from callboard.runtime.runtime import Runtime
from tests.runtime.brains.kit import results, run, turns_in


def system_of(request: ModelRequest) -> str:
    """Return the system prompt, without its quotes."""
    return bytes(request.system).decode().strip('"')


@function_tool
def look(at: str) -> str:
    """Look."""
    return f"seen {at}"


def scripted(text: str) -> FrameworkScript:
    """Return a model of the framework that says one text."""
    return FrameworkScript([[assistant_message(text)]])


def called_in(log: Path) -> list[str]:
    """Return the tools that a session called."""
    with Recording.open(log, "s") as recording:
        assert recording.verify().is_ok
        return [event.body.tool for event in recording.events if isinstance(event.body, CallTool)]


def test_hand_offs_call_the_tools_of_each_agent_by_the_session(tmp_path: Path) -> None:
    third = agents.Agent("third", instructions="third", tools=[look])
    second = agents.Agent("second", instructions="second", handoffs=[third])
    first = agents.Agent("first", instructions="first", handoffs=[second])
    third.handoffs = [agents.handoff(first)]
    heard: list[str] = []

    def answers(request: ModelRequest) -> Any:
        heard.append(system_of(request))
        if heard[-1] == "first" and len(heard) > 1:
            return say(f"back after {results(request)[0][0]}")
        after = {"first": "transfer_to_second", "second": "transfer_to_third", "third": "transfer_to_first"}
        if heard[-1] == "third" and heard.count("third") == 1:
            return call("look", at="x")
        return call(after[heard[-1]])

    outcome = run(openai_agent(first, effects={"look": "read"}), answers, log=tmp_path / "l.db")
    assert outcome.text == 'back after {"assistant": "first"}'
    assert heard == ["first", "second", "third", "third", "first"]
    assert (outcome.usage.calls, called_in(tmp_path / "l.db")) == (5, ["look"])


def test_agents_as_tools_keep_their_options_and_call_their_tools_by_the_session(tmp_path: Path) -> None:
    inner = agents.Agent("inner", instructions="inner", tools=[look])

    async def shout(result: Any) -> str:
        return str(result.final_output).upper()

    outer = agents.Agent(
        "outer",
        instructions="outer",
        tools=[inner.as_tool("ask", "Ask.", custom_output_extractor=shout)],
    )

    def answers(request: ModelRequest) -> Any:
        found = results(request) if turns_in(request) else []
        if system_of(request) == "inner":
            return (
                say(found[0][0]) if found else call("look", at=request.conversation[0]["content"][0]["text"])
            )
        if found:
            return say(" and ".join(text for text, _ in found))
        return calls(call("ask", input="a"), call("ask", input="b"))

    outcome = run(openai_agent(outer), answers, log=tmp_path / "l.db")
    assert outcome.text == "SEEN A and SEEN B"
    assert (outcome.usage.calls, called_in(tmp_path / "l.db")) == (6, ["look", "look"])


class Topic(BaseModel):
    """The output of a guardrail's agent."""

    is_homework: bool


def guarded(*, in_parallel: bool) -> agents.Agent[Any]:
    """Make an agent whose guardrail asks an agent of its own."""
    checker = agents.Agent("checker", instructions="checker", output_type=Topic)

    @agents.input_guardrail(run_in_parallel=in_parallel)
    async def no_homework(ctx: Any, agent: Any, given: Any) -> agents.GuardrailFunctionOutput:
        found = (await Runner.run(checker, given)).final_output
        return agents.GuardrailFunctionOutput(found, tripwire_triggered=found.is_homework)

    return agents.Agent("guarded", instructions="main", input_guardrails=[no_homework], tools=[look])


@pytest.mark.parametrize("in_parallel", [True, False])
def test_a_guardrail_asks_its_agent_through_the_gate_and_its_tripwire_ends_the_brain(
    in_parallel: bool,
) -> None:
    def answers(request: ModelRequest) -> Any:
        if system_of(request) == "checker":
            return call("final_output", is_homework="2+3" in str(request.conversation))
        return say("fine")

    brain = openai_agent(guarded(in_parallel=in_parallel))
    good = run(brain, answers, "Hello")
    assert (good.text, good.usage.calls) == ("fine", 2)
    bad = run(brain, answers, "2+3?")
    assert bad.kind == "failed"
    assert bad.detail == "guardrail 'no_homework' stopped the run: Topic(is_homework=True)"
    assert bad.usage.calls <= 1 + in_parallel


def test_output_and_tool_guardrails_run_in_the_program() -> None:
    @agents.tool_input_guardrail
    def no_x(data: Any) -> agents.ToolGuardrailFunctionOutput:
        if '"x"' in data.context.tool_arguments:
            return agents.ToolGuardrailFunctionOutput.reject_content("not x")
        return agents.ToolGuardrailFunctionOutput.allow()

    @function_tool(tool_input_guardrails=[no_x])
    def seek(at: str) -> str:
        """Seek."""
        return f"found {at}"

    @agents.output_guardrail
    def short(ctx: Any, agent: Any, output: Any) -> agents.GuardrailFunctionOutput:
        return agents.GuardrailFunctionOutput("long", tripwire_triggered=len(output) > 30)

    def answers(request: ModelRequest) -> Any:
        if turns_in(request):
            return say(" ".join(text for text, _ in results(request)))
        return calls(call("seek", at="x"), call("seek", at=request.conversation[0]["content"][0]["text"]))

    brain = openai_agent(agents.Agent("g", tools=[seek], output_guardrails=[short]))
    assert run(brain, answers, "y").text == "not x found y"
    long = run(brain, answers, "y" * 30)
    assert (long.kind, long.detail) == ("failed", "guardrail 'short' stopped the run: 'long'")


def test_hooks_dynamic_instructions_and_hand_off_filters_see_the_run() -> None:
    seen: list[str] = []

    class Hooks(agents.AgentHooks[Any]):
        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            usage = context.usage
            seen.append(f"{agent.name} {tool.name} {result} {usage.requests} {usage.total_tokens > 0}")

    def told(context: Any, agent: Any) -> str:
        return f"You are {agent.name} for {context.context['who']}."

    last = agents.Agent("last", instructions=told)
    from agents.extensions.handoff_filters import remove_all_tools

    config = agents.RunConfig(handoff_input_filter=remove_all_tools)
    first = agents.Agent("first", instructions=told, tools=[look], hooks=Hooks(), handoffs=[last])
    said: list[Any] = []

    def answers(request: ModelRequest) -> Any:
        if "first" in system_of(request):
            return call("transfer_to_last") if turns_in(request) else call("look", at="x")
        said.extend([request.conversation, system_of(request)])
        return say("done")

    outcome = run(openai_agent(first, context={"who": "Ann"}, run_config=config), answers, "go")
    assert outcome.text == "done"
    assert seen == ["first look seen x 1 True"]
    assert said == [[{"role": "user", "content": [{"type": "text", "text": "go"}]}], "You are last for Ann."]


def asks(inner: Any, **options: Any) -> agents.Agent[Any]:
    """Make an agent with a tool that runs another one, and takes any failure."""

    @function_tool
    async def ask(question: str) -> str:
        """Ask."""
        with contextlib.suppress(Exception):
            return str((await Runner.run(inner, question, **options)).final_output)
        return "no matter"

    return agents.Agent("asks", instructions="outer", tools=[ask])


def outer(request: ModelRequest) -> Any:
    """Ask the inner agent, then end; answer for the inner one."""
    if system_of(request) == "outer":
        return say(results(request)[0][0]) if turns_in(request) else call("ask", question="why?")
    return say("because")


def test_a_nested_run_that_states_no_model_is_led_through_the_gate() -> None:
    outcome = run(openai_agent(asks(agents.Agent("inner")), in_program=["ask"]), outer)
    assert (outcome.text, outcome.usage.calls) == ("because", 3)


class Escapes:
    """Agents that reach for something that the log would not have."""

    @staticmethod
    def network() -> agents.Agent[Any]:
        """A tool in the program that opens a connection."""

        @function_tool
        async def ask(question: str) -> str:
            """Ask."""
            await asyncio.open_connection("127.0.0.1", 9)
            return "found"

        return agents.Agent("network", instructions="outer", tools=[ask])

    @staticmethod
    def direct() -> agents.Agent[Any]:
        """A tool in the program that asks a network model without the runner."""

        @function_tool
        async def ask(question: str) -> str:
            """Ask."""
            from openai import AsyncOpenAI

            client = AsyncOpenAI(api_key="k", base_url="http://127.0.0.1:9/v1", max_retries=0)
            await client.responses.create(model="m", input=question)
            return "found"

        return agents.Agent("direct", instructions="outer", tools=[ask])

    @staticmethod
    def named() -> agents.Agent[Any]:
        """A nested agent with a model that the brain does not know."""
        return asks(agents.Agent("inner", model="gpt-x"))

    @staticmethod
    def named_by_the_run() -> agents.Agent[Any]:
        """A nested run with such a model."""
        return asks(agents.Agent("inner"), run_config=agents.RunConfig(model="gpt-x"))

    @staticmethod
    def unknown_tool() -> agents.Agent[Any]:
        """A nested agent with a tool that the brain does not know."""
        return asks(agents.Agent("inner", tools=[look]))

    @staticmethod
    def hosted() -> agents.Agent[Any]:
        """A nested agent with a tool of its service."""
        return asks(agents.Agent("inner", tools=[agents.WebSearchTool()]))

    @staticmethod
    def session() -> agents.Agent[Any]:
        """A nested run that keeps its messages in a database."""
        return asks(agents.Agent("inner"), session=agents.SQLiteSession("s"))

    @staticmethod
    def kept() -> agents.Agent[Any]:
        """A nested run whose service keeps its messages."""
        return asks(agents.Agent("inner"), previous_response_id="r1")

    @staticmethod
    def streamed() -> agents.Agent[Any]:
        """A nested run that streams."""

        @function_tool
        async def ask(question: str) -> str:
            """Ask."""
            result = Runner.run_streamed(agents.Agent("inner"), question)
            async for _ in result.stream_events():
                pass
            return str(result.final_output)

        return agents.Agent("streamed", instructions="outer", tools=[ask])

    @staticmethod
    def sync() -> agents.Agent[Any]:
        """A synchronous run."""

        @function_tool
        def ask(question: str) -> str:
            """Ask."""
            return str(Runner.run_sync(agents.Agent("inner"), question).final_output)

        return agents.Agent("sync", instructions="outer", tools=[ask])


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (Escapes.network, "a program has no network or files"),
        (Escapes.direct, "a program has no network or files"),
        (Escapes.named, "an agent asks 'gpt-x', which its brain does not know"),
        (Escapes.named_by_the_run, "an agent asks 'gpt-x', which its brain does not know"),
        (Escapes.unknown_tool, "tool 'look' belongs to an agent that its brain does not know"),
        (Escapes.hosted, "WebSearchTool ('web_search') is not a function tool"),
        (Escapes.session, "a run in a brain has no session"),
        (Escapes.kept, "a run in a brain has no previous_response_id"),
        (Escapes.streamed, "a brain does not stream"),
        (Escapes.sync, "a brain has one loop"),
    ],
)
def test_a_way_past_the_gate_ends_the_brain_though_its_code_hides_it(
    make: Callable[[], Any], why: str
) -> None:
    outcome = run(openai_agent(make(), in_program=["ask"]), outer)
    assert outcome.kind == "crashed"
    assert why in outcome.detail


def test_a_nested_agent_that_is_named_has_its_tools(tmp_path: Path) -> None:
    inner = agents.Agent("inner", instructions="inner", tools=[look])

    def answers(request: ModelRequest) -> Any:
        if system_of(request) == "inner":
            return say(results(request)[0][0]) if turns_in(request) else call("look", at="x")
        return outer(request)

    brain = openai_agent(asks(inner), in_program=["ask"], nested=[inner])
    outcome = run(brain, answers, log=tmp_path / "l.db")
    assert (outcome.text, called_in(tmp_path / "l.db")) == ("seen x", ["look"])


def test_a_local_model_that_is_asked_without_the_runner_is_opaque() -> None:
    local = scripted("local")

    @function_tool
    async def ask(question: str) -> str:
        """Ask a model that the runtime does not see."""
        await local.get_response(
            None, question, agents.ModelSettings(), [], None, [], agents.ModelTracing.DISABLED,
            previous_response_id=None, conversation_id=None, prompt=None,
        )  # fmt: skip
        return "done"

    brain = openai_agent(agents.Agent("opaque", instructions="outer", tools=[ask]), in_program=["ask"])
    outcome = run(brain, outer)
    assert (outcome.text, outcome.usage.calls) == ("done", 2)  # the third call is in no log


class Traces(TracingProcessor):
    """A receiver of traces, which a test expects to get none."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_trace_start(self, trace: Any) -> None:
        self.seen.append(trace)

    def on_trace_end(self, trace: Any) -> None:
        self.seen.append(trace)

    def on_span_start(self, span: Any) -> None:
        self.seen.append(span)

    def on_span_end(self, span: Any) -> None:
        self.seen.append(span)

    def shutdown(self) -> None:
        pass

    def force_flush(self) -> None:
        pass


def test_nothing_of_a_brain_is_traced_and_runs_outside_are_as_before() -> None:
    traces = Traces()
    agents.set_trace_processors([traces])
    try:
        inner = agents.Agent("inner")
        outer_agent = agents.Agent(
            "outer",
            instructions="outer",
            tools=[inner.as_tool("ask", "Ask.", run_config=agents.RunConfig(tracing_disabled=False))],
        )
        outcome = run(
            openai_agent(outer_agent),
            lambda request: (
                say("done")
                if turns_in(request) or system_of(request) != "outer"
                else call("ask", input="why?")
            ),
        )
        assert outcome.text == "done"
        assert traces.seen == []
        plain = agents.Agent("plain", model=scripted("as before"))
        assert asyncio.run(outside(plain)) == "as before"
        assert type(get_default_agent_runner()).__name__ == "Door"
        assert len(traces.seen) > 0
    finally:
        agents.set_trace_processors([])


async def outside(agent: Any) -> Any:
    """Run an agent outside of a brain."""
    return (await Runner.run(agent, "x")).final_output


def test_a_run_that_the_framework_gives_up_ends_by_its_kind() -> None:
    inner = agents.Agent("inner", instructions="inner")
    agent = agents.Agent("turns", instructions="outer", tools=[look])

    @function_tool(failure_error_function=None)
    async def ask(question: str) -> str:
        """Run the inner agent with few turns."""
        return str((await Runner.run(inner, question, max_turns=0)).final_output)

    agent.tools = [ask]
    outcome = run(openai_agent(agent, in_program=["ask"]), outer)
    assert (outcome.kind, outcome.detail) == ("iteration_cap", "Max turns (0) exceeded")
    unknown = run(openai_agent(agents.Agent("odd")), lambda request: call("nothing"))
    assert unknown.kind == "failed"
    assert "nothing" in unknown.detail
    assert issubclass(agents.MaxTurnsExceeded, AgentsException)


def test_a_run_outside_goes_on_while_a_brain_runs() -> None:
    plain = agents.Agent("plain", model=scripted("outside"))

    async def both() -> tuple[str, str]:
        model = ScriptedModel(lambda request: say("inside"))
        async with Runtime(":memory:", model=model) as runtime:
            ask = asyncio.ensure_future(runtime.run(openai_agent(agents.Agent("a")), "go"))
            return (await outside(plain)), (await ask).text

    assert asyncio.run(both()) == ("outside", "inside")
