"""The tools over the Model Context Protocol."""

from mcp.server import MCPServer

from regreader.tools import Tools


def server_of(tools: Tools) -> MCPServer:
    """Return a server with the ten tools."""
    server = MCPServer("regreader", instructions="Reads regulations. Begin with list_regulations.")
    for name, function in tools.by_name().items():
        server.add_tool(function, name=name)
    return server


def serve(tools: Tools) -> None:
    """Serve on stdin and stdout until the client ends."""
    server_of(tools).run("stdio")
