"""A host as a function that other frameworks take as a tool."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from agents import function_tool
from agents.tool_context import ToolContext
from langchain_core.tools import tool as langchain_tool
from pydantic_ai import Agent as FrameworkAgent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.errors import InvalidAgent, MisuseError
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.request import ModelRequest
from callboard.brains import as_function
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import ScriptedModel, call, say
from callboard.runtime.runtime import Runtime
from tests.runtime.brains.kit import saying

HOST = Agent("oracle", description="Knows.")
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def answered(answer: Any = None, host: Any = HOST, **options: Any) -> Any:
    """Call the function of a host."""

    async def go() -> Any:
        async with Runtime(":memory:", model=ScriptedModel(answer or saying("42")), **options) as runtime:
            return await as_function(runtime, host)("why?")

    return asyncio.run(go())


def test_an_answer_is_typed_and_says_how_the_ask_ended() -> None:
    found = answered()
    assert found == {
        "status": "ok",
        "kind": "answered",
        "text": "42",
        "report": None,
        "session_id": found["session_id"],
    }
    broke = answered(limits=Limits(tokens=10))
    assert (broke["status"], broke["kind"]) == ("failed", "budget")
    assert broke["text"]
    report = answered(lambda request: call("report_back", n=7), Agent("typed", output_schema=SCHEMA))
    assert report["report"] == {"n": 7}


def test_pydantic_ai_takes_it_as_a_tool() -> None:
    async def go() -> Any:
        def says(messages: Any, info: Any) -> ModelResponse:
            last: Any = messages[-1].parts[-1]
            if last.part_kind == "tool-return":
                return ModelResponse(parts=[TextPart(f"It is {last.content['text']}.")])
            (offered,) = info.function_tools
            assert (offered.name, offered.description) == ("oracle", "Knows.")
            return ModelResponse(parts=[ToolCallPart("oracle", {"prompt": "why?"})])

        async with Runtime(":memory:", model=ScriptedModel(saying("42"))) as runtime:
            agent = FrameworkAgent(FunctionModel(says), tools=[as_function(runtime, HOST)])
            return (await agent.run("x")).output

    assert asyncio.run(go()) == "It is 42."


def test_langchain_takes_it_as_a_tool() -> None:
    async def go() -> None:
        async with Runtime(":memory:", model=ScriptedModel(saying("42"))) as runtime:
            made: Any = langchain_tool(as_function(runtime, HOST))
            assert (made.name, made.description) == ("oracle", "Knows.")
            assert list(made.args) == ["prompt"]
            assert (await made.ainvoke({"prompt": "why?"}))["text"] == "42"

    asyncio.run(go())


def test_openai_agents_take_it_as_a_function_tool() -> None:
    async def go() -> None:
        async with Runtime(":memory:", model=ScriptedModel(saying("42"))) as runtime:
            made: Any = function_tool(as_function(runtime, HOST))
            given = json.dumps({"prompt": "why?"})
            ctx: Any = ToolContext(None, tool_name="oracle", tool_call_id="c", tool_arguments=given)
            assert (made.name, (await made.on_invoke_tool(ctx, given))["text"]) == ("oracle", "42")

    asyncio.run(go())


def test_a_caller_that_gives_up_ends_the_ask(tmp_path: Path) -> None:
    async def go() -> str:
        asked = asyncio.Event()

        async def never(request: ModelRequest) -> Any:
            asked.set()
            await asyncio.Event().wait()
            return say("too late")

        model = ScriptedModel(never)
        async with Runtime(tmp_path / "log.db", model=model, cancel_delay_s=0) as runtime:
            task = asyncio.ensure_future(as_function(runtime, HOST)("why?"))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            (found,) = [row.session_id async for row in runtime.sessions()]
            return found

    with Recording.open(tmp_path / "log.db", asyncio.run(go())) as recording:
        ends = [event.body.kind for event in recording.events if isinstance(event.body, AskEnded)]
    assert ends == ["cancelled"]


@pytest.mark.parametrize(("given", "error"), [((None, HOST), MisuseError), (("runtime", 3), InvalidAgent)])
def test_objects_of_another_kind_are_refused(given: Any, error: type[Exception]) -> None:
    runtime = Runtime(":memory:") if given[0] == "runtime" else given[0]
    with pytest.raises(error, match=r"as_function\(runtime, host\)"):
        as_function(runtime, given[1])
