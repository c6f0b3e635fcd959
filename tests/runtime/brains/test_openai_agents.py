"""The function that makes brains of the OpenAI Agents SDK: its package, and the objects that it takes."""

from typing import Any

import agents
import pytest
from agents import FunctionTool, function_tool
from agents.sandbox import SandboxAgent

from callboard.actors.protocol.errors import InvalidAgent
from callboard.brains import openai_agent
from callboard.runtime.brains.openai_model import OpenAIAgentsModel
from callboard.runtime.models.scripted import ScriptedModel
from tests.runtime.brains.openai_cases import Verdict, expert


@function_tool
def look() -> str:
    """Look."""
    return ""


def nameless() -> FunctionTool:
    """Return a tool without a name."""

    async def run(context: Any, written: str) -> str:
        return ""

    return FunctionTool("", "", {"type": "object", "properties": {}}, run)


def other() -> FunctionTool:
    """Return another function with the same name."""

    @function_tool(name_override="look")
    def look_too() -> str:
        """Look, too."""
        return ""

    return look_too


def test_names_descriptions_tools_and_models_are_those_of_the_agents() -> None:
    brain = openai_agent(expert(), effects={"add": "read"}, in_program=["save"])
    assert (brain.name, brain.description, list(brain.tools)) == ("The_expert", "Knows.", ["add"])
    assert repr(brain) == "OpenAIBrain('The_expert')"
    assert openai_agent(expert(), "other", description="Is other.").name == "other"
    assert brain.output_type.schema is not None
    second = agents.Agent("second", model="gpt-b", tools=[look])
    first = agents.Agent("first", model="gpt-a", handoffs=[second], output_type=Verdict)
    both = openai_agent(first)
    assert [one.spec.name for one in both.models] == ["openai-agents:gpt-a", "openai-agents:gpt-b"]
    assert (both.default_model, both.output_type.schema) == (
        both.models[0],
        openai_agent(second).output_type.schema,
    )  # the second one may answer
    assert list(both.tools) == ["look"]
    dear = OpenAIAgentsModel("gpt-b", max_tokens=5)
    listed = openai_agent(first, models=[dear]).models
    assert [one.spec.name for one in listed] == ["openai-agents:gpt-b", "openai-agents:gpt-a"]
    assert listed[0] is dear
    overridden = openai_agent(first, model=ScriptedModel([]))
    assert (len(overridden.models), repr(OpenAIAgentsModel("m"))) == (
        0,
        "OpenAIAgentsModel('openai-agents:m')",
    )


@pytest.mark.parametrize(
    ("agent", "more", "why"),
    [
        (object(), {}, "is not an agents.Agent"),
        (expert(), {"nested": [object()]}, "is not an agents.Agent"),
        (expert(), {"effects": {"sub": "read"}}, "effects names 'sub', .* have the tools: add, save"),
        (expert(), {"in_program": ["sub"]}, "in_program names 'sub'"),
        (expert(), {"effects": {"add": "reads"}}, "tool add: effect is"),
        (SandboxAgent("box"), {}, "agent 'box' works in a sandbox of its own"),
        (agents.Agent("a", prompt={"id": "p"}), {}, "has a prompt that its service keeps"),
        (agents.Agent("a", tools=[agents.WebSearchTool()]), {}, "WebSearchTool .* is not a function tool"),
        (agents.Agent("a", tools=[look, look]), {}, "two tools have the name 'look'"),
        (agents.Agent("a", tools=[look, other()]), {}, "two tools have the name 'look'"),
        (
            agents.Agent("a", tools=[look], handoffs=[agents.Agent("b", tools=[other()])]),
            {},
            "two tools have the name 'look', one of them of agent 'b'",
        ),
        (
            agents.Agent("a", tools=[function_tool(lambda: "", name_override="look at it")]),
            {},
            "a tool is named 'look at it', and no model takes this name",
        ),
        (agents.Agent("a", tools=[nameless()]), {}, "a tool is named ''"),
        (
            agents.Agent("a", tools=[function_tool(lambda: "", name_override="final_output")]),
            {},
            "gives outputs by a tool",
        ),
        (
            agents.Agent("a", tools=[function_tool(lambda: "", name_override="l", defer_loading=True)]),
            {},
            "tool 'l' has defer_loading=True",
        ),
        (
            agents.Agent("a", handoffs=[agents.handoff(agents.Agent("b"), tool_name_override="to b")]),
            {},
            "a hand-off is named 'to b'",
        ),
    ],
)
def test_what_cannot_be_recorded_is_refused_by_name(agent: Any, more: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidAgent, match=why):
        openai_agent(agent, **more)


def test_a_server_of_tools_is_refused_with_another_way() -> None:
    from agents.mcp import MCPServerStdio

    server = MCPServerStdio(params={"command": "no-such-command"})
    with pytest.raises(InvalidAgent, match=r"MCP servers, .* an MCP server as `tools=\[...\]` of a host"):
        openai_agent(agents.Agent("a", mcp_servers=[server]))


def test_agents_may_share_a_tool() -> None:
    brain = openai_agent(agents.Agent("a", tools=[look], handoffs=[agents.Agent("b", tools=[look])]))
    assert list(brain.tools) == ["look"]
