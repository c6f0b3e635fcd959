"""Tools of a graph in the forms that others make: of MCP servers, and with handlers of their own errors."""

import logging
from typing import Annotated, Any

import pytest
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, ToolException, tool
from langgraph.graph import MessagesState

from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.brains import langgraph_agent
from callboard.replay.recording import Recording
from callboard.runtime.models.scripted import call, say
from tests.runtime.brains.graphs import agent, one_node
from tests.runtime.brains.kit import results, run, turns_in


def of_server() -> BaseTool:
    """Make a tool as langchain-mcp-adapters 0.3 makes one of a tool of an MCP server."""

    async def call_tool(runtime: Annotated[object | None, InjectedToolArg()] = None, **given: Any) -> Any:
        if given["city"] == "Nowhere":
            raise ToolException("no such city")
        return [{"type": "text", "text": f"sunny in {given}, {runtime}", "id": "lc_1"}], {"kept": given}

    return StructuredTool(
        name="weather",
        description="Tells the weather.",
        args_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        coroutine=call_tool,
        response_format="content_and_artifact",
        handle_tool_error=lambda error: [{"type": "text", "text": f"failed: {error}"}],
    )


@pytest.mark.parametrize(
    ("city", "told", "status"),
    [("Rome", "sunny in {'city': 'Rome'}, None", "ok"), ("Nowhere", "failed: no such city", "error")],
)
def test_a_tool_of_an_mcp_server_is_called_by_the_session_and_keeps_its_words(
    city: str, told: str, status: str, tmp_path: Any
) -> None:
    def answers(request: ModelRequest) -> Any:
        return say(str(results(request))) if turns_in(request) else call("weather", city=city)

    outcome = run(langgraph_agent(agent(of_server())), answers, log=tmp_path / "log.db")
    assert told in outcome.text.replace('"', "'")
    with Recording.open(tmp_path / "log.db", "s") as recording:
        bodies = [event.body for event in recording.events]
    assert [one.status for one in bodies if isinstance(one, ToolReturned)] == [status]


@pytest.mark.parametrize(
    ("handler", "told"),
    [(True, "closed"), ("Sorry.", "Sorry."), (lambda error: f"mine: {error}", "mine: closed")],
)
def test_an_error_that_a_tool_handles_is_told_in_its_words_and_not_tried_again(
    handler: Any, told: str
) -> None:
    ran: list[str] = []

    @tool
    def save(key: str) -> str:
        """Save."""
        ran.append(key)
        raise ToolException("closed")

    save.handle_tool_error = handler

    def answers(request: ModelRequest) -> Any:
        return say(str(results(request))) if turns_in(request) else call("save", key="k")

    async def node(state: MessagesState) -> Any:
        return {"messages": [AIMessage(await save.ainvoke({"key": "k"}))]}

    retries: Any = ToolRetryMiddleware(max_retries=2, initial_delay=0.01)
    graph = agent(save, middleware=[retries])
    assert run(langgraph_agent(graph), answers).text == str([(told, True)])
    assert run(langgraph_agent(one_node(node))).text == told
    assert ran == ["k", "k"]


def test_an_error_of_another_kind_is_not_one_that_a_tool_handles() -> None:
    @tool
    def save(key: str) -> str:
        """Save."""
        raise ConnectionError("closed")

    save.handle_tool_error = "Sorry."

    def answers(request: ModelRequest) -> Any:
        return say(str(results(request))) if turns_in(request) else call("save", key="k")

    assert run(langgraph_agent(agent(save)), answers).text == str([("ConnectionError: closed", True)])


class Ring(logging.Handler):
    """A handler that belongs to another part of the process, and knows a tool of it."""

    def __init__(self, held: BaseTool) -> None:
        super().__init__()
        self.held = held


logger = logging.getLogger("tests.a_node")


def test_what_the_objects_of_python_lead_to_belongs_to_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logger, "handlers", [Ring(of_server())])

    def node(state: MessagesState) -> dict[str, Any]:
        logger.debug("asked")
        return {"messages": [AIMessage("done")]}

    assert langgraph_agent(one_node(node)).tools == {}
