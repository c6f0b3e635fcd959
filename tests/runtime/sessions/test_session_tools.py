"""Tools that change in live sessions: by the client, by a tool, over resumes, and as Claude is told."""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from callboard import (
    Agent,
    AnthropicModel,
    Runtime,
    ScriptedModel,
    Session,
    ToolContext,
    call,
    calls,
    say,
    tool,
)
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.request import ModelRequest
from callboard.errors import InvalidAgent, MisuseError, UnknownName
from callboard.replay import Recording
from callboard.runtime.models.anthropic.model import INLINE_TOOLS
from callboard.runtime.models.anthropic.request import body_of
from callboard.runtime.models.scripted import Call, Reply


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


@tool(effect="read")
async def search(words: str) -> str:
    """Search for words."""
    return f"found {words}"


@tool(effect="read")
async def discover(ctx: ToolContext) -> str:
    """Find more tools."""
    ctx.set_tools([look, "search"])
    return "there is search"


@tool(effect="read")
async def fails(ctx: ToolContext) -> str:
    """Set tools, then fail."""
    ctx.set_tools([])
    raise ValueError("no")


def names(request: ModelRequest) -> list[str]:
    return [json.loads(bytes(one))["name"] for one in request.tools]


class Asked:
    """A policy that keeps the requests, and answers each turn with the next line."""

    def __init__(self, *lines: Reply | Call) -> None:
        self.lines = lines
        self.requests: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> Reply | Call:
        self.requests.append(request)
        return self.lines[len(self.requests) - 1] if len(self.requests) <= len(self.lines) else say("done")


def hold(
    path: Path, host: Agent, asked: Asked, act: Callable[[Session], Awaitable[object]]
) -> list[TurnRequested]:
    """Let something happen in a session, and return its requests for turns, after a check of the log."""

    async def inside() -> None:
        async with Runtime(path, model=ScriptedModel(asked)) as runtime, runtime.open(host) as session:
            await act(session)

    asyncio.run(asyncio.wait_for(inside(), 20))
    with Recording.open(path) as recording:
        assert recording.verify().is_ok
        return [event.body for event in recording.events if isinstance(event.body, TurnRequested)]


def test_a_tool_gives_its_agent_other_tools_from_the_next_request_on(tmp_path: Path) -> None:
    host = Agent("host", tools=[discover], later_tools=[search])
    asked = Asked(call("discover"), call("search", words="x"))
    turns = hold(tmp_path / "log.db", host, asked, lambda session: session.ask("go"))
    assert [names(one) for one in asked.requests] == [["discover"], ["look", "search"], ["look", "search"]]
    assert "found x" in str(asked.requests[2].conversation[-1])
    assert [one.breaks_cache for one in turns] == [False, True, False]


def test_a_tool_that_fails_changes_no_tools(tmp_path: Path) -> None:
    asked = Asked(call("fails"))
    hold(tmp_path / "log.db", Agent("host", tools=[fails]), asked, lambda session: session.ask("go"))
    assert [names(one) for one in asked.requests] == [["fails"], ["fails"]]


def test_the_client_sets_tools_for_later_asks_and_by_tool_or_by_name(tmp_path: Path) -> None:
    async def act(session: Session) -> None:
        await session.ask("one")
        await session.set_tools([search, "look"], address="host")
        await session.ask("two")
        await session.set_tools([], agent="host")
        await session.ask("three")

    asked = Asked(say("first"), call("search", words="y"), say("second"))
    turns = hold(tmp_path / "log.db", Agent("host", tools=[look]), asked, act)
    assert [names(one) for one in asked.requests] == [["look"], ["search", "look"], ["search", "look"], []]
    assert "found y" in str(asked.requests[2].conversation[-1])
    assert [one.breaks_cache for one in turns] == [False, True, False, True]


def test_a_change_of_a_profile_reaches_living_agents_and_later_ones(tmp_path: Path) -> None:
    kid = Agent("kid", tools=[look], later_tools=[search])

    @tool
    async def widen(ctx: ToolContext) -> str:
        """Give all kids a search."""
        ctx.set_tools(["look", "search"], agent="kid")
        return "wider"

    host = Agent("host", tools=[widen], agents=[kid])
    asked = Asked(call("widen"), call("task", agent="kid", prompt="go"), call("search", words="z"))
    hold(tmp_path / "log.db", host, asked, lambda session: session.ask("go"))
    assert names(asked.requests[2]) == ["look", "search"]
    assert "found z" in str(asked.requests[3].conversation[-1])


def test_a_resumed_session_keeps_the_change_and_finds_the_function_among_its_agents(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    asked = Asked(say("first"), call("search", words="x"), say("second"), call("look"))

    async def inside() -> None:
        async with Runtime(path, model=ScriptedModel(asked)) as runtime:
            session = await runtime.open(Agent("host", tools=[look], later_tools=[search]), session_id="one")
            await session.ask("one")
            await session.set_tools(["search"], agent="host")
        async with Runtime(path, model=ScriptedModel(asked)) as runtime:
            session = await runtime.resume("one", Agent("host", tools=[look], later_tools=[search]))
            await session.ask("two")
        async with Runtime(path, model=ScriptedModel(asked)) as runtime:
            session = await runtime.resume("one", Agent("host", tools=[look]))
            await session.ask("three")

    asyncio.run(asyncio.wait_for(inside(), 20))
    assert names(asked.requests[-1]) == ["search"]
    assert "found x" in str(asked.requests[2].conversation[-1])
    assert "no tool named 'look'" in str(asked.requests[-1].conversation[-1])
    with Recording.open(path) as recording:
        assert recording.verify().is_ok


def test_what_cannot_be_set_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def act(session: Session) -> None:
        with pytest.raises(UnknownName, match="no agent 'kid'; there are: host"):
            await session.set_tools([look], agent="kid")
        with pytest.raises(UnknownName, match=r"no agent runs at 'host\.7'"):
            await session.set_tools([look], address="host.7")
        with pytest.raises(UnknownName, match="no tool 'search'; there are: look"):
            await session.set_tools(["search"], agent="host")
        with pytest.raises(MisuseError, match="two tools named 'look'"):
            await session.set_tools([look, "look"], agent="host")
        with pytest.raises(MisuseError, match="either address= of one agent, or agent="):
            await session.set_tools([look])
        with pytest.raises(MisuseError, match="is not a tool"):
            await session.set_tools([7], agent="host")  # type: ignore[list-item]  # a wrong value, on purpose
        await session.ask("go")

    asked = Asked()
    hold(tmp_path / "log.db", Agent("host", tools=[look]), asked, act)
    assert names(asked.requests[0]) == ["look"]
    with pytest.raises(InvalidAgent, match="is in tools and in later_tools"):
        Agent("host", tools=[look], later_tools=[look])
    with pytest.raises(MisuseError, match="belongs to no session"):
        ToolContext().set_tools([look])


def test_claude_is_told_of_changes_in_messages_and_what_was_sent_stays_a_prefix(tmp_path: Path) -> None:
    """The blocks have the shape of the SDK's `BetaRequestToolAdditionBlockParam` and its neighbours."""
    spec = AnthropicModel("claude-opus-5", api_key="k" * 20, betas=[INLINE_TOOLS]).spec
    assert spec.inline_tools
    assert not AnthropicModel("claude-opus-5", api_key="k" * 20).spec.inline_tools
    asked = Asked(calls(call("look"), call("discover")), call("search", words="x"))
    model = ScriptedModel(asked)
    model.spec = spec
    path = tmp_path / "log.db"
    host = Agent("host", tools=[look, discover], later_tools=[search], model=model)
    turns = hold(path, host, asked, lambda session: session.ask("go"))
    assert not any(one.breaks_cache for one in turns)
    bodies = [
        json.loads(body_of(one.plain, one.plain.messages, stream=False, cache=False, force_tools=None))
        for one in asked.requests
    ]
    for before, after in itertools.pairwise(bodies):
        assert after["tools"] == before["tools"]
        assert after["messages"][: len(before["messages"])] == before["messages"]
    assert [one["role"] for one in bodies[1]["messages"]] == ["user", "assistant", "user", "system"]
    definition = {
        "name": "search",
        "description": "Search for words.",
        "input_schema": json.loads(bytes(search.input_schema)),
    }
    assert bodies[1]["messages"][3]["content"] == [
        {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "discover"}},
        {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}},
    ]
    assert "found x" in str(bodies[2]["messages"][-1])


def test_the_blocks_are_those_that_the_sdk_describes() -> None:
    beta = pytest.importorskip("anthropic.types.beta")
    from typing import get_args, get_type_hints

    from anthropic.types import anthropic_beta_param

    addition = get_type_hints(beta.BetaRequestToolAdditionBlockParam, include_extras=False)
    removal = get_type_hints(beta.BetaRequestToolRemovalBlockParam, include_extras=False)
    assert get_args(addition["type"]) == ("tool_addition",)
    assert get_args(removal["type"]) == ("tool_removal",)
    definition = get_type_hints(beta.BetaToolChangeToolDefinitionParam, include_extras=False)
    assert get_args(definition["type"]) == ("tool_definition",)
    assert "definition" in definition
    reference = get_type_hints(beta.BetaToolChangeToolReferenceParam, include_extras=False)
    assert get_args(reference["type"]) == ("tool_reference",)
    assert "name" in reference
    assert INLINE_TOOLS in str(anthropic_beta_param.AnthropicBetaParam)
