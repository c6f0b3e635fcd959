"""The tools of a graph as tools of ours, made of their definitions.

A call may run in another process than the run that wants it, and before that is executed again. So a tool
gets its arguments, and nothing of the graph's run: one that takes the state, the store or the runtime of a
graph is refused, unless it runs in the program.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, get_args, get_type_hints

from langchain.agents.middleware import ShellToolMiddleware
from langchain_core.tools import BaseTool, InjectedToolArg, ToolException
from langchain_core.tools.base import _handle_tool_error
from langgraph.prebuilt.tool_node import _get_all_injected_args
from langgraph.pregel._utils import get_function_nonlocals
from langgraph.types import Command, interrupt
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from callboard.actors.protocol.errors import InvalidAgent, MisuseError
from callboard.actors.protocol.immutable import JsonObject
from callboard.runtime.brains.langgraph_doors import untraced
from callboard.runtime.brains.langgraph_messages import content_blocks, result_text
from callboard.runtime.brains.langgraph_requests import definition
from callboard.runtime.brains.tool_terms import ToolTerms
from callboard.runtime.outputs.tool_output import ToolOutput
from callboard.runtime.tools.output import Blocks
from callboard.runtime.tools.tool import Tool, tool

_HANDLED: Final = f"{ToolException.__name__}: "
INTERRUPT: Final = "answer_interrupt"
"""The tool by which a person answers `interrupt()`."""


def tools_by_name(found: Sequence[BaseTool]) -> dict[str, BaseTool]:
    """Return tools by their names. Raises InvalidAgent for two of one name."""
    known: dict[str, BaseTool] = {}
    for one in found:
        if known.setdefault(one.name, one) is not one:
            raise InvalidAgent(f"two tools of the graph have the name {one.name!r}; rename one")
    return known


def tools_of(known: Mapping[str, BaseTool], terms: ToolTerms) -> list[Tool]:
    """Return the tools of a graph, without those that run in the program.

    Raises InvalidAgent for a name that it does not have, and for a tool that needs the graph's run.
    """
    terms.check(known, "the graph has")
    for one in known.values():
        _check_shell(one)
    if asked := sorted(set(terms.in_program) & terms.approvals.keys()):
        raise InvalidAgent(
            f"approvals names {asked[0]!r}, which runs in the program: let it call `interrupt` instead"
        )
    return [_tool(one, terms) for name, one in known.items() if name not in terms.in_program]


def _tool(one: BaseTool, terms: ToolTerms) -> Tool:
    if taken := _of_run(one):
        raise InvalidAgent(
            f"tool {one.name!r} takes {taken[0]!r} of the graph's run, and a call may run in another "
            "process: give it arguments instead, or name it in `in_program`"
        )
    if any(interrupt in get_function_nonlocals(function) for function in functions_of(one)):
        raise InvalidAgent(
            f"tool {one.name!r} calls `interrupt`, which only the graph's run can answer: name it in "
            "`in_program`"
        )
    try:
        told = definition(one)
    except MisuseError as error:
        raise InvalidAgent(str(error)) from None

    raising = _raising(one)

    async def in_loop(arguments: JsonObject) -> object:
        with untraced():
            return _result(one, await raising.arun(arguments))

    def on_thread(arguments: JsonObject) -> object:
        with untraced():
            return _result(one, raising.run(arguments))

    function = in_loop if _is_async(one) else on_thread
    effect, approval = terms.effect(one.name), terms.approval(one.name)
    return Tool(one.name, told["description"], told["input_schema"], function, effect, approval=approval)


def _raising(one: BaseTool) -> BaseTool:
    """Return a tool that raises the words of its own handler of errors, so that its call is a failed one."""
    if not (handler := one.handle_tool_error):
        return one

    def told(error: ToolException) -> str:
        content: Any = _handle_tool_error(error, flag=handler)
        raise ToolException(result_text(content)) from error

    return one.model_copy(update={"handle_tool_error": told})


def handled_words(one: BaseTool, text: str) -> str | None:
    """Return the words of a tool's own handler of errors; None for a failure that it does not handle.

    text: of the failed call.
    """
    _, mark, words = text.partition(_HANDLED)
    return words if mark and one.handle_tool_error else None


def _check_shell(one: BaseTool) -> None:
    if any(function.__module__ == ShellToolMiddleware.__module__ for function in functions_of(one)):
        raise InvalidAgent(
            f"tool {one.name!r} runs commands in a shell of the graph's run, which is executed again after a "
            "restart, with its commands: give it a tool that runs one command, with an effect"
        )


def functions_of(one: BaseTool) -> list[Callable[..., Any]]:
    """Return the functions that a tool may run."""
    found = (getattr(one, "func", None), getattr(one, "coroutine", None), type(one)._run, type(one)._arun)
    return [function for function in found if function is not None]


def _is_async(one: BaseTool) -> bool:
    if hasattr(one, "coroutine"):  # of a function, or of two
        return one.coroutine is not None
    return type(one)._arun is not BaseTool._arun


def _result(one: BaseTool, found: object) -> object:
    """Return what a tool has found as text, JSON values, or its own `ToolOutput`. Raises MisuseError."""
    if isinstance(found, Command):
        raise MisuseError(
            f"tool {one.name!r} returns a Command, which changes the graph: name it in `in_program`"
        )
    if isinstance(found, str | ToolOutput):
        return found
    if isinstance(found, list) and found and all(isinstance(one, dict) and "type" in one for one in found):
        return Blocks(content_blocks(found))
    try:
        return to_jsonable_python(found)
    except ValueError:
        return str(found)


def _of_run(one: BaseTool) -> list[str]:
    """Return the parameters of a tool that a graph's run fills in."""
    injected = _get_all_injected_args(one)
    single = {name for name in (injected.runtime, injected.store) if name is not None}
    taken = {*injected.all_injected_keys, *injected.state} | single
    return sorted(taken - _left_out(one))


def _left_out(one: BaseTool) -> frozenset[str]:
    """Return the parameters that a run may fill in or leave out, as `runtime` in langchain-mcp-adapters."""
    function = getattr(one, "func", None) or getattr(one, "coroutine", None)
    return frozenset() if function is None else _optional(function)


@functools.lru_cache(1_000)
def _optional(function: Callable[..., object]) -> frozenset[str]:
    hints = get_type_hints(function, include_extras=True)
    return frozenset(
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not parameter.empty
        and any(type(mark) is InjectedToolArg for mark in get_args(hints.get(name)))
    )


def checked(one: BaseTool, arguments: JsonObject) -> None:
    """Check arguments as the framework does. Raises pydantic.ValidationError, which it tells the model."""
    kind = one.args_schema
    if inspect.isclass(kind) and issubclass(kind, BaseModel):
        kind.model_validate(arguments)


def arguments_of(one: BaseTool, wanted: str | Mapping[str, Any]) -> JsonObject:
    """Return the arguments of a call by name, without those of the graph's run.

    Raises ToolException for a text where there are several.
    """
    if not isinstance(wanted, str):
        left_out = _left_out(one)
        return {name: given for name, given in wanted.items() if name not in left_out}
    names = list(one.args)
    if len(names) != 1:
        raise ToolException(f"{one.name} takes {len(names)} arguments, not a text")
    return {names[0]: wanted}


@tool(name=INTERRUPT, effect="read", approval="before")
def answer_interrupt(asked: Any, answer: Any) -> JsonObject:
    """Ask a person, and return the answer. Approve it as it is, or with another `answer` in the arguments."""
    return {"answer": answer}
