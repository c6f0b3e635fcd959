"""Pydantic AI: an agent for each specialist, and one that asks them by its tools, with shared deps and usage.

The specialists run inside the tools of the orchestrator, so their model calls and tools are parts of its run.
"""

from typing import Any

from msgspec.structs import replace
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import RunContext, StructuredDict, Tool
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ToolReturnPart

from callboard import Agent, Limits
from callboard.brains import pydantic_ai_agent
from callboard.orchestrator import Finding, Question, Specialist
from regreader.frameworks.parts import Parts, finding, report_of
from regreader.tools import Found, ToolFailure

_WORDS = "Ask the specialists about the question, one after the other until it is answered. Then report."
Run = RunContext[Parts]
Reporter = PydanticAgent[Parts, Any]


def host_of(parts: Parts) -> Agent:
    """Return the orchestrator as a brain."""
    enabled = parts.rules.enabled
    tools = {name: _served(parts, name) for name in parts.tools}
    agents = {one.name: _agent(one, tools) for one in enabled}
    asks = [_asks(one, agents[one.name]) for one in enabled]
    lead = PydanticAgent(
        name="orchestrator", instructions=_WORDS, deps_type=Parts, tools=asks, output_type=_merged
    )
    limits = Limits(max_iterations=sum(one.max_iterations + 1 for one in enabled) + 1)
    return pydantic_ai_agent(
        lead, effects=dict.fromkeys(tools, "read"), in_program=[one.name for one in asks],
        nested=[*agents.values()], deps=parts, limits=limits,
    )  # fmt: skip


def _agent(one: Specialist, tools: Found) -> Reporter:
    return PydanticAgent(
        name=one.name, instructions=one.instructions, deps_type=Parts,
        tools=[tools[tool.name] for tool in one.tools],
        output_type=StructuredDict(report_of(one), name="report"),
    )  # fmt: skip


def _asks(one: Specialist, agent: Reporter) -> Tool[Parts]:
    """Return the tool by which the orchestrator asks a specialist."""

    async def ask(ctx: Run, query: str) -> Any:
        asked = replace(Question.from_prompt(str(ctx.prompt)), query=query)
        prompt = ctx.deps.prompt(asked, _found(ctx))
        return (await agent.run(prompt, deps=ctx.deps, usage=ctx.usage)).output

    return Tool(ask, name=f"ask_{one.name}", description=one.description)


def _served(parts: Parts, name: str) -> Tool[Parts]:
    async def call(ctx: Run, **arguments: Any) -> str:
        try:
            return await ctx.deps.call(name, **arguments)
        except ToolFailure as error:
            raise ToolFailed(str(error)) from None

    tool = parts.tools[name]
    return Tool.from_schema(call, name, tool.description, tool.input_schema, takes_ctx=True)


def _found(ctx: Run) -> list[Finding]:
    parts = [part for said in ctx.messages for part in said.parts if isinstance(part, ToolReturnPart)]
    return [finding(one.tool_name.removeprefix("ask_"), one.content) for one in parts]


def _merged(ctx: Run) -> Found:
    """Report the merged answer of the specialists."""
    return ctx.deps.merged(Question.from_prompt(str(ctx.prompt)).query, _found(ctx))
