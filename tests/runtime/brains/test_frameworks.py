"""The functions that make brains: the packages that they need, and the objects that they take."""

import importlib
import importlib.metadata
from collections.abc import Callable
from typing import Any, cast

import pytest
from pydantic_ai import Agent as FrameworkAgent
from pydantic_ai.capabilities import LocalWorkspace, ModelFallback, SelectModel

from callboard import brains
from callboard.actors.protocol.errors import InvalidAgent, MissingExtra
from callboard.brains import UntestedFramework, claude_agent, langgraph_agent, openai_agent, pydantic_ai_agent
from tests.runtime.brains import graphs, openai_cases
from tests.runtime.brains.agents import expert


def pydantic_one() -> Any:
    return pydantic_ai_agent(expert())


def langgraph_one() -> Any:
    return langgraph_agent(graphs.expert())


def openai_one() -> Any:
    return openai_agent(openai_cases.expert())


def claude_one() -> Any:
    return claude_agent(cast(Any, None), "expert")


@pytest.mark.parametrize(
    ("make", "extra"),
    [
        (pydantic_one, "pydantic-ai"),
        (langgraph_one, "langgraph"),
        (openai_one, "openai-agents"),
        (claude_one, "claude"),
    ],
)
def test_a_framework_that_is_not_installed_names_its_extra(
    make: Callable[[], Any], extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str, *rest: Any) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtra, match=rf"pip install 'callboard\[{extra}\]'"):
        make()


@pytest.mark.parametrize("name", ["SessionChatModel", "PydanticAIModel"])
def test_a_class_of_a_framework_that_is_not_installed_names_its_extra(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name="framework")

    monkeypatch.setattr(brains, "_load", missing)
    with pytest.raises(MissingExtra, match=rf"{name} needs framework: pip install 'callboard\["):
        brains.__getattr__(name)
    with pytest.raises(ModuleNotFoundError):
        brains.__getattr__("as_function")


@pytest.mark.parametrize(
    ("make", "version", "why"),
    [
        (pydantic_one, "2.67.9", "pydantic-ai-slim 2.67.9 is installed, .* 2.68 up to 2.69"),
        (pydantic_one, "2.69.0", "pydantic-ai-slim 2.69.0"),
        (pydantic_one, "3.0.0", "pydantic-ai-slim 3.0.0"),
        (pydantic_one, "1.9", "pydantic-ai-slim 1.9"),
        (langgraph_one, "1.2.1", "langchain 1.2.1 is installed, .* 1.5 up to 1.6"),
        (langgraph_one, "1.5.0", "langgraph 1.5.0 is installed, .* 1.2 up to 1.3"),
        (openai_one, "0.23.9", "openai-agents 0.23.9 is installed, .* 0.24 up to 0.25"),
        (openai_one, "0.25.0", "openai-agents 0.25.0"),
        (openai_one, "1.0.0", "openai-agents 1.0.0"),
    ],
)
def test_another_version_warns_and_names_both(
    make: Callable[[], Any], version: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    with pytest.warns(UntestedFramework, match=why):
        make()


def test_a_version_without_a_part_that_brains_need_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    def without() -> None:
        raise AttributeError("BaseTool has no attribute 'run'")

    monkeypatch.setattr("callboard.runtime.brains.langgraph_doors.open_doors", without)
    with pytest.raises(MissingExtra, match=r"has no attribute 'run'.*callboard\[langgraph\]"):
        langgraph_one()


def test_the_installed_version_was_tested() -> None:
    assert pydantic_ai_agent(expert()).name == "expert"
    assert langgraph_agent(graphs.expert()).name == "expert"


def test_names_descriptions_and_tools_are_those_of_the_agent() -> None:
    brain = pydantic_ai_agent(expert(), effects={"add": "read"}, in_program=["save"])
    assert (brain.name, brain.description, list(brain.tools)) == ("expert", "Knows.", ["add"])
    assert repr(brain) == "PydanticAIBrain('expert')"
    assert pydantic_ai_agent(expert(), "other", description="Is other.").name == "other"
    profile = brain.profile()
    assert (profile.turns, [(one.name, one.effect) for one in profile.tools]) == ("any", [("add", "read")])


@pytest.mark.parametrize(
    ("agent", "more", "why"),
    [
        (object(), {}, "is not a pydantic_ai.Agent"),
        (
            expert(),
            {"effects": {"sub": "read"}},
            "effects names 'sub', .* have the tools: add, save",
        ),
        (expert(), {"in_program": ["sub"]}, "in_program names 'sub'"),
        (expert(), {"effects": {"add": "reads"}}, "tool add: effect is"),
        (FrameworkAgent(), {}, "name"),
        (
            FrameworkAgent(name="a", capabilities=[LocalWorkspace(".")]),
            {},
            "agent 'a': LocalWorkspace keeps files",
        ),
        (
            FrameworkAgent(name="a", capabilities=[SelectModel(lambda ctx: "test")]),
            {},
            "agent 'a': SelectModel selects a model",
        ),
        (
            FrameworkAgent(name="a", capabilities=[ModelFallback("test")]),
            {},
            "agent 'a': ModelFallback selects a model",
        ),
    ],
)
def test_an_object_of_the_wrong_kind_is_refused(agent: Any, more: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidAgent, match=why):
        pydantic_ai_agent(agent, **more)


def test_a_tool_with_a_name_that_no_model_may_have_and_two_of_one_name_are_refused() -> None:
    from pydantic_ai.tools import Tool
    from pydantic_ai.toolsets import FunctionToolset

    def look() -> str:
        """Look."""
        return ""

    odd: FrameworkAgent[None, str] = FrameworkAgent(name="odd", tools=[Tool(look, name="look at it")])
    with pytest.raises(InvalidAgent, match="look at it"):
        pydantic_ai_agent(odd)
    two: FrameworkAgent[None, str] = FrameworkAgent(
        name="two", tools=[look], toolsets=[FunctionToolset([look])]
    )
    with pytest.raises(InvalidAgent, match="two tools have the name 'look', one of them of agent 'two'"):
        pydantic_ai_agent(two)
