"""Toolsets and capabilities of Pydantic AI: those that show functions are led through, others are refused."""

import json
from typing import Any

import pytest
from pydantic_ai import Agent as FrameworkAgent
from pydantic_ai import Tool
from pydantic_ai.capabilities import PrefixTools, Toolset
from pydantic_ai.toolsets import (
    AbstractToolset,
    ApprovalRequiredToolset,
    CombinedToolset,
    ExternalToolset,
    FunctionToolset,
)

from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.port_messages import CallTool
from callboard.actors.protocol.request import ModelRequest
from callboard.brains import pydantic_ai_agent
from callboard.replay.recording import Recording
from callboard.runtime.models.scripted import call, say
from tests.runtime.brains.kit import results, run, turns_in


def look(at: str) -> str:
    """Look."""
    return f"found {at}"


def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


BOTH: FunctionToolset[Any] = FunctionToolset([look, pay])


def policy(request: ModelRequest) -> Any:
    """Pay if that is shown, or else search for it; then say what there is, and the result."""
    names = [json.loads(bytes(one))["name"] for one in request.tools]
    if turns_in(request) == 0 and "pay" not in names:
        return call("search_tools", queries=["pay"]) if "search_tools" in names else call("look", at="home")
    if turns_in(request) < 2 and "paid" not in str(request.messages[-1]) and "pay" in names:
        return call("pay", euros=1)
    return say(f"{sorted(names)} {results(request)[0][0]}")


@pytest.mark.parametrize(
    ("toolset", "text"),
    [
        (BOTH.filtered(lambda ctx, one: one.name == "look"), "['look'] found home"),
        (CombinedToolset([FunctionToolset([look]), FunctionToolset([pay])]), "['look', 'pay'] paid 1"),
        (BOTH.prepared(lambda ctx, found: found[1:]).with_metadata(of="me"), "['pay'] paid 1"),
        (BOTH.include_return_schemas(), "['look', 'pay'] paid 1"),
        (BOTH.defer_loading(["pay"]), "['look', 'pay', 'search_tools'] paid 1"),
    ],
)
@pytest.mark.parametrize("of", ["agent", "capability"])
def test_a_toolset_that_shows_functions_has_its_calls_in_the_session(
    toolset: AbstractToolset[Any], text: str, of: str, tmp_path: Any
) -> None:
    more: Any = {"toolsets": [toolset]} if of == "agent" else {"capabilities": [Toolset(toolset)]}
    brain = pydantic_ai_agent(FrameworkAgent(name="a", **more), effects={"look": "read"})
    assert run(brain, policy, log=tmp_path / "log.db").text == text
    with Recording.open(tmp_path / "log.db", "s") as recording:
        called = [event.body.tool for event in recording.events if isinstance(event.body, CallTool)]
    assert called == ["pay" if "paid" in text else "look"]


def test_the_search_of_the_framework_for_tools_runs_in_the_program() -> None:
    tools: Any = [look, Tool(pay, defer_loading=True)]
    outcome = run(pydantic_ai_agent(FrameworkAgent(name="a", tools=tools)), policy)
    assert (outcome.text, outcome.usage.calls) == ("['look', 'pay', 'search_tools'] paid 1", 3)


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"toolsets": [ApprovalRequiredToolset(BOTH)]}, "ApprovalRequiredToolset"),
        ({"toolsets": [BOTH.renamed({"see": "look"})]}, "RenamedToolset"),
        ({"toolsets": [ExternalToolset([])]}, "ExternalToolset"),
        ({"toolsets": [lambda ctx: BOTH]}, "DynamicToolset"),
        ({"capabilities": [PrefixTools(wrapped=Toolset(BOTH), prefix="p")]}, "PrefixedToolset"),
    ],
)
def test_a_toolset_that_changes_calls_is_refused_by_its_kind(more: Any, kind: str) -> None:
    with pytest.raises(InvalidAgent, match=f"^{kind} of agent 'a' is not a list of functions"):
        pydantic_ai_agent(FrameworkAgent(name="a", **more))
