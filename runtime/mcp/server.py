"""The description of an MCP server among the tools of an agent. It imports the SDK when it is first used."""

import os
from collections.abc import Mapping
from pathlib import Path

from callboard.actors.protocol.errors import InvalidAgent, MissingExtra
from callboard.runtime.mcp.config_file import Entry, read_servers
from callboard.runtime.mcp.options import ServerOptions
from callboard.runtime.tools.sources import LiveSource


class MCPServer(ServerOptions):
    """The tools of an MCP server, for `Agent(tools=[...])`.

    server: a URL, a command as a list of words, or a server object of the SDK in this process.
    tools: names or globs (`"read_*"`) of the tools that the agent gets, as the server names them; None for
        all.
    exclude: names or globs of tools that it does not get.
    approval, effects: by name or glob, an exact name first. A tool that neither names has effect "write" and
        no approval. A key that fits no tool is refused.
    trust_hints: True takes the effect from the server's own hints where `effects` says nothing. They are
        claims of the server.
    prefix: put before the name of each tool. name: of the server in the log and in errors; by default the
        prefix, or words of the command or address.
    headers: of each HTTP request. env: environment variables of a command, beside a few of this process, such
        as PATH and HOME. Values of at least 8 characters are secrets of the runtime: it never writes them.
        Each may be a function of `deps`, called before each call: other values start another connection.
    secrets: other values that are never written, by name, such as a key in an address.
    auth: of each HTTP request, an `httpx2.Auth` such as the SDK's `OAuthClientProvider`, or a user name and a
        password.
    transport: "sse" for the address of a server that speaks the transport of before 2025 only.
    cwd: folder of a command.
    share: the users of one connection; by default "session" for a command and for a URL with headers or auth,
        else "runtime".
    capabilities: that the tools need, such as `["network"]`; for some of them only, by name or glob.
    untrusted: False takes the label "untrusted" from the tools' results. Both are recorded with each tool.
    elicit: True lets a call ask a person for input, as for an approval; else such a call is an error.
    start_timeout_s: seconds that the server may take to start and to list its tools.
    timeout_s: seconds that a call may take, where that is less than the agent's `tool_timeout_s`.
    optional: True leaves out the tools of a server that cannot be reached when a session opens, and logs a
        warning.

    The list of tools is taken when a session opens, and recorded. Raises InvalidAgent.

        files = MCPServer(["uvx", "mcp-server-git"], tools=["git_log", "git_diff"], effects={"git_*": "read"})
        Agent("reader", tools=[files])
    """

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        inputs: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        **options: object,
    ) -> "list[MCPServer]":
        """Return the servers of a file that other clients read, such as `.mcp.json`, in their order.

        A server that the file disables is left out. The names of a server's tools begin with its own name.
        docs/mcp.md has the keys and variables that are read.

        inputs: values for `${input:ID}`. environ: the environment's variables; by default those of this
        process. options: of `MCPServer`, for each server, instead of those that the file gives.

        Raises InvalidAgent, which names the file, the server and the key.
        """
        entries = read_servers(path, os.environ if environ is None else environ, inputs or {})
        return [cls._of(entry, path, options) for entry in entries]

    @classmethod
    def _of(cls, entry: Entry, path: str | Path, options: Mapping[str, object]) -> "MCPServer":
        try:
            return cls(entry.server, **{**entry.options, **options})
        except InvalidAgent as error:
            raise InvalidAgent(f"{path}: server {entry.name!r}: {error}") from None

    def live(self) -> LiveSource:
        """Return the server for one runtime. Raises MissingExtra without the SDK."""
        try:
            from callboard.runtime.mcp.live import LiveServer
        except ModuleNotFoundError as error:
            if error.name is None or error.name.split(".")[0] not in ("mcp", "mcp_types", "httpx2", "anyio"):
                raise
            raise MissingExtra(
                f"MCP server {self.label!r} needs the SDK of MCP: pip install 'callboard[mcp]'"
            ) from error
        return LiveServer(self)
