"""A graph of LangGraph as an agent: two branches, a person who decides, and a restart while she thinks.

    python examples/langgraph_agent.py

The model is a script here. With a chat model of LangChain in place of `SessionChatModel()`, the graph asks
that one, and no `Runtime(model=...)` is needed.
"""

import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import Annotated, TypedDict

from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from callboard import Limits, ModelRequest, Reply, Runtime, ScriptedModel, say
from callboard.brains import SessionChatModel, langgraph_agent
from callboard.errors import SessionDetached

model = SessionChatModel()


class Trip(TypedDict):
    """The state of the graph."""

    city: str
    offers: Annotated[list[str], lambda old, new: [*old, *new]]
    result: str


@tool
def book(offer: str) -> str:
    """Book an offer."""
    return f"booked {offer}"


async def trains(state: Trip) -> dict[str, list[str]]:
    """Find a train."""
    return {"offers": [(await model.ainvoke(f"A train to {state['city']}?")).text]}


def hotels(state: Trip) -> dict[str, list[str]]:
    """Find a hotel, as a synchronous node does."""
    return {"offers": [model.invoke(f"A hotel in {state['city']}?").text]}


async def decide(state: Trip) -> dict[str, str]:
    """Choose, ask a person, and book."""
    choice = (await model.ainvoke(f"Which one first: {', '.join(state['offers'])}?")).text
    if not interrupt(f"Book {choice}?"):
        return {"result": "nothing booked"}
    return {"result": await book.ainvoke({"offer": choice})}


def traveller() -> StateGraph[Trip]:
    """Build the graph, as for any other use of it."""
    graph = StateGraph(Trip)
    graph.add_node("trains", trains)
    graph.add_node("hotels", hotels)
    graph.add_node("decide", decide)
    graph.add_edge(START, "trains")
    graph.add_edge(START, "hotels")
    graph.add_edge(["trains", "hotels"], "decide")
    graph.add_edge("decide", END)
    return graph


brain = langgraph_agent(
    traveller().compile(checkpointer=InMemorySaver(), name="traveller"),
    description="Plans a trip.",
    to_state=lambda city: {"city": city, "offers": []},
    output=lambda trip: trip["result"],
    limits=Limits(max_iterations=10),
)


def answer(request: ModelRequest) -> Reply:
    """Stand for the model."""
    question = request.conversation[0]["content"][0]["text"]
    print(f"  the model is asked: {question}")
    return say(
        "the night train" if "first" in question else "the night train" if "train" in question else "Inn"
    )


async def main() -> None:
    """Ask, stop while a person thinks, and go on in another runtime."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "trips.db"
        print("first process:")
        async with Runtime(log, model=ScriptedModel(answer)) as runtime:
            session = await runtime.open(brain, session_id="trip")
            ask = asyncio.ensure_future(session.ask("Rome"))
            question = await anext(aiter(session.approvals()))
            print(f"  a person is asked: {question.arguments['asked']}")
        with contextlib.suppress(SessionDetached):
            await ask
        print("second process:")
        async with Runtime(log, model=ScriptedModel(answer)) as runtime:
            session = await runtime.resume("trip", brain)
            question = await anext(aiter(session.approvals()))
            question.approve(by="ann")
            outcome = await session.outcome
        print(f"{outcome.text}; {outcome.usage.calls} model calls")


if __name__ == "__main__":
    asyncio.run(main())
