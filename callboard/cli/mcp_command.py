"""`callboard mcp`: an agent, or the recordings of a log, as tools of an MCP client."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

import click

from callboard import __version__
from callboard.cli.errors import Failure, refuse_if
from callboard.cli.loading import choose_model, load_agent
from callboard.cli.options import log_option, model_option, parse_limits
from callboard.cli.recordings import key_options, keyed_log, log_keys, open_reader
from callboard.runtime import event_loop
from callboard.runtime.agent import Agent
from callboard.runtime.log import reading
from callboard.runtime.runtime import Runtime
from callboard.runtime.secrets.refs import SecretRef

if TYPE_CHECKING:
    from mcp.server.mcpserver.tools import Tool

_IDLE_S = 600.0  # seconds after which an unused session leaves memory


@click.command("mcp")
@click.argument("agent", default="", required=False, metavar="[MODULE:AGENT]")
@model_option
@click.option(
    "--limit",
    "limits",
    metavar="NAME=VALUE",
    multiple=True,
    help="Limit each session, as `run` does.",
)
@click.option(
    "--secret",
    "names",
    metavar="NAME",
    multiple=True,
    help="Keep the value of the environment variable NAME out of logs; tools get it by ctx.secret(NAME).",
)
@click.option(
    "--on-disconnect",
    type=click.Choice(["cancel", "detach"]),
    default="cancel",
    show_default=True,
    help="For a client that gives up: cancel its ask, or let it continue.",
)
@click.option("--recordings", is_flag=True, help="Let the client read every recording of the log.")
@click.option(
    "--http", "port", type=click.IntRange(0, 65_535), help="Serve on this loopback port; 0 for any free one."
)
@log_option
@key_options
def mcp(
    agent: str,
    model: str,
    limits: tuple[str, ...],
    names: tuple[str, ...],
    on_disconnect: Literal["cancel", "detach"],
    recordings: bool,
    port: int | None,
    log: str,
) -> int:
    """Serve an agent, or the recordings of a log, to an MCP client.

    With MODULE:AGENT the client gets the tools ask, wait and cancel: it gives the agent tasks, which are
    recorded in the log. A call that needs a person is answered by `callboard approvals`.

    With --recordings the client gets read-only tools for all recordings of the log: sessions, tree, events,
    state, request, verify, search, diagnose, why, diff. This lets a coding assistant look into a recording,
    but also lets the client's model read what other users said. Both options may be given.

    The client starts the command and communicates through its stdin and stdout. With --http the server
    listens on loopback, and prints its address and a random token on stderr.

    \b
    Examples:
      callboard mcp survey:host
      callboard mcp --recordings --log callboard.db
      callboard mcp survey:host --http 8765 --on-disconnect detach
    """
    refuse_if(not (agent or recordings), "name an agent, or serve the recordings of a log with --recordings")
    _check_sdk()
    tools = _recordings(log) if recordings else []
    if not agent:
        open_reader(log).close()  # refused here: a client would not see why a log cannot be read
        event_loop.run_until_signal(_serve(tools, port))
        return 0
    found, own = choose_model(load_agent(agent), model)
    secrets = [SecretRef(name) for name in names]
    make = partial(Runtime, model=own, limits=parse_limits(limits), secrets=secrets, idle_s=_IDLE_S)
    event_loop.run_until_signal(_serve_agent(tools, found, make, log, on_disconnect, port))
    return 0


def _check_sdk() -> None:
    """Raise Failure if the SDK of MCP is not installed."""
    try:
        import mcp.server  # noqa: F401  # only to see if it is there
    except ModuleNotFoundError as error:
        raise Failure(
            f"`callboard mcp` needs the SDK of MCP: pip install 'callboard[mcp]' ({error})"
        ) from None


def _recordings(log: str) -> "list[Tool]":
    """Return the tools that read a log."""
    from callboard.cli.mcp_recordings import Recordings

    key, encryption_key = log_keys()
    return Recordings(partial(reading.open_reader, log, key, encryption_key)).tools()


async def _serve_agent(
    tools: "list[Tool]",
    host: Agent,
    make: Callable[..., Runtime],
    log: str,
    on_disconnect: Literal["cancel", "detach"],
    port: int | None,
) -> None:
    """Serve the tools that ask an agent, and others. make: makes the runtime on a log."""
    from callboard.cli.mcp_asks import Asks

    async with make(keyed_log(log)) as runtime:
        await _serve([*tools, *Asks(runtime, host, log, on_disconnect).tools()], port)


async def _serve(tools: "list[Tool]", port: int | None) -> None:
    """Serve until the client leaves or the process is told to end."""
    from mcp.server import MCPServer

    server = MCPServer("callboard", version=__version__, tools=tools)
    if port is None:
        await server.run_stdio_async()
        return
    from callboard.cli.mcp_http import serve_http

    await serve_http(server, port)
