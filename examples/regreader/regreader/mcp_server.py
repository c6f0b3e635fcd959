"""The tools over the Model Context Protocol, on stdin and stdout."""

import functools
from collections.abc import Callable
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from regreader.tools import ToolFailure, Tools


def server_of(tools: Tools) -> MCPServer:
    """Return a server with the ten tools."""
    server = MCPServer("regreader", instructions="Reads regulations. Begin with list_regulations.")
    for name, function in tools.by_name().items():
        server.add_tool(_told(function), name=name)
    return server


def _told(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Wrap a tool, so that the client reads why a call failed."""

    @functools.wraps(function)
    def call(**arguments: Any) -> dict[str, Any]:
        try:
            return function(**arguments)
        except ToolFailure as error:
            raise ToolError(str(error)) from None

    return call
