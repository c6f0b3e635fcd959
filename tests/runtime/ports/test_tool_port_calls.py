"""Calls of tools whose agent is not the host, whose runtime lacks a part, or that leave an input alone."""

import asyncio
import contextlib
from typing import Any

import msgspec
import pytest

from callboard import Agent, ProgramContext, Runtime, ScriptedModel, ToolContext, call, program, say, tool
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import InputAsked
from callboard.replay.recording import Recording
from callboard.runtime.approvals import ApprovalAnswer
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.tools.input_forms import InputNeeded

LONG = "x" * 5_000


def returned(host: Any, *steps: Any, **options: Any) -> list[ToolReturned]:
    """Return the answers of the tools of an ask. steps: of the host; a kid narrows its tools once."""

    def policy(request: ModelRequest) -> Any:
        if request.address == "host":
            return [*steps, say("done")][request.turn - 1]
        return call("narrow") if request.turn == 1 else say("kid is done")

    log = MemoryLog()

    async def inside() -> None:
        async with (
            Runtime(log, model=ScriptedModel(policy), **options) as runtime,
            asyncio.timeout(20),
            runtime.open(host, session_id="s") as session,
        ):
            await session.ask("go")
            assert session._board.inputs._values == {}
            port: Any = session._board.ports["tools"]
            assert port._writes(99) is False
            port._lost(99, ValueError("of a request that has its answer"))

    asyncio.run(inside())
    events = Recording.open(MemoryReader(log), "s").events
    return [event.body for event in events if isinstance(event.body, ToolReturned)]


def test_a_sub_agent_sets_its_own_tools() -> None:
    @tool(effect="read")
    def narrow(ctx: ToolContext) -> str:
        """Set one of the own tools."""
        ctx.set_tools(["narrow"])
        return "set"

    @tool(effect="read")
    def other() -> str:
        """Do nothing."""
        return ""

    kid = Agent("kid", description="Narrows.", tools=[narrow, other])
    (body,) = returned(Agent("host", agents=[kid]), call("task", agent="kid", prompt="go"))
    assert body.status == "ok"
    assert body.tools is not None
    assert (body.tools.address, [spec.name for spec in body.tools.tools]) == ("host.1", ["narrow"])


def test_a_runtime_without_files_says_so() -> None:
    @tool(effect="read")
    def read(ctx: ToolContext) -> str:
        """Read."""
        return ctx.files.read_text("note")

    (body,) = returned(Agent("host", tools=[read]), call("read"))
    assert body.status == "error"
    assert b"files" in bytes(body.output)
    assert b"NoneType" not in bytes(body.output)


@tool(effect="read")
def much() -> str:
    """Return a long text."""
    return LONG


@pytest.mark.parametrize("is_program", [False, True])
def test_a_long_result_is_cut_for_a_model_and_refused_to_a_program(is_program: bool) -> None:
    @program(tools=[much])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        with contextlib.suppress(Exception):
            await ctx.call(much)
        return "done"

    agent = host if is_program else Agent("host", tools=[much])
    (body,) = returned(agent, call("much"), limits=Limits(max_tool_output_chars=1_000))
    assert (b"xxx" in bytes(body.output)) == (not is_program)
    assert len(bytes(body.output)) < 2_000


def test_a_secret_input_that_its_tool_does_not_read_leaves_memory() -> None:
    schema = {"type": "object", "properties": {"word": {"type": "string", "format": "password"}}}
    forms = Json(msgspec.json.encode({"login": {"message": "Say it.", "schema": schema}}))
    runs: list[int] = []

    @tool(effect="read")
    def enter() -> str:
        """Enter, at the second time."""
        runs.append(1)
        if len(runs) == 1:
            raise InputNeeded("it asks", InputAsked(forms, kept="note"))
        return "entered"

    def answer(_: object) -> ApprovalAnswer:
        return ApprovalAnswer(True, values={"word": "open-sesame"})

    bodies = returned(Agent("host", tools=[enter]), call("enter"), approve=answer)
    assert [body.status for body in bodies] == ["input_required", "ok"]
