"""A small MCP server for the files of one folder, on stdin and stdout.

python examples/mcp_files/server.py FOLDER
"""

import sys

from mcp.server import MCPServer

from callboard import Files

FILES = Files(sys.argv[1] if len(sys.argv) > 1 else ".", write=["."])
server = MCPServer("files")


@server.tool()
def list_files() -> str:
    """List the files of the folder, one a line."""
    return "\n".join(sorted(entry.path for entry in FILES.walk()))


@server.tool()
def read_file(path: str) -> str:
    """Read a text file."""
    return FILES.read_text(path)


@server.tool()
def write_file(path: str, text: str) -> str:
    """Write a text file."""
    FILES.write_text(path, text)
    return f"wrote {len(text)} characters to {path}"


if __name__ == "__main__":
    server.run("stdio")
