"""The doors of a tool node, whose failures the framework handles first, and the clock of its timeouts."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents.middleware import ToolErrorMiddleware, ToolRetryMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, tool
from langgraph.errors import NodeError
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import TimeoutPolicy

from callboard.actors.protocol.port_messages import ToolReturned, ToolStarted
from callboard.actors.protocol.request import ModelRequest
from callboard.brains import SessionChatModel, langgraph_agent
from callboard.replay.testing.sessions.resumes import go_on
from callboard.runtime.approvals import ApprovalAnswer
from callboard.runtime.models.scripted import call, say
from callboard.testing import simulate
from tests.runtime.brains.graphs import Graph, agent
from tests.runtime.brains.kit import results, run, turns_in

CHAT = SessionChatModel()
RETRIES: Any = ToolRetryMiddleware(max_retries=3, initial_delay=0.01)


def flaky(fails: int, ran: list[int]) -> BaseTool:
    """Make a tool that fails so many times."""

    @tool
    def save(key: str) -> str:
        """Save."""
        ran.append(len(ran))
        if len(ran) <= fails:
            raise ConnectionError("no line")
        return f"saved {key}"

    return save


def once(request: ModelRequest) -> Any:
    """Save, and then say the result."""
    if not turns_in(request):
        return call("save", key="k")
    [(text, is_error)] = results(request)
    return say(f"failed: {text}" if is_error else text)


def of_node(handle: Any, *, is_sync: bool = False) -> Callable[[BaseTool], Graph]:
    """Return a function that makes a graph whose tool node handles errors so."""

    def make(one: BaseTool) -> Graph:
        node = ToolNode([one]) if handle is None else ToolNode([one], handle_tool_errors=handle)

        async def work(state: MessagesState) -> Any:
            return {"messages": [await CHAT.bind_tools([one]).ainvoke(state["messages"])]}

        def tools(state: MessagesState) -> Any:
            return node.invoke(state)

        graph = StateGraph(MessagesState)
        graph.add_node("work", work)
        graph.add_node("tools", tools if is_sync else node)
        graph.add_edge("__start__", "work")
        graph.add_conditional_edges("work", tools_condition)
        graph.add_edge("tools", "work")
        return graph.compile(name="agent")

    return make


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (of_node(None), "ConnectionError: no line"),
        (of_node(handle=False), "ConnectionError: no line"),
        (of_node(lambda error: f"mine: {error}"), "mine: ConnectionError: no line"),
        (of_node("Sorry."), "Sorry."),
        (of_node("Sorry.", is_sync=True), "Sorry."),
        (of_node(None, is_sync=True), "ConnectionError: no line"),
        (
            lambda one: agent(
                one, middleware=[ToolErrorMiddleware(on_error=lambda error, request: f"oh: {error}")]
            ),
            "oh: ConnectionError: no line",
        ),
    ],
)
def test_a_failed_call_is_told_in_the_words_of_the_graph(make: Callable[[BaseTool], Any], told: str) -> None:
    assert run(langgraph_agent(make(flaky(1, []))), once).text == f"failed: {told}"


@pytest.mark.parametrize(("fails", "told"), [(2, "saved k"), (9, "failed: Tool 'save' failed after 4")])
def test_middleware_tries_a_failed_call_again_and_each_attempt_is_a_call(fails: int, told: str) -> None:
    ran: list[int] = []
    outcome = run(langgraph_agent(agent(flaky(fails, ran), middleware=[RETRIES])), once)
    assert outcome.text.startswith(told)
    assert len(ran) == min(fails + 1, 4)


def test_middleware_does_not_make_an_interrupted_call_again() -> None:
    brain = langgraph_agent(agent(flaky(0, []), middleware=[RETRIES]))
    done = simulate(brain, once, "go", tools={"save": lambda key: f"saved {key}"})
    ends: set[str] = set()
    for length in range(3, len(done.events)):
        after = go_on(done.world.scenario, done.events[:length]).run(lambda count: 0)
        assert len(after.of(ToolStarted)) == 1
        ends |= {one.status for one in after.of(ToolReturned)}
    assert ends == {"ok", "interrupted"}


def test_middleware_does_not_ask_again_about_a_call_that_a_person_refused() -> None:
    asked: list[Any] = []

    async def refuse(question: Any) -> ApprovalAnswer:
        asked.append(question)
        return ApprovalAnswer(False, note="no")

    graph = agent(flaky(0, []), middleware=[RETRIES])
    outcome = run(langgraph_agent(graph, approvals={"save": "before"}), once, approve=refuse)
    assert outcome.text.startswith("failed: ")
    assert len(asked) == 1


@pytest.mark.parametrize("policy", [0.2, TimeoutPolicy(idle_timeout=0.2)])
def test_the_timeouts_of_a_node_are_by_the_time_of_the_program(policy: Any) -> None:
    async def late(state: MessagesState) -> Any:
        await CHAT.ainvoke("first")
        await asyncio.sleep(5)
        return {"messages": [AIMessage("late")]}

    async def told(state: MessagesState, error: NodeError) -> Any:
        return {"messages": [await CHAT.ainvoke(str(error.error))]}

    graph = StateGraph(MessagesState)
    graph.add_node("late", late, timeout=policy, error_handler=told)
    graph.add_edge("__start__", "late")
    brain = langgraph_agent(graph.compile(name="slow"))

    def echo(request: ModelRequest) -> Any:
        return say(request.conversation[0]["content"][0]["text"])

    # The kit executes the program again for each step: another time in the words would be a divergence.
    ends = {simulate(brain, echo, "go", seed=seed).outcome.text for seed in range(3)}
    assert len(ends) == 1
    assert "timeout of 0.200s" in ends.pop()
