"""`callboard delete`: remove a session permanently."""

import asyncio
import sys

import click

from callboard.cli.errors import refuse_if
from callboard.cli.formats import counted
from callboard.cli.options import log_option
from callboard.cli.output import is_terminal, talk
from callboard.cli.recordings import find_session, key_options, log_keys, open_reader
from callboard.cli.terminal_escape import safe_line
from callboard.runtime.log.opening import open_log
from callboard.runtime.log.protocol import SessionRow


@click.command("delete")
@click.argument("session")
@click.option("--yes", is_flag=True, help="Delete without asking.")
@log_option
@key_options
def delete(session: str, yes: bool, log: str) -> None:
    """Delete a session permanently: its events, and the large values that no other session uses.

    The deleted data is overwritten in the file, and the file then gets smaller. Copies and exports are not
    touched. No other process may have the log open.

    \b
    Examples:
      callboard delete 20250101-survey
      callboard delete 20250101-survey --yes
    """
    refuse_if(not session, "name the session to delete; `callboard sessions` lists them")
    with open_reader(log) as reader:
        row = find_session(reader, session)
    if not yes:
        _ask(row)
    count = asyncio.run(_delete(log, row.session_id))
    talk(f"session {safe_line(row.session_id)} deleted, {counted(count, 'event')}")


def _ask(row: SessionRow) -> None:
    """Ask the user to confirm. Raises Failure if the answer is no, or if stdin is not a terminal."""
    is_heard = is_terminal(sys.stdin)
    refuse_if(
        not is_heard, "stdin is not a terminal, so the question cannot be asked; --yes deletes without it"
    )
    what = f"{safe_line(row.session_id)} ({counted(row.head, 'event')}: {safe_line(row.title, 60)})"
    is_sure = click.confirm(f"Delete session {what} permanently?", err=True)
    refuse_if(not is_sure, "nothing was deleted")


async def _delete(address: str, session_id: str) -> int:
    key, encryption_key = log_keys()
    log = open_log(address, key=key, encryption_key=encryption_key)
    await log.open()
    try:
        return await log.delete(session_id)
    finally:
        await log.close()
