"""Graphs of LangGraph for tests, and the model that answers them."""

from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import Field

from callboard.actors.protocol.request import ModelRequest
from callboard.brains import SessionChatModel
from callboard.runtime.models.scripted import call, calls, say
from tests.runtime.brains.kit import WORDS, turns_in

Graph = Any
"""A compiled graph: its own type has four parameters that say nothing here."""


class Found(TypedDict):
    """A state without messages."""

    topic: str
    notes: Annotated[list[str], lambda old, new: [*old, *new]]
    verdict: str


class OwnChat(BaseChatModel):
    """A chat model of a service, which must not be called by the graph itself."""

    model_name: str = "own"
    says: str = "own"
    asked: list[Any] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "fake"

    def bind_tools(self, tools: Any, **given: Any) -> Any:
        return self.bind(tools=tools, **given)

    def _generate(self, messages: list[BaseMessage], *args: Any, **given: Any) -> ChatResult:
        self.asked.append((messages, given))
        usage: Any = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        message = AIMessage(f"{self.says} {len(self.asked)}", usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


def expert(ran: list[str] | None = None, words: str = WORDS) -> Graph:
    """Make a graph with tools of every kind, and a synchronous check that is not content at first."""
    done: list[str] = [] if ran is None else ran

    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        done.append(f"add {a}")
        if a in (8, 9):
            raise ValueError("eight")
        return a + b

    @tool
    async def save(key: str) -> str:
        """Save."""
        done.append(f"save {key}")
        return f"saved {key}"

    model = SessionChatModel().bind_tools([add, save])

    async def work(state: Any) -> Any:
        return {"messages": [await model.ainvoke([SystemMessage(words), *state["messages"]])]}

    def check(state: Any) -> Any:
        done.append("check")
        return {"messages": [HumanMessage("shorter")] if len(state["messages"][-1].text) > 12 else []}

    def route(state: Any) -> str:
        return END if isinstance(state["messages"][-1], AIMessage) else "work"

    graph = StateGraph(MessagesState)
    graph.add_node("work", work)
    graph.add_node("check", check)
    graph.add_node("tools", ToolNode([add, save]))
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", tools_condition, {"tools": "tools", END: "check"})
    graph.add_edge("tools", "work")
    graph.add_conditional_edges("check", route)
    return graph.compile(name="expert")


def policy(request: ModelRequest) -> Any:
    """Answer: tools of all kinds at once, then a text that is too long, then a good one."""
    turn = turns_in(request)
    if turn == 0:
        wrong = call("add", a="much", b=1)
        return calls(call("add", a=2, b=3), call("save", key="k"), wrong, call("add", a=8, b=1))
    return say("a much too long answer" if turn == 1 else "5")


def one_node(node: Callable[..., Any], state: Any = MessagesState, **compiled: Any) -> Graph:
    """Make a graph of one node."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(state)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    return graph.compile(name="one", **compiled)


def agent(*tools: Any, **more: Any) -> Graph:
    """Make an agent as `create_agent` does."""
    return create_agent(SessionChatModel(), list(tools), name="agent", **more)
