"""The middleware of LangChain that asks, calls or refuses: led through, or refused in words of ours."""

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    FilesystemFileSearchMiddleware,
    LLMToolSelectorMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRefusalMiddleware,
    PIIMiddleware,
    ProviderToolSearchMiddleware,
    ToolCallLimitMiddleware,
)
from langchain.agents.middleware.tool_emulator import LLMToolEmulator
from langchain_core.tools import tool

from callboard.actors.protocol.request import ModelRequest
from callboard.brains import SessionChatModel, langgraph_agent
from callboard.runtime.models.scripted import call, calls, say
from tests.runtime.brains.graphs import OwnChat, agent
from tests.runtime.brains.kit import results, run, turns_in

CHAT = SessionChatModel()
MAIL = "ann@example.org"


@tool
def look(at: str) -> str:
    """Look."""
    return f"{at} of {MAIL}"


@tool
def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


def policy(request: ModelRequest) -> Any:
    """Answer with two calls, then with their results; choose a tool, and stand in for one."""
    if "emulating a tool call" in str(request.messages[-1]):
        return say("as if paid")
    if b"ToolSelection" in b"".join(map(bytes, request.tools)):
        return call("ToolSelectionResponse", tools=["look"])
    if turns_in(request):
        return say(" / ".join(text for text, _ in results(request)))
    return calls(call("look", at="home"), *([call("pay", euros=1)] if len(request.tools) > 1 else ()))


@pytest.mark.parametrize(
    ("middleware", "text", "questions"),
    [
        (ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1, keep=1)]), "[cleared] / paid 1", 2),
        (LLMToolSelectorMiddleware(model=CHAT, max_tools=1), f"home of {MAIL}", 4),
        (ModelCallLimitMiddleware(run_limit=1), "Model call limits exceeded: run limit (1/1)", 1),
        (ModelRefusalMiddleware(), f"home of {MAIL} / paid 1", 2),
        (PIIMiddleware("email", apply_to_tool_results=True), "home of [REDACTED_EMAIL] / paid 1", 2),
        (ToolCallLimitMiddleware(run_limit=1, tool_name="pay"), f"home of {MAIL} / paid 1", 2),
        (LLMToolEmulator(tools=["pay"], model=CHAT), f"home of {MAIL} / as if paid", 3),
    ],
    ids=lambda one: type(one).__name__,
)
def test_middleware_asks_and_changes_through_the_session(middleware: Any, text: str, questions: int) -> None:
    outcome = run(langgraph_agent(agent(look, pay, middleware=[middleware])), policy)
    assert (outcome.text, outcome.usage.calls) == (text, questions)


def test_a_fallback_asks_its_model_after_one_that_fails() -> None:
    second = OwnChat(model_name="second", says="second")
    brain = langgraph_agent(agent(middleware=[ModelFallbackMiddleware(second)]))

    def fails(request: ModelRequest) -> Any:
        raise ConnectionError("down")

    assert run(brain, fails).text == "second 1"


def test_a_search_of_files_is_a_call_of_the_session(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("here")
    middleware = FilesystemFileSearchMiddleware(root_path=str(tmp_path), use_ripgrep=False)
    brain = langgraph_agent(agent(middleware=[middleware]), effects={"glob_search": "read"})
    assert {*brain.tools} == {"glob_search", "grep_search"}

    def answers(request: ModelRequest) -> Any:
        return say(str(results(request))) if turns_in(request) else call("glob_search", pattern="*.txt")

    assert "/note.txt" in run(brain, answers).text


def test_a_search_for_tools_that_the_service_makes_is_refused() -> None:
    class Hosted(OwnChat):
        """A model of a service with such a search."""

        def _get_ls_params(self, *args: Any, **given: Any) -> Any:
            return {"ls_provider": "anthropic"}

    middleware = ProviderToolSearchMiddleware(searchable_tools=["look"])
    graph = create_agent(Hosted(), [look, pay], middleware=[middleware], name="agent")
    outcome = run(langgraph_agent(graph))
    assert outcome.kind == "crashed"
    assert "the service itself would run the tool 'tool_search_tool_bm25" in outcome.detail
