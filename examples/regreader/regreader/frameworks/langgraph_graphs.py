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
from callboard.orchestrator import Finding, Question
from regreader.frameworks.parts import Parts, finding, report_of
from regreader.tools import Found


class Asked(MessagesState):
    """The state of the orchestrator. A specialist gets none of it but its prompt."""

    found: Annotated[list[Finding], operator.add]
    result: Found


def host_of(parts: Parts) -> Agent:
    """Return the orchestrator as a brain."""
    enabled = parts.rules.enabled
    tools = {tool.name: _served(parts, tool.name) for one in enabled for tool in one.tools}
    agents: dict[str, Any] = {
        one.name: create_agent(
            SessionChatModel(), [tools[tool.name] for tool in one.tools], system_prompt=one.instructions,
            response_format=ToolStrategy(report_of(one)), name=one.name,
        )
        for one in enabled
    }  # fmt: skip

    def route(state: Asked) -> Command[str]:
        asked, found = _question(state), state["found"]
        prompt, names = parts.prompt(asked, found), parts.next(asked.query, found)
        work = [Send("execute", {"name": name, "prompt": prompt}) for name in names]
        return Command(goto=work or "aggregate")

    async def execute(work: dict[str, str]) -> Any:
        state = await agents[work["name"]].ainvoke({"messages": [("user", work["prompt"])]})
        return {"found": [finding(work["name"], state.get("structured_response"))]}

    def aggregate(state: Asked) -> Any:
        return {"result": parts.merged(_question(state).query, state["found"])}

    graph: Any = StateGraph(Asked)
    graph.add_node(route).add_node(execute).add_node(aggregate)
    graph.add_edge(START, "route").add_edge("execute", "route").add_edge("aggregate", END)
    limits = Limits(max_iterations=sum(one.max_iterations for one in enabled))
    return langgraph_agent(
        graph.compile(name="orchestrator"), effects=dict.fromkeys(tools, "read"), limits=limits,
        output=operator.itemgetter("result"),
    )  # fmt: skip


def _question(state: Asked) -> Question:
    return Question.from_prompt(str(state["messages"][-1].text))


def _served(parts: Parts, name: str) -> StructuredTool:
    async def call(**arguments: Any) -> str:
        return await parts.call(name, **arguments)

    tool, words = parts.tools[name], parts.tools[name].description or ""
    return StructuredTool(name=name, description=words, args_schema=tool.input_schema, coroutine=call)
