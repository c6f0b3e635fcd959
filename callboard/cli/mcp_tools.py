"""Tools of `callboard mcp`: a wrong argument is refused, and an error says what to do next."""

import functools
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

import click
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool

from callboard.actors.protocol.errors import CallboardError

P = ParamSpec("P")
R = TypeVar("R")


def tool_of(function: Callable[..., Awaitable[Any]], **options: Any) -> Tool:
    """Return the tool of a function. options: as of `Tool.from_function`."""
    made = Tool.from_function(_told(function), **options)
    # The SDK ignores an argument that the function lacks, so `verify(session_id=...)` would look at another
    # session than the client's model believes.
    arguments = made.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    made.parameters = arguments.model_json_schema(by_alias=True)
    return made


def _told(tool: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
    """Return the function of a tool with its errors as texts for the client."""

    @functools.wraps(tool)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await tool(*args, **kwargs)
        except click.ClickException as error:
            raise ToolError(error.message) from error
        except CallboardError as error:
            raise ToolError(str(error)) from error

    return call
