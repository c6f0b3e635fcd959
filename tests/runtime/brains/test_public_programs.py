"""Kinds of programs that people publish for these frameworks, killed after their events: they end the same.

The kinds: an airline's desk whose agents hand off in circles, a travel agent that delegates and validates, an
output function that asks another agent, two agents that hand over by commands, and a plan with its execution.
"""

import json
import operator
from typing import Annotated, Any, TypedDict

import agents
import pytest
from agents import RunContextWrapper, function_tool
from langchain.agents import create_agent
from langchain_core.messages import SystemMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command
from pydantic import BaseModel
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import ModelRetry, RunContext

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned, ToolStarted
from callboard.actors.protocol.request import ModelRequest
from callboard.brains import SessionChatModel, langgraph_agent, openai_agent, pydantic_ai_agent
from callboard.replay.testing.sessions.resumes import go_on
from callboard.runtime.models.scripted import call, say
from callboard.testing import simulate
from tests.runtime.brains.kit import turns_in

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

CHAT = SessionChatModel()


def words(request: ModelRequest) -> str:
    return bytes(request.system).decode()


# --- OpenAI Agents: hand-offs in circles, with a context that a hand-off fills --------------


class Passenger(BaseModel):
    """The context of the desk."""

    flight: str = ""


@function_tool
async def look_up(question: str) -> str:
    """Look a question up."""
    return "one bag"


@function_tool
async def change_seat(context: RunContextWrapper[Passenger], seat: str) -> str:
    """Change the seat."""
    return f"{seat} of {context.context.flight}"


def airline() -> Any:
    async def at_seats(context: RunContextWrapper[Passenger]) -> None:
        context.context.flight = "F-1"

    questions = agents.Agent[Passenger]("Questions", instructions="Questions.", tools=[look_up])
    seats = agents.Agent[Passenger]("Seats", instructions="Seats.", tools=[change_seat])
    desk = agents.Agent[Passenger](
        "Desk", instructions="Desk.", handoffs=[questions, agents.handoff(seats, on_handoff=at_seats)]
    )
    questions.handoffs.append(desk)
    seats.handoffs.append(desk)
    return openai_agent(desk, context=Passenger(), effects={"look_up": "read"})


def at_the_desk(request: ModelRequest) -> Any:
    turn = turns_in(request)
    if "Desk." in words(request):
        return call("transfer_to_questions" if turn == 0 else "transfer_to_seats")
    if "Questions." in words(request):
        return call("look_up", question="bags") if turn == 1 else call("transfer_to_desk")
    return call("change_seat", seat="1A") if turn == 4 else say("Seated.")


# --- Pydantic AI: a delegate, a union of outputs, a validator; and an output function --------


class Flight(BaseModel):
    """A flight."""

    number: str
    euros: int


class NoFlight(BaseModel):
    """There is none."""


def travel() -> Any:
    extract = PydanticAgent[Any, list[Flight]](
        name="extract", instructions="Extract.", output_type=list[Flight]
    )
    search = PydanticAgent[int, Flight | NoFlight](
        name="search", deps_type=int, instructions="Search.", output_type=[Flight, NoFlight], retries=3
    )

    @search.tool
    async def extract_flights(ctx: RunContext[int]) -> list[Flight]:
        """Extract the flights of the page."""
        return (await extract.run("the page", usage=ctx.usage)).output

    @search.tool_plain
    def hold(number: str) -> str:
        """Hold a flight."""
        return f"held {number}"

    @search.output_validator
    async def cheap(ctx: RunContext[int], output: Flight | NoFlight) -> Flight | NoFlight:
        if isinstance(output, Flight) and output.euros > ctx.deps:
            raise ModelRetry("too dear")
        return output

    return pydantic_ai_agent(search, in_program=["extract_flights"], nested=[extract], deps=100)


def of_travel(request: ModelRequest) -> Any:
    if "Extract." in words(request):
        return call("final_result", response=[{"number": "A", "euros": 90}])
    steps = (
        call("extract_flights"),
        call("hold", number="A"),
        call("final_result_Flight", number="B", euros=190),
        call("final_result_Flight", number="A", euros=90),
    )
    return steps[turns_in(request)]


def by_output_function() -> Any:
    rows = PydanticAgent[Any, int](name="rows", instructions="Rows.", output_type=int)

    @rows.tool_plain
    def store(sql: str) -> str:
        """Store."""
        return "3 rows"

    async def hand_over(ctx: RunContext[Any], query: str) -> int:
        """Hand the query over."""
        return (await rows.run(query, usage=ctx.usage)).output

    return pydantic_ai_agent(PydanticAgent(name="router", output_type=hand_over), nested=[rows])


def of_output_function(request: ModelRequest) -> Any:
    if "Rows." not in words(request):
        return call("final_result", query="count")
    return call("final_result", response=3) if turns_in(request) else call("store", sql="count")


# --- LangGraph: agents that hand over by commands, and a plan with its execution -------------


@tool
def book(what: str) -> str:
    """Book."""
    return f"booked {what}"


@tool
def to_hotel(
    state: Annotated[dict[str, Any], InjectedState], tool_call_id: Annotated[str, InjectedToolCallId]
) -> Command[str]:
    """Hand over to the hotel's agent."""
    said = [*state["messages"], ToolMessage("handed over", tool_call_id=tool_call_id)]
    return Command(goto="hotel", graph=Command.PARENT, update={"messages": said})


def swarm() -> Any:
    graph: Any = StateGraph(MessagesState)
    flight = create_agent(CHAT, [book, to_hotel], system_prompt="Flight.", name="flight")
    graph.add_node("flight", flight, destinations=("hotel",))
    graph.add_node("hotel", create_agent(CHAT, [book], system_prompt="Hotel.", name="hotel"))
    graph.add_edge(START, "flight")
    return langgraph_agent(graph.compile(name="swarm"), in_program=["to_hotel"])


def of_swarm(request: ModelRequest) -> Any:
    steps = (call("book", what="flight"), call("to_hotel"), call("book", what="hotel"), say("Both."))
    return steps[turns_in(request)]


class Plan(BaseModel):
    """A plan."""

    steps: list[str]


class Work(TypedDict):
    """The state of a plan."""

    task: str
    left: list[str]
    done: Annotated[list[str], operator.add]


def planned() -> Any:
    worker: Any = create_agent(CHAT, [book], system_prompt="Work.", name="worker")

    async def plan(state: Work) -> Any:
        found = await CHAT.with_structured_output(Plan).ainvoke([SystemMessage("Plan."), state["task"]])
        return {"left": found.steps if isinstance(found, Plan) else []}

    async def execute(state: Work) -> Any:
        said = await worker.ainvoke({"messages": [("user", state["left"][0])]})
        return {"done": [said["messages"][-1].text], "left": state["left"][1:]}

    graph: Any = StateGraph(Work)
    graph.add_node("plan", plan)
    graph.add_node("execute", execute)
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "execute")
    graph.add_conditional_edges("execute", lambda state: "execute" if state["left"] else END)
    return langgraph_agent(
        graph.compile(name="planned"),
        to_state=lambda prompt: {"task": prompt},
        output=lambda state: " ".join(state["done"]),
    )


def of_plan(request: ModelRequest) -> Any:
    if "Plan." in words(request):
        return call(json.loads(bytes(request.tools[0]))["name"], steps=["a", "b"])
    what = request.conversation[0]["content"][0]["text"]
    return say(f"Did {what}.") if turns_in(request) else call("book", what=what)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "policy", "end", "writes"),
    [
        (airline, at_the_desk, "Seated.", 1),
        (travel, of_travel, '{"number":"A","euros":90}', 1),
        (by_output_function, of_output_function, "3", 1),
        (swarm, of_swarm, "Both.", 2),
        (planned, of_plan, "Did a. Did b.", 2),
    ],
)
def test_a_public_kind_of_program_ends_the_same_wherever_it_is_killed(
    make: Any, policy: Any, end: str, writes: int
) -> None:
    done = simulate(make(), policy, "go")
    assert done.outcome.text == end
    assert sum(isinstance(event.body, ToolStarted) for event in done.events) == writes
    asked = sum(isinstance(event.body, ModelReplied) for event in done.events)
    for length in range(4, len(done.events) + 1, 11):
        after = go_on(done.world.scenario, done.events[:length]).run(lambda count: 0)
        assert after.of(AskEnded)[-1].text == end
        assert len(after.of(ToolStarted)) == writes
        assert [one.status for one in after.of(ToolReturned)].count("interrupted") <= 1
        lost = [one for one in after.of(ModelReplied) if one.status == "lost"]
        assert len(after.of(ModelReplied)) - len(lost) == asked
