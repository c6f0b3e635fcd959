"""Pydantic AI: an agent for each specialist, and one that asks them by its tools, with shared deps and usage.

The specialists run inside the tools of the orchestrator, so their model calls and tools are parts of its run.
"""

from typing import Any

from msgspec.structs import replace
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import RunContext, StructuredDict, Tool
from pydantic_ai.messages import ToolReturnPart

from callboard import Agent, Limits
from callboard.brains import pydantic_ai_agent
from callboard.orchestrator import Finding, Question, Specialist
from regreader.frameworks.parts import REPORT, Parts

_WORDS = "Ask the specialists about the question, one after the other until it is answered. Then report."
Run = RunContext[Parts]
Reporter = PydanticAgent[Parts, Any]


def host_of(parts: Parts) -> Agent:
    """Return the orchestrator as a brain."""
    enabled = parts.rules.enabled
    tools = {
        name: Tool.from_schema(parts.function(name), name, one.description, one.input_schema)
        for name, one in parts.tools.items()
    }
    agents = [
        PydanticAgent(
            name=one.name, instructions=one.instructions, deps_type=Parts,
            tools=[tools[tool.name] for tool in one.tools],
            output_type=StructuredDict(REPORT, name="report"),
        )
        for one in enabled
    ]  # fmt: skip
    asks = [_asks(one, agent) for one, agent in zip(enabled, agents, strict=True)]
    lead = PydanticAgent(
        name="orchestrator", instructions=_WORDS, deps_type=Parts, tools=asks, output_type=_merged
    )
    limits = Limits(max_iterations=sum(one.max_iterations + 1 for one in enabled) + 1)
    return pydantic_ai_agent(
        lead, effects=dict.fromkeys(tools, "read"), in_program=[one.name for one in asks],
        nested=agents, deps=parts, limits=limits,
    )  # fmt: skip


def _asks(one: Specialist, agent: Reporter) -> Tool[Parts]:
    """Return the tool by which the orchestrator asks a specialist."""

    async def ask(ctx: Run, query: str) -> Any:
        asked = replace(Question.from_prompt(str(ctx.prompt)), query=query)
        context = ctx.deps.rules.route(asked).context(one.name, _found(ctx))
        return (await agent.run(context.prompt(), deps=ctx.deps, usage=ctx.usage)).output

    return Tool(ask, name=f"ask_{one.name}", description=one.description)


def _found(ctx: Run) -> list[Finding]:
    parts = [part for said in ctx.messages for part in said.parts if isinstance(part, ToolReturnPart)]
    return [Finding.from_value(one.tool_name.removeprefix("ask_"), one.content) for one in parts]


def _merged(ctx: Run) -> Any:
    """Report the merged answer of the specialists."""
    return ctx.deps.rules.route(str(ctx.prompt)).merged(_found(ctx))
