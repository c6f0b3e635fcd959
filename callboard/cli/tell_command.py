"""`callboard tell`: words for a running agent of a session in another process."""

import click

from callboard.cli.errors import Failure
from callboard.cli.options import log_option
from callboard.cli.output import talk
from callboard.cli.owner_client import NoOwner, ask_owner
from callboard.cli.terminal_escape import safe_line
from callboard.runtime.control.wire import TellAgent


@click.command("tell")
@click.argument("session")
@click.argument("address")
@click.argument("text")
@log_option
def tell(session: str, address: str, text: str, log: str) -> int:
    """Send a message to a running agent, in the process that owns the log.

    SESSION is the whole id, and ADDRESS names one agent: `host`, or `host.1` as `callboard tree` shows it.
    The agent reads TEXT in its next request, and the command waits for that, at most 50 seconds. If there is
    no such running agent, or it ends first, the exit code is 2. Without an owner no agent is running, and the
    exit code is 3.

    \b
    Examples:
      callboard tell 20260101-abc host "Leave the tests out."
      callboard tell 20260101-abc host.2 "Look into docs/ first."
    """
    try:
        turn = ask_owner(log, TellAgent(session, address, text), int)
    except NoOwner:
        raise Failure(f"no process that owns {log} listens, so no agent can be told anything", 3) from None
    name = safe_line(address, 80)
    talk(f"{name} reads it in turn {turn}" if turn else f"{name} is busy; it reads this next")
    return 0
