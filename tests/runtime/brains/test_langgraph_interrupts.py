"""Interrupts in graphs inside a graph: a person answers each once, and nothing before them is done again."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt

from callboard.brains import SessionChatModel, langgraph_agent
from callboard.runtime.approvals import ApprovalAnswer
from tests.runtime.brains.graphs import Graph, one_node
from tests.runtime.brains.kit import run, saying

CHAT = SessionChatModel()


def said(text: object) -> Any:
    return {"messages": [AIMessage(str(text))]}


def joined(state: MessagesState) -> Any:
    return said(" ".join(one.text for one in state["messages"][1:]))


def asking(save: BaseTool, name: str, **compiled: Any) -> Graph:
    """Make a graph that saves, asks its model, and then asks a person twice."""

    async def node(state: MessagesState) -> Any:
        await save.ainvoke({"key": name})
        because = (await CHAT.ainvoke("Why?")).text
        return said(f"{name}: {interrupt(1)}, {interrupt(2)}, {because};")

    return one_node(node, **compiled)


def as_node(save: BaseTool) -> Graph:
    return one_node(asking(save, "a"), checkpointer=InMemorySaver())


def with_state_of_its_own(save: BaseTool) -> Graph:
    return one_node(asking(save, "a", checkpointer=True), checkpointer=InMemorySaver())


def called_by_a_node(save: BaseTool) -> Graph:
    inner = asking(save, "a")

    async def node(state: MessagesState) -> Any:
        await save.ainvoke({"key": "outer"})
        return {"messages": (await inner.ainvoke(state))["messages"][-1:]}

    return one_node(node, checkpointer=InMemorySaver())


def side_by_side(save: BaseTool) -> Graph:
    graph: Any = StateGraph(MessagesState)
    for name in "ab":
        graph.add_node(name, asking(save, name))
        graph.add_edge("__start__", name)
    graph.add_node("last", joined)
    graph.add_edge(["a", "b"], "last")
    return graph.compile(checkpointer=InMemorySaver(), name="outer")


def fanned_out(save: BaseTool) -> Graph:
    async def work(number: Any) -> Any:
        await save.ainvoke({"key": str(number)})
        return said(f"{number}: {interrupt(number)};")

    def fan(state: MessagesState) -> list[Send]:
        return [Send("work", number) for number in range(2)]

    graph: Any = StateGraph(MessagesState)
    graph.add_node("work", work)
    graph.add_node("last", joined)
    graph.add_conditional_edges("__start__", fan, ["work"])
    graph.add_edge("work", "last")
    return graph.compile(checkpointer=InMemorySaver(), name="outer")


def out_of_the_inner_graph(save: BaseTool) -> Graph:
    async def jump(state: MessagesState) -> Any:
        await save.ainvoke({"key": "a"})
        return Command(goto="last", graph=Command.PARENT, update=said(f"jumped {interrupt(1)};"))

    graph: Any = StateGraph(MessagesState)
    graph.add_node("inner", one_node(jump))
    graph.add_node("last", joined)
    graph.add_edge("__start__", "inner")
    return graph.compile(checkpointer=InMemorySaver(), name="outer")


@pytest.mark.parametrize(
    ("make", "text", "saved"),
    [
        (as_node, "a: 1, 2, so;", "a"),
        (with_state_of_its_own, "a: 1, 2, so;", "a"),
        (called_by_a_node, "a: 1, 2, so;", "outer a"),
        (side_by_side, "a: 1, 3, so; b: 2, 4, so;", "a b"),
        (fanned_out, "0: 1; 1: 2;", "0 1"),
        (out_of_the_inner_graph, "jumped 1;", "a"),
    ],
)
def test_each_interrupt_is_answered_once_and_its_node_goes_on(
    make: Callable[[BaseTool], Graph], text: str, saved: str
) -> None:
    keys: list[str] = []
    answers = iter("1234")

    @tool
    async def save(key: str) -> str:
        """Save."""
        keys.append(key)
        return f"saved {key}"

    async def approve(question: Any) -> ApprovalAnswer:
        return ApprovalAnswer(True, arguments={**question.arguments, "answer": next(answers)})

    outcome = run(langgraph_agent(make(save)), saying("so"), approve=approve)
    assert (outcome.text, " ".join(keys)) == (text, saved)
