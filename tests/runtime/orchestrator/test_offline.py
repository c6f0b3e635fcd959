"""The model that decides as an orchestrator: agents of another host do what its rules and policies do."""

import asyncio
from typing import Any

import msgspec
import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.limits import Limits
from callboard.orchestrator import Orchestrator, PolicyRun, Specialist, SpecialistResult, offline_model
from callboard.runtime.agent import Agent
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool


@tool(effect="read")
def page_of(word: str) -> dict[str, Any]:
    """Return the page of a word."""
    if word == "nothing":
        raise KeyError(word)
    return {"page": len(word)}


@tool(effect="read")
def title_of(page: int) -> str:
    """Return the title of a page."""
    return f"Title {page}"


async def find(ctx: Any, context: Any) -> SpecialistResult:
    """Find the title of the page of a word."""
    run = PolicyRun(ctx, context)
    if (found := await run.call("page_of", word=context.query)) is None:
        return run.refuse("no such word")
    title = await run.call("title_of", page=found["page"])
    return run.answer(title, [f"p.{found['page']}"], 0.9)


FINDER = Specialist("finder", tools=(page_of, title_of), instructions="Find titles.", policy=find)
RULES = Orchestrator([FINDER])


def said(agent: Agent, prompt: str) -> Any:
    outcome = Runtime(":memory:", model=offline_model(RULES)).run_sync(agent, prompt)
    assert outcome.is_ok, outcome
    return msgspec.json.decode(outcome.text)


@pytest.mark.parametrize("word", ["lamp", "nothing"])
def test_an_agent_with_the_instructions_of_a_specialist_reports_as_its_policy(word: str) -> None:
    other = Agent("other", instructions=f"Be kind. {FINDER.instructions}", tools=[page_of, title_of])
    own = Runtime(":memory:").run_sync(RULES, word)
    report = said(other, word)
    result = RULES.result(own)
    assert (report["success"], report["sources"]) == (result.success, [*result.sources])
    assert [one["tool"] for one in report["tool_calls"]] == [one.tool for one in result.tool_calls]


def test_any_other_agent_asks_the_specialists_of_the_route() -> None:
    asked: list[str] = []

    @tool(effect="read")
    def ask_finder(query: str) -> dict[str, Any]:
        """Ask the finder."""
        asked.append(query)
        return {"success": True, "content": "Title 4", "confidence": 0.9}

    assert said(Agent("lead", instructions="Ask.", tools=[ask_finder]), "lamp") == {}
    assert asked == ["lamp"]


def test_tools_may_have_the_names_of_a_server_and_a_report_is_a_call() -> None:
    reports: list[Any] = []

    @tool(effect="read", name="mcp__s__page_of")
    def page(word: str) -> dict[str, Any]:
        """Return the page of a word."""
        return {"page": 7}

    @tool(effect="read", name="mcp__s__title_of")
    def title(page: int) -> str:
        """Return the title of a page."""
        return "Seven"

    @tool(effect="read")
    def report(
        success: bool,
        content: str,
        sources: list[str],
        tool_calls: list[dict[str, Any]],
        data: dict[str, Any],
        error: str,
        confidence: float,
    ) -> str:
        """Report."""
        reports.append((content, sources))
        raise KeyError("once is enough")

    agent = Agent("other", instructions=FINDER.instructions, tools=[report, page, title])
    Runtime(":memory:", model=offline_model(RULES)).run_sync(agent, "lamp", limits=Limits(max_iterations=3))
    assert reports == [("Seven", ["p.7"])]


def test_a_specialist_without_a_policy_cannot_decide() -> None:
    with pytest.raises(MisuseError, match="specialist 'x' has no policy to decide by: give it `policy=`"):
        offline_model(Orchestrator([Specialist("x")]))


def test_a_policy_that_waits_for_something_else_is_refused() -> None:
    async def waits(ctx: Any, context: Any) -> SpecialistResult:
        await asyncio.sleep(0)
        return SpecialistResult(success=False)

    rules = Orchestrator([Specialist("x", instructions="Wait.", policy=waits)])
    outcome = Runtime(":memory:", model=offline_model(rules)).run_sync(Agent("a", instructions="Wait."), "?")
    assert (outcome.kind, "waits for more than its calls" in outcome.detail) == ("model_error", True)
