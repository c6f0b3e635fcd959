"""`callboard delete`, `prune` and `vacuum`: sessions that leave a log, through its owner if there is one."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Literal

import click

from callboard.cli.errors import refuse_if
from callboard.cli.formats import counted
from callboard.cli.import_command import opened_log
from callboard.cli.options import log_option
from callboard.cli.output import is_terminal, talk
from callboard.cli.owner_client import NoOwner, ask_owner
from callboard.cli.recordings import find_session, key_options, open_reader
from callboard.cli.sessions_command import parse_since
from callboard.cli.terminal_escape import safe_line
from callboard.replay.titles import titled
from callboard.runtime.clock import now_ms
from callboard.runtime.control.wire import DeleteSession, PruneSessions, Vacuum
from callboard.runtime.log import forks as trees
from callboard.runtime.log.forks import ForksChoice
from callboard.runtime.log.removal import cut, erase
from callboard.runtime.log.session_rows import STATUSES, SessionStatus
from callboard.runtime.sessions.catalog import last_use_ms, queries_of

_yes_option = click.option("--yes", is_flag=True, help="Delete without asking.")


@click.command("delete")
@click.argument("session")
@click.option("--with-forks", is_flag=True, help="Delete its forks, and theirs, too.")
@click.option("--keep-forks", is_flag=True, help="Keep its forks, and the events that they share.")
@_yes_option
@log_option
@key_options
def delete(session: str, with_forks: bool, keep_forks: bool, yes: bool, log: str) -> None:
    """Delete a session permanently: its events, and the large values that no other session uses.

    The deleted data is overwritten in the file, and the file then gets smaller. Copies and exports are not
    touched. If a process owns the log, that process deletes the session in small steps beside its work; a
    session that it runs is not deleted.

    A session that has forks is refused, since they share its first events. --with-forks deletes all of them.
    --keep-forks deletes the events behind the last shared one; the shared ones stay under the session's id,
    in no list, and go with its last fork.

    \b
    Examples:
      callboard delete 20250101-survey
      callboard delete 20250101-survey --yes --keep-forks
    """
    refuse_if(with_forks and keep_forks, "write --with-forks or --keep-forks")
    refuse_if(not session, "name the session to delete; `callboard sessions` lists them")
    with open_reader(log) as reader:
        (row,) = titled(reader, [find_session(reader, session)])
        names = trees.with_forks(reader.sessions(), row.session_id)
    what = f"{safe_line(row.session_id)} ({counted(row.head, 'event')}: {safe_line(row.title, 60)})"
    also = f" and {counted(len(names) - 1, 'fork')}" if with_forks and len(names) > 1 else ""
    _confirm(f"Delete session {what}{also} permanently?", yes)
    choice: ForksChoice = "delete" if with_forks else "keep" if keep_forks else "refuse"
    try:
        count = ask_owner(log, DeleteSession(row.session_id, choice), int)
    except NoOwner:
        chosen = names if with_forks else [row.session_id]
        count = asyncio.run(_erase(log, chosen, keep_forks=keep_forks))
    talk(f"session {safe_line(row.session_id)} deleted, {counted(count, 'event')}")


@click.command("prune")
@click.option(
    "--older-than", metavar="WHEN", required=True, help="Without an event since: 30d, 12h, or a date."
)
@click.option(
    "--status",
    "statuses",
    type=click.Choice([*STATUSES, "any"]),
    multiple=True,
    default=["closed"],
    show_default=True,
    help="Only these; open ones are idle conversations. May be repeated.",
)
@click.option("--tag", metavar="TAG", help="Only sessions with this tag.")
@_yes_option
@log_option
@key_options
def prune(
    older_than: str,
    statuses: tuple[SessionStatus | Literal["any"], ...],
    tag: str | None,
    yes: bool,
    log: str,
) -> None:
    """Delete the sessions that had no event for so long.

    It deletes as `callboard delete` does. A session and its forks go together, once all of them are that
    old. Sessions that a process runs stay.

    \b
    Examples:
      callboard prune --older-than 90d
      callboard prune --older-than 90d --status closed --status open
      callboard prune --older-than 2026-01-01 --status any --tag test --yes
    """
    before_ms = parse_since(older_than)
    wanted = tuple(one for one in statuses if one != "any") if "any" not in statuses else None
    queries = queries_of(wanted, tag)
    with open_reader(log) as reader:
        rows = reader.sessions()
    old = trees.whole_trees(
        rows, lambda row: any(one.has(row) for one in queries) and last_use_ms(row) < before_ms
    )
    if not old:
        talk("no session is that old")
        return
    _confirm(f"Delete {counted(len(old), 'session')} permanently?", yes)
    order = PruneSessions((now_ms() - before_ms) / 1_000, wanted, tag)
    try:
        talk(f"{counted(ask_owner(log, order, int), 'session')} deleted")
    except NoOwner:
        count = asyncio.run(_erase(log, [row.session_id for row in old]))
        talk(f"{counted(len(old), 'session')} deleted, {counted(count, 'event')}")


@click.command("vacuum")
@click.option("--full", is_flag=True, help="Write the whole file again, in its smallest form.")
@log_option
@key_options
def vacuum(full: bool, log: str) -> None:
    """Give the space of deleted sessions back to the file system.

    Without --full, free pages are cut off the file, by the process that owns the log if there is one. With
    it the whole log is written again, which needs as much free space as the log has, and no owner.

    \b
    Examples:
      callboard vacuum
      callboard vacuum --full
    """
    with open_reader(log):  # so that a wrong name makes no new log
        pass
    talk(f"{log} has {_cut(log, full):,} bytes less than before")


def _confirm(question: str, yes: bool) -> None:
    if not yes:
        why = "stdin is not a terminal, so the question cannot be asked; --yes deletes without it"
        refuse_if(not is_terminal(sys.stdin), why)
        refuse_if(not click.confirm(question, err=True), "nothing was deleted")


async def _erase(address: str, session_ids: Sequence[str], *, keep_forks: bool = False) -> int:
    async with opened_log(address) as log:
        return await erase(log, *session_ids, keep_forks=keep_forks)


def _cut(log: str, full: bool) -> int:
    """Make a log smaller, through its owner if there is one. Return the bytes."""
    try:
        if full:
            raise NoOwner
        return ask_owner(log, Vacuum(), int)
    except NoOwner:
        return asyncio.run(_vacuum(log, full))


async def _vacuum(address: str, full: bool) -> int:
    async with opened_log(address) as log:
        before = log.size_bytes()
        await cut(log)
        if full:
            await log.vacuum(None)
        return max(0, before - log.size_bytes())
