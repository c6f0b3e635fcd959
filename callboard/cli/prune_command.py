"""`callboard prune`: delete old sessions, beside a live owner or without one."""

import asyncio
import math
from datetime import timedelta
from typing import Final

import click

from callboard.cli.errors import refuse_if
from callboard.cli.formats import counted
from callboard.cli.options import log_option
from callboard.cli.output import talk
from callboard.cli.owner_client import NoOwner, ask_owner
from callboard.cli.recordings import key_options, keyed_log, open_reader
from callboard.runtime.control.wire import PruneSessions
from callboard.runtime.log.session_rows import SessionStatus
from callboard.runtime.runtime import Runtime

_DAY_S: Final = 86_400


@click.command("prune")
@click.option("--older-than", "days", metavar="DAYS", type=click.FloatRange(0, 100_000), required=True)
@click.option(
    "--status",
    type=click.Choice(["closed", "open", "unfinished", "any"]),
    default="closed",
    show_default=True,
    help="Only sessions of this status.",
)
@click.option("--tag", metavar="TAG", default="", help="Only sessions with this tag.")
@click.option("--yes", is_flag=True, help="Delete: without it, the command refuses.")
@log_option
@key_options
def prune(days: float, status: str, tag: str, yes: bool, log: str) -> None:
    """Delete the sessions without an event for so many days, permanently.

    If a process owns the log, that process deletes them in small steps beside its work. Sessions that it runs
    stay.

    \b
    Examples:
      callboard prune --older-than 30 --yes
      callboard prune --older-than 90 --status any --tag test --yes
    """
    refuse_if(math.isnan(days), "--older-than: write a number of days")  # no range excludes it
    refuse_if(not yes, "this deletes sessions permanently; add --yes")
    wanted = _STATUSES[status]
    order = PruneSessions(days * _DAY_S, wanted, tag or None)
    try:
        count = ask_owner(log, order, int)
    except NoOwner:
        open_reader(log).close()  # names the logs of the folder if this one does not exist
        count = asyncio.run(_prune(log, order))
    talk(f"{counted(count, 'session')} deleted")


_STATUSES: Final[dict[str, SessionStatus | None]] = {
    "closed": "closed",
    "open": "open",
    "unfinished": "unfinished",
    "any": None,
}


async def _prune(address: str, order: PruneSessions) -> int:
    async with Runtime(keyed_log(address)) as runtime:
        older_than = timedelta(seconds=order.older_than_s)
        return await runtime.prune(older_than=older_than, status=order.status, tag=order.tag)
