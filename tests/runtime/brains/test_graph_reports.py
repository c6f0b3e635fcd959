"""Ways in which interrupted and resumed graphs went wrong for others: each has an end here."""

import asyncio
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents.middleware import AgentMiddleware, ModelRetryMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeError
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Send, interrupt

from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.request import ModelRequest
from callboard.brains import SessionChatModel, langgraph_agent
from callboard.runtime.models.scripted import call, calls, say
from callboard.testing import simulate
from tests.runtime.brains.graphs import agent, one_node
from tests.runtime.brains.kit import results, run, saying, turns_in
from tests.runtime.brains.test_langgraph_agent import approved, decided

CHAT = SessionChatModel()


@tool
def confirm(what: str) -> str:
    """Ask a person."""
    return f"{what}: {interrupt(what)}"


def answering(question: Any) -> None:
    """Approve with an answer of its own."""
    question.approve(arguments={**question.arguments, "answer": f"yes to {question.arguments['asked']}"})


def tools_graph(*tools: Any) -> Any:
    """Make a graph whose one tool node runs all calls of a reply."""

    async def work(state: MessagesState) -> Any:
        return {"messages": [await CHAT.bind_tools(list(tools)).ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("work", work)
    graph.add_node("tools", ToolNode(list(tools)))
    graph.add_node("last", work)
    for one, other in ((START, "work"), ("work", "tools"), ("tools", "last"), ("last", END)):
        graph.add_edge(one, other)
    return graph.compile(checkpointer=InMemorySaver(), name="tools")


def agent_graph(*tools: Any) -> Any:
    """Make a graph that gives each call of a reply a tool node of its own."""
    return agent(*tools, checkpointer=InMemorySaver())


def test_a_tool_beside_an_interrupted_one_is_not_done_again() -> None:
    done: list[str] = []

    @tool
    def book(what: str) -> str:
        """Book."""
        done.append(what)
        return f"booked {what}"

    told: list[Any] = []

    def answers(request: ModelRequest) -> Any:
        if not turns_in(request):
            return calls(call("book", what="a room"), call("confirm", what="a car"))
        told.extend(results(request))
        return say("done")

    brain = langgraph_agent(tools_graph(book, confirm), in_program=["confirm"])
    assert decided(brain, answers, answering).text == "done"
    assert done == ["a room"]
    assert told == [("booked a room", False), ("a car: yes to a car", False)]


@pytest.mark.parametrize("make", [tools_graph, agent_graph])
def test_tools_that_are_interrupted_side_by_side_get_their_own_answers(make: Any) -> None:
    # langgraph#6624, #6626: one tool node asks for them one after the other.
    told: list[Any] = []

    def answers(request: ModelRequest) -> Any:
        if not turns_in(request):
            return calls(call("confirm", what="a car"), call("confirm", what="a room"))
        told.extend(results(request))
        return say("done")

    brain = langgraph_agent(make(confirm), in_program=["confirm"])
    assert decided(brain, answers, answering, answering).text == "done"
    assert told == [("a car: yes to a car", False), ("a room: yes to a room", False)]


def test_a_tool_with_an_interrupt_has_to_run_in_the_program() -> None:
    with pytest.raises(InvalidAgent, match=r"tool .confirm. calls `interrupt`"):
        langgraph_agent(tools_graph(confirm))


def test_interrupts_of_parallel_branches_get_the_answers_to_their_own_questions() -> None:
    class Shapes(TypedDict):
        made: Annotated[list[str], lambda old, new: sorted([*old, *new])]

    ran: list[str] = []

    def draw(state: Any) -> Any:
        ran.append(state)
        first = interrupt(state)
        return {"made": [f"{state} {first} {interrupt(state + ' again')}"]}

    graph = StateGraph(Shapes)
    graph.add_node("draw", draw)
    graph.add_conditional_edges(START, lambda state: [Send("draw", one) for one in ("circle", "square")])
    brain = langgraph_agent(
        graph.compile(checkpointer=InMemorySaver(), name="shapes"), to_state=lambda prompt: {"made": []}
    )
    found = decided(brain, saying("x"), *[answering] * 4)
    assert found.structured_output == {
        "made": [f"{one} yes to {one} yes to {one} again" for one in ("circle", "square")]
    }
    assert len(ran) == 6  # each node once, and once after each of its answers


def test_an_interrupt_in_a_graph_that_a_node_calls_goes_on_where_it_was() -> None:
    ran: list[str] = []

    async def before(state: MessagesState) -> Any:
        ran.append("before")
        return {"messages": [await CHAT.ainvoke("before")]}

    def person(state: MessagesState) -> Any:
        return {"messages": [AIMessage(f"person: {interrupt('go on?')}")]}

    inner = StateGraph(MessagesState)
    inner.add_node("before", before)
    inner.add_node("person", person)
    inner.add_edge(START, "before")
    inner.add_edge("before", "person")
    sub = inner.compile(checkpointer=True)

    async def outer(state: MessagesState) -> Any:
        found = await sub.ainvoke({"messages": [HumanMessage("x")]})
        return {"messages": found["messages"][-1:]}

    outcome = decided(
        langgraph_agent(one_node(outer, checkpointer=InMemorySaver())), saying("heard"), approved
    )
    assert (outcome.text, outcome.usage.calls, ran) == ("person: True", 1, ["before"])


def test_a_retry_of_middleware_does_not_hide_an_interrupt_before_a_model_call() -> None:
    class Gate(AgentMiddleware[Any, Any, Any]):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            interrupt("may the model be asked?")
            return await handler(request)

    graph = agent(middleware=[ModelRetryMiddleware(max_retries=1), Gate()], checkpointer=InMemorySaver())
    assert decided(langgraph_agent(graph), saying("fine"), approved).text == "fine"


def test_a_handler_of_errors_acts_once_in_each_execution() -> None:
    @tool
    def undo() -> str:
        """Undo."""
        return "undone"

    def broken(state: MessagesState) -> Any:
        raise ValueError("broken")

    async def handler(state: MessagesState, error: NodeError) -> Any:
        return {"messages": [AIMessage(f"{error.node}: {await undo.ainvoke({})}")]}

    graph = StateGraph(MessagesState)
    graph.add_node("broken", broken, error_handler=handler)
    graph.add_edge(START, "broken")
    brain = langgraph_agent(graph.compile(name="saga"))
    done = simulate(brain, saying("x"), "go", tools={"undo": lambda: "undone"})
    assert done.outcome.text == "broken: undone"
    assert len([event for event in done.events if event.kind == "ToolStarted"]) == 1


def test_tasks_of_the_functional_api_run_and_are_not_run_again_after_an_interrupt() -> None:
    ran: list[str] = []

    @task
    async def draft(topic: str) -> str:
        ran.append(topic)
        return (await CHAT.ainvoke(topic)).text

    @entrypoint(checkpointer=InMemorySaver())
    async def essay(topic: str) -> str:
        first, second = await asyncio.gather(draft(topic), draft(topic + "!"))
        return f"{first}, {second}, {interrupt('good?')}"

    brain = langgraph_agent(essay, "essay", to_state=lambda prompt: prompt)
    outcome = decided(brain, saying("text"), approved)
    assert (outcome.text, outcome.usage.calls, ran) == ("text, text, True", 2, ["go", "go!"])


def test_a_call_of_no_tool_and_one_without_its_arguments_are_told_and_the_graph_goes_on() -> None:
    @tool
    def look(at: str) -> str:
        """Look."""
        return "x"

    def answers(request: ModelRequest) -> Any:
        return say("done") if turns_in(request) else calls(call("nowhere", a=1), call("look"))

    outcome = run(langgraph_agent(agent(look)), answers)
    assert outcome.text == "done"
