"""The function tools of a Pydantic AI agent as tools of ours, made of its definition.

A call may run in another process than the run that wants it, and before that is executed again. So no object
of the framework's run is at hand: the function gets a `RunContext` with the deps, the name of the tool, and
nothing else. `ModelRetry` comes back to the run by its words.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import pydantic
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.messages import ToolReturn
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import Tool as FrameworkTool
from pydantic_ai.toolsets import FunctionToolset
from pydantic_ai.usage import RunUsage
from pydantic_core import to_jsonable_python

from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.errors import InvalidAgent
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.tool import Tool

RETRY: Final = "ModelRetry"
DepsOf = Callable[[ToolContext], object]


def tools_of(
    agent: Agent[Any, Any],
    effects: Mapping[str, Effect],
    in_program: Iterable[str],
    deps_of: DepsOf,
) -> list[Tool]:
    """Return the tools of an agent, without those that run in the program.

    Raises InvalidAgent for a name that it does not have, and for a toolset that is no list of functions.
    """
    known = dict(_functions(agent))
    inner = set(in_program)
    for word, names in (("effects", set(effects)), ("in_program", inner)):
        if wrong := sorted(names - known.keys()):
            there_are = ", ".join(known) or "none"
            raise InvalidAgent(f"{word} names {wrong[0]!r}, and the agent has the tools: {there_are}")
    return [
        _tool(one, effects.get(name, "write"), deps_of) for name, one in known.items() if name not in inner
    ]


def _functions(agent: Agent[Any, Any]) -> Iterator[tuple[str, FrameworkTool[Any]]]:
    seen: set[str] = set()
    for toolset in agent.toolsets:
        if not isinstance(toolset, FunctionToolset):
            raise InvalidAgent(
                f"{type(toolset).__name__} of the agent is not a list of functions, so its calls cannot be "
                "recorded; give its functions as tools, or an MCP server as `tools=[...]` of a host"
            )
        for name, one in toolset.tools.items():
            if name in seen:
                raise InvalidAgent(f"two tools of the agent have the name {name!r}; rename one")
            seen.add(name)
            yield name, one


def _tool(one: FrameworkTool[Any], effect: Effect, deps_of: DepsOf) -> Tool:
    schema = one.function_schema

    async def run(arguments: dict[str, Any], ctx: ToolContext) -> object:
        context: RunContext[Any] = RunContext(
            deps=deps_of(ctx), model=TestModel(), usage=RunUsage(), tool_name=one.name
        )
        try:
            given = schema.validator.validate_python(arguments)
        except pydantic.ValidationError as error:  # the framework has checked them: by another definition
            raise ModelRetry(str(error)) from None
        found = await schema.call(given, context)
        value = found.return_value if isinstance(found, ToolReturn) else found
        return value if isinstance(value, str) else to_jsonable_python(value)

    return Tool(
        one.name,
        one.description or "",
        schema.json_schema,
        run,
        effect,
        one.timeout,
        approval="before" if one.requires_approval else "never",
    )
