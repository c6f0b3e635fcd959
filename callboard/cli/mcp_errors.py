"""Errors of callboard as results of tools: the client's model reads what to do next, and no traceback."""

import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

import click
from mcp.server.mcpserver.exceptions import ToolError

from callboard.actors.protocol.errors import CallboardError

P = ParamSpec("P")
R = TypeVar("R")


def told(tool: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
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
