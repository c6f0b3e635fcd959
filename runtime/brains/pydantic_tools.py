"""The function tools of a Pydantic AI agent as tools of ours, made of its definition.

A call may run in another process than the run that wants it, and before that is executed again. So no object
of the framework's run is at hand: the function gets a `RunContext` with the deps, the name of the tool, and
nothing else. `ModelRetry` comes back to the run by its words.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Never, TypeAlias

import pydantic
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ToolReturn
from pydantic_ai.models.test import TestModel
from pydantic_ai.native_tools import AbstractNativeTool
from pydantic_ai.tools import Tool as FrameworkTool
from pydantic_ai.toolsets import (
    AbstractToolset,
    CombinedToolset,
    DeferredLoadingToolset,
    FilteredToolset,
    FunctionToolset,
    IncludeReturnSchemasToolset,
    PreparedToolset,
    SetMetadataToolset,
    WrapperToolset,
)
from pydantic_ai.toolsets._capability_owned import CapabilityOwnedToolset
from pydantic_ai.usage import RunUsage
from pydantic_core import to_jsonable_python

from callboard.actors.protocol.errors import InvalidAgent
from callboard.runtime.brains.tool_terms import ToolTerms
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.tool import Tool

RETRY: Final = "ModelRetry"
DEFERRED: Final = frozenset({"ApprovalRequired", "CallDeferred"})
"""The exceptions by which a function leaves its call to the run."""

_DESCRIBING: Final = frozenset(
    {
        CapabilityOwnedToolset,
        DeferredLoadingToolset,
        FilteredToolset,
        IncludeReturnSchemasToolset,
        PreparedToolset,
        SetMetadataToolset,
    }
)
"""The toolsets that call the tools which they wrap, by the same names and with the same arguments."""

AnyAgent: TypeAlias = Agent[Any, object]
"""An agent with deps of any type."""

DepsOf = Callable[[ToolContext], object]


def tools_of(known: Mapping[str, FrameworkTool[Never]], terms: ToolTerms, deps_of: DepsOf) -> list[Tool]:
    """Return the tools of agents by their names, without those that run in the program.

    Of those that need an approval, return a tool that does nothing: the person approves its calls.
    """
    found: list[Tool] = []
    for name, one in known.items():
        if name not in terms.in_program:
            found.append(_tool(one, terms, deps_of))
        elif permission := terms.permission(
            name, one.description or "", one.function_schema.json_schema, is_asked=one.requires_approval
        ):
            found.append(permission)
    return found


def functions_of(agents: Iterable[AnyAgent]) -> dict[str, FrameworkTool[Never]]:
    """Return the function tools of agents by their names, each with the timeout that holds for it.

    Raises InvalidAgent for two tools of one name, for a toolset that is not a list of functions, and for a
    tool that a service runs.
    """
    found: dict[str, FrameworkTool[Never]] = {}
    for agent in agents:
        _check_native(agent)
        own: set[str] = set()
        for toolset in toolsets_of(agent):
            if not isinstance(toolset, FunctionToolset):
                raise InvalidAgent(
                    f"{type(toolset).__name__} of agent {agent.name!r} is not a list of functions, so its "
                    "calls cannot be recorded; give its functions as tools, or an MCP server as "
                    "`tools=[...]` of a host"
                )
            for name, one in toolset.tools.items():
                if name in own or found.setdefault(name, _timed(one, toolset)).function is not one.function:
                    raise InvalidAgent(
                        f"two tools have the name {name!r}, one of them of agent {agent.name!r}; rename one"
                    )
                own.add(name)
    return found


def toolsets_of(agent: AnyAgent) -> Iterator[AbstractToolset[Never]]:
    """Yield the toolsets of an agent; of those that only gather, filter or describe tools, their parts."""
    left = [*agent.toolsets]
    while left:
        one = left.pop(0)
        if type(one) is CombinedToolset:
            left = [*one.toolsets, *left]
        elif isinstance(one, WrapperToolset) and type(one) in _DESCRIBING:
            left = [one.wrapped, *left]
        else:
            yield one


def _timed(one: FrameworkTool[Never], toolset: FunctionToolset[Never]) -> FrameworkTool[Never]:
    if one.timeout is not None or toolset.timeout is None:
        return one
    timed = copy.copy(one)
    timed.timeout = toolset.timeout
    return timed


def check_capabilities(agent: AnyAgent, *, selects: bool) -> None:
    """Check that no capability of an agent keeps files, or selects a model unless one answers for all.

    Raises InvalidAgent.
    """
    found: list[AbstractCapability[Never]] = []
    agent.root_capability.apply(found.append)
    for one in found:
        if one._has_get_workspace:
            raise InvalidAgent(
                f"agent {agent.name!r}: {type(one).__name__} keeps files, which the session's log would not "
                "have: read and write them by tools"
            )
        if selects and one.get_model() is not None:
            raise InvalidAgent(
                f"agent {agent.name!r}: {type(one).__name__} selects a model while the agent runs, which the "
                "session would not know: leave it out, or give the brain one `model=` for all"
            )


def _check_native(agent: AnyAgent) -> None:
    for native in agent.root_capability.get_native_tools():
        # A function that returns one is called in the run, and the framework refuses its tool there.
        if isinstance(native, AbstractNativeTool) and not native.optional:
            raise InvalidAgent(
                f"agent {agent.name!r}: the service itself would run the tool {native.kind!r}, so its calls "
                "cannot be recorded; give a function in its place"
            )


def _tool(one: FrameworkTool[Never], terms: ToolTerms, deps_of: DepsOf) -> Tool:
    schema = one.function_schema

    async def run(arguments: dict[str, object], ctx: ToolContext) -> object:
        context: RunContext[object] = RunContext(
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
        terms.effect(one.name),
        one.timeout,
        approval=terms.approval(one.name, is_asked=one.requires_approval),
    )
