"""`callboard delete` and `vacuum`: sessions that leave a log, through its owner if there is one."""

import asyncio
import sys
from collections.abc import Sequence

import click

from callboard.cli.errors import refuse_if
from callboard.cli.export_command import opened_log
from callboard.cli.options import log_option
from callboard.cli.output import is_terminal, talk
from callboard.cli.owner_client import NoOwner, ask_owner, is_shared
from callboard.cli.recordings import find_session, key_options, open_reader
from callboard.cli.sessions_command import parse_since
from callboard.cli.terminal_escape import safe_line
from callboard.replay.formats import counted
from callboard.replay.reading import titled
from callboard.runtime.clock import now_ms
from callboard.runtime.control.wire import DeleteSession, PruneSessions, Vacuum
from callboard.runtime.log import session_rows as trees
from callboard.runtime.log.opening import cut, erase
from callboard.runtime.log.reading import is_server, shown_address
from callboard.runtime.log.session_rows import STATUSES, ForksChoice
from callboard.runtime.sessions.catalog import last_use_ms, queries_of


@click.command("delete")
@click.argument("session", default="", required=False)
@click.option("--with-forks", is_flag=True, help="Also delete its forks, and their forks.")
@click.option("--keep-forks", is_flag=True, help="Keep its forks, and the events that they share.")
@click.option(
    "--older-than", metavar="WHEN", help="All sessions without an event since: 30d, 12h, or a date."
)
@click.option(
    "--status",
    "statuses",
    type=click.Choice([*STATUSES, "any"]),
    multiple=True,
    help="With --older-than, may be repeated; `open` sessions are idle.  [default: closed]",
)
@click.option("--tag", metavar="TAG", help="With --older-than: only sessions with this tag.")
@click.option("--yes", is_flag=True, help="Delete without asking.")
@log_option
@key_options
def delete(
    session: str,
    with_forks: bool,
    keep_forks: bool,
    older_than: str | None,
    statuses: tuple[str, ...],
    tag: str | None,
    yes: bool,
    log: str,
) -> None:
    """Delete a session, or all old ones, permanently.

    This removes its events, and the large values that no other session uses.

    The deleted data is overwritten in the file, and the file then becomes smaller. Copies and exports are not
    affected. If a process owns the log, that process deletes the session in small steps while it works; a
    session that it is running is not deleted.

    A session that has forks is refused, because they share its first events. --with-forks deletes all of
    them. --keep-forks deletes the events after the last shared one; the shared events stay under the
    session's id, appear in no list, and are deleted with its last fork.

    --older-than, in place of SESSION, deletes the sessions that had no event since then. A session and its
    forks are deleted together, once all of them are that old. Sessions that a process is running stay.

    \b
    Examples:
      callboard delete 20250101-survey
      callboard delete 20250101-survey --yes --keep-forks
      callboard delete --older-than 90d --status closed --status open
      callboard delete --older-than 2026-01-01 --status any --tag test --yes
    """
    refuse_if(with_forks and keep_forks, "write --with-forks or --keep-forks")
    if older_than is None:
        refuse_if(statuses or tag, "--status and --tag are for --older-than")
        refuse_if(not session, "name the session to delete; `callboard sessions` lists them")
        _delete_one(log, session, "delete" if with_forks else "keep" if keep_forks else "refuse", yes)
        return
    refuse_if(session or with_forks or keep_forks, "--older-than takes sessions with their forks: name none")
    _delete_old(log, parse_since(older_than), statuses or ("closed",), tag, yes)


def _delete_one(log: str, session: str, choice: ForksChoice, yes: bool) -> None:
    with open_reader(log) as reader:
        known = [row.session_id for row in reader.sessions()]
        if is_server(log) and session not in known and is_shared(log, session):
            _withdraw(log, session, yes)
            return
        (row,) = titled(reader, [find_session(reader, session)])
        names = trees.with_forks(reader.sessions(), row.session_id)
    names = names if choice == "delete" else [row.session_id]
    what = f"{safe_line(row.session_id)} ({counted(row.head, 'event')}: {safe_line(row.title, 60)})"
    also = f" and {counted(len(names) - 1, 'fork')}" if len(names) > 1 else ""
    _confirm(f"Delete session {what}{also} permanently?", yes)
    try:
        count = ask_owner(log, DeleteSession(row.session_id, choice), int)
    except NoOwner:
        count = asyncio.run(_erase(log, names, keep_forks=choice == "keep"))
    talk(f"session {safe_line(row.session_id)} deleted, {counted(count, 'event')}")


def _withdraw(log: str, session: str, yes: bool) -> None:
    """Delete a session that was submitted, and that no worker has opened yet."""
    shown = safe_line(session, 80)
    _confirm(f"Withdraw session {shown}, which no worker has opened yet?", yes)
    ask_owner(log, DeleteSession(session, "refuse"), int)
    talk(f"session {shown} withdrawn")


def _delete_old(log: str, before_ms: int, statuses: Sequence[str], tag: str | None, yes: bool) -> None:
    """Delete the sessions without an event since a moment. before_ms: milliseconds since 1970."""
    wanted = None if "any" in statuses else tuple(one for one in STATUSES if one in statuses)
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
@click.option("--full", is_flag=True, help="Rewrite the whole file in its smallest form.")
@log_option
@key_options
def vacuum(full: bool, log: str) -> None:
    """Return the space of deleted sessions to the file system.

    Without --full, the process that owns the log, if there is one, cuts free pages off the file. With --full
    the whole log is rewritten, which needs as much free space as the size of the log, and a log without an
    owner.

    \b
    Examples:
      callboard vacuum
      callboard vacuum --full
    """
    with open_reader(log):  # so that a wrong name makes no new log
        pass
    talk(f"{shown_address(log)} has {_cut(log, full):,} bytes less than before")


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
