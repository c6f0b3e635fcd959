"""Bad input: a row for each kind and framework. Each is refused with words of ours, or ends the run.

A pair of a type and words is refused where the brain is made; words alone end its run as `crashed`.
"""

import importlib.metadata
from collections.abc import Callable
from typing import Any, Final

import agents
import pytest
from agents import function_tool
from langchain.agents import create_agent
from langchain_core.tools import StructuredTool
from langgraph.graph import MessagesState
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import Tool as PydanticTool
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.toolsets import FunctionToolset

from callboard.actors.protocol.errors import InvalidAgent
from callboard.brains import (
    SessionChatModel,
    UntestedFramework,
    claude_agent,
    langgraph_agent,
    openai_agent,
    pydantic_ai_agent,
)
from callboard.runtime.models.scripted import call
from tests.runtime.brains.graphs import OwnChat, one_node
from tests.runtime.brains.graphs import agent as graph_of
from tests.runtime.brains.kit import FRAMEWORKS, NO_CLIENT, PARAMS, run
from tests.runtime.brains.test_langgraph_escapes import Saver

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

Make = Callable[[], Any]


def look() -> str:
    """Look."""
    return ""


def again() -> str:
    """Look again."""
    return ""


def keep(text: str) -> str:
    """Keep."""
    return text


# --- the objects ----------------------------------------------------------------------


def pydantic(*tools: Any, **more: Any) -> Any:
    return pydantic_ai_agent(PydanticAgent(name="a", tools=tools, **more))


def langgraph(function: Any, name: str) -> Any:
    return langgraph_agent(graph_of(StructuredTool.from_function(function, name=name)))


def langgraph_nameless() -> Any:
    tool = StructuredTool.from_function(look)
    tool.name = ""
    return langgraph_agent(graph_of(tool))


def langgraph_twins() -> Any:
    one, other = (StructuredTool.from_function(each, name="look") for each in (look, again))
    middle = [graph_of(each) for each in (one, other)]

    async def node(state: MessagesState) -> Any:
        return [await each.ainvoke(state) for each in middle]

    return langgraph_agent(one_node(node))


def openai(*tools: Any, **more: Any) -> Any:
    return openai_agent(agents.Agent("a", tools=list(tools), **more))


def named(function: Any, name: str) -> Any:
    return function_tool(function, name_override=name)


def nameless() -> Any:
    tool = function_tool(look)
    tool.name = ""
    return tool


def claude(*names: str, **more: Any) -> Any:
    from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, tool

    async def nothing(given: dict[str, Any]) -> dict[str, Any]:
        return {}

    servers: Any = {
        f"s{place}": create_sdk_mcp_server(f"s{place}", tools=[tool(name, "Look.", {})(nothing)])
        for place, name in enumerate(names)
    }
    return claude_agent(ClaudeAgentOptions(mcp_servers=servers, **more), "a")


# --- runs inside a run ----------------------------------------------------------------


def pydantic_nested() -> Any:
    model = OpenAIChatModel("gpt", provider=OpenAIProvider(base_url="http://127.0.0.1:9", api_key="k"))
    inner = PydanticAgent(model, name="inner")

    async def ask() -> str:
        """Ask."""
        return (await inner.run("x")).output

    return pydantic_ai_agent(PydanticAgent(name="a", tools=[ask]), in_program=["ask"])


def openai_nested() -> Any:
    inner = agents.Agent("inner", model="gpt")

    @function_tool
    async def ask() -> str:
        """Ask."""
        return str((await agents.Runner.run(inner, "x")).final_output)

    return openai_agent(agents.Agent("a", tools=[ask]), in_program=["ask"])


def langgraph_nested() -> Any:
    async def ask() -> str:
        """Ask."""
        inner: Any = create_agent(OwnChat(), [], name="inner")
        return str((await inner.ainvoke({"messages": [("user", "x")]}))["messages"][-1].text)

    tool = StructuredTool.from_function(coroutine=ask, name="ask")
    return langgraph_agent(graph_of(tool), in_program=["ask"])


def pydantic_kept() -> Any:
    inner: Any = PydanticAgent(name="inner")

    async def ask() -> str:
        """Ask."""
        return str((await inner.run("x", conversation=object())).output)

    return pydantic_ai_agent(PydanticAgent(name="a", tools=[ask]), in_program=["ask"])


def openai_kept() -> Any:
    inner = agents.Agent("inner")

    @function_tool
    async def ask() -> str:
        """Ask."""
        session = agents.SQLiteSession("kept")
        try:
            return str((await agents.Runner.run(inner, "x", session=session)).final_output)
        finally:
            session.close()

    return openai_agent(agents.Agent("a", tools=[ask]), in_program=["ask"])


def hosted_graph() -> Any:
    return langgraph_agent(create_agent(SessionChatModel(), [{"type": "web_search_2026"}], name="a"))


WRONG: Final[Any] = object()

REFUSED: Final[dict[str, dict[str, tuple[Make, str]]]] = {
    "an object of the wrong kind": {
        "pydantic-ai": (lambda: pydantic_ai_agent(WRONG), "is not a pydantic_ai.Agent"),
        "langgraph": (lambda: langgraph_agent(WRONG), "is not a compiled graph of LangGraph"),
        "openai": (lambda: openai_agent(WRONG), "is not an agents.Agent"),
        "claude": (lambda: claude_agent(WRONG, "a"), "is not a claude_agent_sdk.ClaudeAgentOptions"),
    },
    "a tool without a name": {
        "pydantic-ai": (lambda: pydantic(lambda: ""), "'<lambda>'"),
        "langgraph": (langgraph_nameless, "a tool cannot be named ''"),
        "openai": (lambda: openai(nameless()), "a tool is named ''"),
        "claude": (lambda: claude(""), "a tool cannot be named ''"),
    },
    "a tool with a name that no model takes": {
        "pydantic-ai": (lambda: pydantic(PydanticTool(look, name="look at it")), "'look at it'"),
        "langgraph": (lambda: langgraph(look, name="look at it"), "'look at it'"),
        "openai": (lambda: openai(named(look, "look at it")), "'look at it'"),
        "claude": (lambda: claude("look at it"), "'look at it'"),
    },
    "two tools of one name": {
        "pydantic-ai": (lambda: pydantic(look, toolsets=[FunctionToolset([look])]), "two tools .* 'look'"),
        "langgraph": (langgraph_twins, "two tools .* 'look'"),
        "openai": (lambda: openai(named(look, "look"), named(again, "look")), "two tools .* 'look'"),
        "claude": (lambda: claude("look", "look"), "two tools .* 'look'"),
    },
    "a tool that a service runs": {
        "pydantic-ai": (lambda: pydantic(capabilities=[NativeTool(WebSearchTool())]), "'web_search'"),
        "openai": (lambda: openai(agents.WebSearchTool()), "WebSearchTool"),
        "claude": (lambda: claude(tools=["WebSearch"]), r"ClaudeAgentOptions\(tools=\.\.\.\)"),
    },
    "messages that are kept elsewhere": {
        "langgraph": (
            lambda: langgraph_agent(one_node(keep, checkpointer=Saver())),
            "Saver of the graph has I/O of its own",
        ),
        "claude": (lambda: claude(resume="s"), r"ClaudeAgentOptions\(resume=\.\.\.\)"),
    },
    "a run inside the run that the session does not know": {
        "claude": (lambda: claude(agents={"inner": WRONG}), r"ClaudeAgentOptions\(agents=\.\.\.\)"),
    },
}

ENDED: Final[dict[str, dict[str, tuple[Make, str]]]] = {
    "a tool that a service runs": {  # an agent's middleware may still take it out of the request
        "langgraph": (hosted_graph, "the service itself would run the tool 'web_search_2026'"),
    },
    "messages that are kept elsewhere": {  # it is said where the run begins
        "pydantic-ai": (pydantic_kept, "has no conversation of its own"),
        "openai": (openai_kept, "has no session, whose messages are those of the session"),
    },
    "a run inside the run that the session does not know": {
        "pydantic-ai": (pydantic_nested, "agent 'inner' asks OpenAIChatModel"),
        "langgraph": (langgraph_nested, "OwnChat is made while the graph runs"),
        "openai": (openai_nested, "asks 'gpt', which its brain does not know"),
    },
}


def rows(table: dict[str, dict[str, tuple[Make, str]]]) -> list[Any]:
    return [
        pytest.param(make, why, id=f"{name}: {kind}", marks=NO_CLIENT if name == "claude" else ())
        for kind, each in table.items()
        for name, (make, why) in each.items()
    ]


def test_every_framework_has_a_row_for_every_kind() -> None:
    for kind in REFUSED:
        assert {*REFUSED[kind], *ENDED.get(kind, {})} == {*FRAMEWORKS}, kind
    assert {*ENDED} <= {*REFUSED}


@pytest.mark.parametrize(("make", "why"), rows(REFUSED))
def test_bad_input_is_refused_where_the_brain_is_made(make: Make, why: str) -> None:
    with pytest.raises(InvalidAgent, match=why):
        make()


@pytest.mark.parametrize(("make", "why"), rows(ENDED))
def test_bad_input_that_only_a_run_shows_ends_it(make: Make, why: str) -> None:
    outcome = run(make(), lambda request: call("ask"))
    assert outcome.kind == "crashed"
    assert why in outcome.detail


@pytest.mark.parametrize("name", PARAMS)
def test_a_version_that_was_not_tested_warns_and_names_both(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda distribution: "99.1.0")
    with pytest.warns(UntestedFramework, match=r" 99\.1\.0 is installed, and brains were tested with \d"):
        FRAMEWORKS[name].brain()
