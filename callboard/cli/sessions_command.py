"""`callboard sessions`: the list of recorded sessions, from their rows alone."""

import re
from datetime import datetime
from typing import Final

import click

from callboard.actors.protocol.endings import STATUS
from callboard.cli.errors import misused
from callboard.cli.options import json_option, log_option
from callboard.cli.output import emit_json, emit_lines, table, talk
from callboard.cli.recordings import open_reader
from callboard.cli.terminal_escape import safe_line
from callboard.replay.formats import local, utc
from callboard.replay.reading import titled
from callboard.runtime.clock import now_ms
from callboard.runtime.log.reading import shown_address
from callboard.runtime.log.session_rows import STATUSES, SessionQuery, SessionRow, SessionStatus

_AGO: Final = re.compile(r"(\d{1,9})(s|m|h|d)", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


@click.command("sessions")
@click.option("-n", "--number", default=20, show_default=True, help="List at most this many; 0 for all.")
@click.option("--status", type=click.Choice(STATUSES), help="Only these.")
@click.option("--tag", metavar="TAG", help="Only sessions with this tag.")
@click.option("--since", metavar="WHEN", help="Only those with an event since then: 30m, 12h, 7d, or a date.")
@click.option(
    "--after", metavar="CURSOR", default="", help="The next page: `next` of the page before (--json)."
)
@log_option
@json_option
def sessions(
    number: int,
    status: SessionStatus | None,
    tag: str | None,
    since: str | None,
    after: str,
    log: str,
    as_json: bool,
) -> None:
    """List the recorded sessions, newest first.

    ENDED shows how the last prompt of a session ended. A session that was not closed is `open`, or
    `unfinished` while a prompt has no outcome: either it is still running, or its process has ended, in which
    case `callboard resume` continues it. A session that `waits for its code` has a program that differed from
    its recorded steps when a process continued it (docs/change-a-program.md). `2 failed below` says how many
    delegations of the prompt failed; one that was denied began no agent, and is not counted.

    \b
    Examples:
      callboard sessions
      callboard sessions --status unfinished --since 7d
      callboard sessions -n 0 --tag user:42 --json | jq -r '.sessions[].session'
    """
    since_ms = None if since is None else parse_since(since)
    wanted = None if number <= 0 else number
    with open_reader(log) as reader:
        found = reader.sessions(
            SessionQuery(status, tag, since_ms, after, None if wanted is None else wanted + 1)
        )
        rows = list(titled(reader, found[:wanted]))
    following = rows[-1].cursor if rows and len(found) > len(rows) else None
    if as_json:
        emit_json({"log": shown_address(log), "sessions": list(map(row_json, rows)), "next": following})
    elif rows:
        _emit(rows, has_more=following is not None)
    elif status or tag or since:
        talk("no session matches; `callboard sessions` lists all")
    else:
        talk("the log has no sessions yet; record one with `callboard run`")


def _emit(rows: list[SessionRow], *, has_more: bool) -> None:
    """Print the table."""
    cells = [
        (row.session_id, local(row.created_ms), f"{row.head:,}", ended(row), _prompt(row)) for row in rows
    ]
    emit_lines(table(cells, ("SESSION", "STARTED", "EVENTS", "ENDED", "PROMPT"), right=(2,)))
    if has_more:
        talk("there are more; -n 0 shows all")


def ended(row: SessionRow) -> str:
    """Return how a session ended, in a word or two."""
    if row.status == "unfinished":
        return "waits for its code" if row.waits_ms else "unfinished"
    parts = [row.kind, f"{row.failures} failed below" if row.failures else ""]
    state = row.status if row.status == "open" or not row.kind else ""
    return ", ".join(filter(None, [*parts, state]))


def parse_since(text: str) -> int:
    """Return the moment in milliseconds since 1970. text: `30m`, `12h`, `7d`, or a date, maybe a time."""
    if ago := _AGO.fullmatch(text):
        return now_ms() - int(ago[1]) * _SECONDS[ago[2]] * 1_000
    try:
        return round(datetime.fromisoformat(text).astimezone().timestamp() * 1_000)
    except (ValueError, OverflowError, OSError):
        raise misused(f"{safe_line(text, 80)!r}: write 30m, 12h, 7d, or a date such as 2026-01-31") from None


def _prompt(row: SessionRow) -> str:
    tags = " ".join(f"[{tag}]" for tag in row.tags)
    fork = f"(fork of {row.parent}#{row.base}) " if row.parent else ""
    return safe_line(f"{fork}{tags} {row.title}".strip(), 200)


def row_json(row: SessionRow) -> dict[str, object]:
    """Return a session as JSON."""
    return {
        "session": row.session_id,
        "title": row.title,
        "started": utc(row.created_ms),
        "last": utc(row.last_ms) if row.last_ms else None,
        "events": row.head,
        "status": row.status,
        "waits_for_code": utc(row.waits_ms) if row.waits_ms else None,
        "kind": row.kind or None,
        "failures": row.failures,
        "outcome": STATUS[row.kind] if row.kind else None,
        "host": row.host,
        "tokens": row.usage.tokens,
        "cost_usd": row.usage.cost_usd,
        "tags": row.tags,
        "metadata": row.metadata,
        "fork_of": {"session": row.parent, "seq": row.base} if row.parent else None,
    }
