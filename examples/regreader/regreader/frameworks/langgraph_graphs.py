"""LangGraph: a graph that routes, executes and aggregates, above a graph of its own for each specialist."""

import operator
from typing import Annotated, Any

from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.tools import StructuredTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send

from callboard import Agent, Limits
from callboard.brains import SessionChatModel, langgraph_agent
from callboard.orchestrator import Finding, OrchestratorResult, Route
from regreader.frameworks.parts import REPORT, Parts


class Asked(MessagesState):
    """The state of the orchestrator. A specialist gets none of it but its prompt."""

    found: Annotated[list[Finding], operator.add]
    result: OrchestratorResult


def host_of(parts: Parts) -> Agent:
    """Return the orchestrator as a brain."""
    enabled = parts.rules.enabled
    tools = {
        name: StructuredTool(
            name=name, description=one.description or "", args_schema=one.input_schema,
            coroutine=parts.function(name),
        )
        for name, one in parts.tools.items()
    }  # fmt: skip
    agents: dict[str, Any] = {
        one.name: create_agent(
            SessionChatModel(), [tools[tool.name] for tool in one.tools], system_prompt=one.instructions,
            response_format=ToolStrategy(REPORT), name=one.name,
        )
        for one in enabled
    }  # fmt: skip

    def way(state: Asked) -> Route:
        return parts.rules.route(str(state["messages"][-1].text))

    def route(state: Asked) -> Command[str]:
        on, found = way(state), state["found"]
        work = [Send("execute", (name, on.context(name, found).prompt())) for name in on.next(found)]
        return Command(goto=work or "aggregate")

    async def execute(work: tuple[str, str]) -> Any:
        state = await agents[work[0]].ainvoke({"messages": [("user", work[1])]})
        return {"found": [Finding.from_value(work[0], state.get("structured_response"))]}

    def aggregate(state: Asked) -> Any:
        return {"result": way(state).merged(state["found"])}

    graph: Any = StateGraph(Asked)
    graph.add_node(route).add_node(execute).add_node(aggregate)
    graph.add_edge(START, "route").add_edge("execute", "route").add_edge("aggregate", END)
    limits = Limits(max_iterations=sum(one.max_iterations for one in enabled))
    return langgraph_agent(
        graph.compile(name="orchestrator"), effects=dict.fromkeys(tools, "read"), limits=limits,
        output=operator.itemgetter("result"),
    )  # fmt: skip
