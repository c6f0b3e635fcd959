"""The tools over the Model Context Protocol."""

import inspect

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from regreader.tools import Tools, on_loop


def server_of(tools: Tools) -> MCPServer:
    """Return a server with the ten tools. A client reads why a call failed."""
    server = MCPServer("regreader", instructions=f"Begin with list_regulations. {inspect.getdoc(Tools)}")
    for function in tools.by_name().values():
        server.add_tool(on_loop(function, ToolError))
    return server
