"""A small MCP server for the files of one folder, on stdin and stdout.

python examples/mcp_files/server.py FOLDER
"""

import sys
from pathlib import Path

from mcp.server import MCPServer

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
server = MCPServer("files")


def inside(path: str) -> Path:
    """Return a path in the folder. Raises ValueError for one outside of it."""
    found = (ROOT / path).resolve()
    if not found.is_relative_to(ROOT):
        raise ValueError(f"{path} is outside of the folder")
    return found


@server.tool()
def list_files() -> str:
    """List the files of the folder, one a line."""
    return "\n".join(sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()))


@server.tool()
def read_file(path: str) -> str:
    """Read a text file."""
    return inside(path).read_text()


@server.tool()
def write_file(path: str, text: str) -> str:
    """Write a text file."""
    inside(path).write_text(text)
    return f"wrote {len(text)} characters to {path}"


if __name__ == "__main__":
    server.run("stdio")
