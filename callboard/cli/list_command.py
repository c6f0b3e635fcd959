"""`callboard sessions`: the sessions of a log."""

from typing import NamedTuple

import click

from callboard.actors.protocol.codec import UnreadableBody, decode
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.messages import Ask, AskEnded, SessionClosed
from callboard.cli.formats import local, utc
from callboard.cli.options import json_option, log_option
from callboard.cli.output import emit_json, emit_lines, table, talk
from callboard.cli.recordings import open_reader
from callboard.cli.terminal_escape import safe_line
from callboard.runtime.log.protocol import LogReader, SessionRow

_TAIL_EVENTS = 32
"""Events read from the end: after an ask's end only stragglers and the close follow."""


class End(NamedTuple):
    """The end of a session. kind: the ending of its last ask, if that is among the last events."""

    is_closed: bool
    kind: str = ""
    is_asked: bool = True

    @property
    def text(self) -> str:
        """Return it in a word or two."""
        if self.is_closed:
            return self.kind or "closed"
        if self.kind:
            return f"{self.kind}, open"
        return "unfinished" if self.is_asked else "open"


@click.command("sessions")
@click.option("-n", "--number", default=20, show_default=True, help="At most so many; 0 for all.")
@log_option
@json_option
def sessions(number: int, log: str, as_json: bool) -> None:
    """List the recorded sessions, newest first.

    ENDED tells how the last prompt of a session ended; a session that was not closed is `open`, and
    `unfinished` while a prompt has no outcome: it still runs, or its process ended before it did, and then
    `callboard resume` goes on with it.

    \b
    Examples:
      callboard sessions
      callboard sessions -n 0 --json | jq -r '.sessions[].session'
    """
    with open_reader(log) as reader:
        rows = reader.sessions()
        listed = rows[:number] if number > 0 else rows
        ends = [end_of(reader, row) for row in listed]
    if as_json:
        emit_json({"log": log, "total": len(rows), "sessions": list(map(_json, listed, ends))})
        return
    if listed:
        cells = [
            (row.session_id, local(row.created_ms), f"{row.head:,}", end.text, safe_line(row.title, 200))
            for row, end in zip(listed, ends, strict=True)
        ]
        emit_lines(table(cells, ("SESSION", "STARTED", "EVENTS", "ENDED", "PROMPT"), right=(2,)))
    if len(rows) > len(listed):
        talk(f"{len(rows) - len(listed):,} more; -n 0 shows all")
    elif not rows:
        talk("the log holds no session yet; record one with `callboard run`")


def end_of(reader: LogReader, row: SessionRow) -> End:
    """Return how a session ended, from its last few events."""
    # More events than that follow an ask only: without one there is nothing but the opening.
    is_closed, kind, is_asked = False, "", row.head > _TAIL_EVENTS
    for stored in reader.events(row.session_id, max(1, row.head - _TAIL_EVENTS + 1), _TAIL_EVENTS):
        try:
            body = decode(stored.body)
        except UnreadableBody:
            return End(False, "unreadable")
        is_closed = is_closed or isinstance(body, SessionClosed)
        is_asked = is_asked or isinstance(body, Ask)
        kind = body.kind if isinstance(body, AskEnded) else "" if isinstance(body, Ask) else kind
    return End(is_closed, kind, is_asked)


def _json(row: SessionRow, end: End) -> dict[str, object]:
    return {
        "session": row.session_id,
        "title": row.title,
        "started": utc(row.created_ms),
        "events": row.head,
        "is_closed": end.is_closed,
        "kind": end.kind or None,
        "status": STATUS.get(end.kind) if end.kind else None,  # type: ignore[call-overload]
    }
