"""The agents of a brain of the OpenAI Agents SDK, and their function tools as tools of ours.

A call may run in another process than the run that wants it, and before that is executed again. So no object
of the framework's run is at hand: the function gets a `ToolContext` with the context, the name of the tool
and its arguments, and nothing else.
"""

import asyncio
import copy
import inspect
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Final

import msgspec
from agents import Agent, FunctionTool, Handoff
from agents.items import ItemHelpers
from agents.sandbox import SandboxAgent
from agents.tool import (
    get_function_tool_responses_only_features,
    set_function_tool_failure_error_function,
)
from agents.tool_context import ToolContext as FrameworkContext
from openai.types.responses import ResponseFunctionToolCall

from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.immutable import JsonObject
from callboard.runtime.brains.openai_messages import FINAL, part_block
from callboard.runtime.brains.openai_traces import untraced
from callboard.runtime.brains.tool_terms import ToolTerms
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.output import Blocks
from callboard.runtime.tools.tool import Tool

ContextOf = Callable[[ToolContext], object]

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def agents_of(agent: Agent, nested: Iterable[Agent]) -> list[Agent]:
    """Return an agent, and all agents that its hand-offs and tools are known to run.

    Raises InvalidAgent for one whose work cannot be recorded.
    """
    found: list[Agent] = []
    left = [agent, *nested]
    while left:
        one = left.pop(0)
        if any(one is known for known in found):
            continue
        check_agent(one)
        found.append(one)
        left += [other for other in _next_to(one) if isinstance(other, Agent)]
    return found


def handed_to(agent: Agent) -> list[Agent]:
    """Return an agent, and the agents to which its hand-offs are known to lead: one of them answers."""
    found: list[Agent] = [agent]
    for one in found:
        targets = [_target(step) for step in one.handoffs]
        found += [other for other in targets if isinstance(other, Agent) and other not in found]
    return found


def _next_to(agent: Agent) -> Iterator[object]:
    yield from map(_target, agent.handoffs)
    yield from (getattr(tool, "_agent_instance", None) for tool in agent.tools)


def _target(step: object) -> object:
    if not isinstance(step, Handoff):
        return step
    return None if step._agent_ref is None else step._agent_ref()


def is_agent(tool: object) -> bool:
    """Return True for an agent used as a tool."""
    return isinstance(tool, FunctionTool) and tool._is_agent_tool


def check_agent(agent: object) -> None:
    """Check that all that an agent does can be recorded. Raises InvalidAgent."""
    if not isinstance(agent, Agent):
        raise InvalidAgent(f"{agent!r:.80} is not an agents.Agent")
    if isinstance(agent, SandboxAgent):
        raise InvalidAgent(
            f"agent {agent.name!r} works in a sandbox of its own, so its work cannot be recorded; "
            "give it function tools"
        )
    if agent.mcp_servers:
        raise InvalidAgent(
            f"agent {agent.name!r} has MCP servers, whose calls cannot be recorded; give its functions as "
            "tools, or an MCP server as `tools=[...]` of a host"
        )
    if agent.prompt is not None:
        raise InvalidAgent(
            f"agent {agent.name!r} has a prompt that its service keeps, so its requests cannot be recorded; "
            "give it `instructions`"
        )
    for tool in agent.tools:
        _check_tool(agent.name, tool)
    for step in agent.handoffs:
        if isinstance(step, Handoff) and not _NAME.fullmatch(step.tool_name):
            raise InvalidAgent(
                f"agent {agent.name!r}: a hand-off is named {step.tool_name!r}, and no model takes this "
                "name; write 1 to 64 letters, digits, _ and -"
            )


def _check_tool(agent: str, tool: object) -> None:
    called = getattr(tool, "name", None) or type(tool).__name__
    if not isinstance(tool, FunctionTool):
        raise InvalidAgent(
            f"agent {agent!r}: {type(tool).__name__} ({called!r:.60}) is not a function tool, so its calls "
            "cannot be recorded; give a function in its place, or run this agent without callboard"
        )
    if only := get_function_tool_responses_only_features(tool):
        raise InvalidAgent(
            f"agent {agent!r}: tool {called!r} has {only[0]}, which only one service knows; leave it out"
        )
    if called == FINAL:
        raise InvalidAgent(
            f"agent {agent!r}: a brain gives outputs by a tool with the name {FINAL!r}; rename its own"
        )
    if not _NAME.fullmatch(tool.name):
        raise InvalidAgent(
            f"agent {agent!r}: a tool is named {tool.name!r}, and no model takes this name; write 1 to 64 "
            "letters, digits, _ and -"
        )


def tools_of(
    agents: Iterable[Agent],
    terms: ToolTerms,
    context_of: ContextOf,
) -> list[Tool]:
    """Return the tools of agents, without those that run in the program.

    Of those that need an approval, return a tool that does nothing: the person approves its calls.
    Raises InvalidAgent for a name that no agent has, and for two tools of one name.
    """
    known = _functions(agents)
    terms.check(known, "the agents have")
    found: list[Tool] = []
    for name, one in known.items():
        if name not in terms.in_program and not is_agent(one):
            found.append(_tool(one, terms, context_of))
        elif permission := terms.permission(
            name, one.description or "", one.params_json_schema, is_asked=one.needs_approval is not False
        ):
            found.append(permission)
    return found


def _functions(agents: Iterable[Agent]) -> dict[str, FunctionTool]:
    found: dict[str, FunctionTool] = {}
    for agent in agents:
        own: set[str] = set()
        for tool in agent.tools:
            assert isinstance(tool, FunctionTool)  # by check_agent
            first = found.setdefault(tool.name, tool)
            if tool.name in own or not _are_one(first, tool):
                raise InvalidAgent(
                    f"two tools have the name {tool.name!r}, one of them of agent {agent.name!r}; rename one"
                )
            own.add(tool.name)
    return found


def _are_one(first: FunctionTool, second: FunctionTool) -> bool:
    if first is second:
        return True
    if is_agent(first) and is_agent(second):  # each runs in the program, where it stands
        return first.needs_approval == second.needs_approval
    function = getattr(first, "__wrapped__", None)
    return function is not None and function is getattr(second, "__wrapped__", None)


def _tool(one: FunctionTool, terms: ToolTerms, context_of: ContextOf) -> Tool:
    bare = set_function_tool_failure_error_function(copy.copy(one), None)

    def begin(arguments: JsonObject, ctx: ToolContext) -> Coroutine[object, None, str | Blocks]:
        written = msgspec.json.encode(arguments).decode()
        context: FrameworkContext = FrameworkContext(
            context=context_of(ctx), tool_name=one.name, tool_call_id=ctx.call_id, tool_arguments=written
        )
        return _answer(bare, context, written)

    async def run(arguments: JsonObject, ctx: ToolContext) -> object:
        return await begin(arguments, ctx)

    def run_sync(arguments: JsonObject, ctx: ToolContext) -> object:
        return _at_once(begin(arguments, ctx), one.name)

    function = getattr(one, "__wrapped__", None)
    is_sync = function is not None and not inspect.iscoroutinefunction(function)
    return Tool(
        one.name,
        one.description or "",
        one.params_json_schema,
        run_sync if is_sync else run,
        terms.effect(one.name),
        one.timeout_seconds,
        approval=terms.approval(one.name, is_asked=one.needs_approval is not False),
    )


async def _answer(tool: FunctionTool, context: FrameworkContext, written: str) -> str | Blocks:
    with untraced():
        return _told(tool.name, await tool.on_invoke_tool(context, written))


class _Caller:
    """In place of a loop, for a synchronous function on the thread of its call.

    The framework would lead it to one more thread, for which there would have to be a loop.
    """

    def run_in_executor(self, executor: object, function: Callable[[], object]) -> Awaitable[object]:
        """Call a function at once."""
        asyncio._set_running_loop(None)  # the function may run a loop of its own
        try:
            result = function()
        finally:
            asyncio._set_running_loop(self)  # type: ignore[arg-type]  # it has all that is used
        return _done(result)


async def _done(result: object) -> object:
    return result


def _at_once(work: Coroutine[object, None, str | Blocks], name: str) -> object:
    before = asyncio._get_running_loop()
    asyncio._set_running_loop(_Caller())  # type: ignore[arg-type]  # it has all that is used
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    finally:
        asyncio._set_running_loop(before)
        work.close()
    raise TypeError(f"tool {name!r} waits for something: make its function async")


def _told(name: str, result: object) -> str | Blocks:
    """Return a result as the framework tells it to a model. Raises MisuseError for a file by its id."""
    call = ResponseFunctionToolCall(call_id="c", name=name, arguments="{}", type="function_call")
    told = ItemHelpers.tool_call_output_item(call, result)["output"]
    if isinstance(told, str):
        return told
    blocks = [part_block(part) for part in told]
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return Blocks(blocks)
