"""`callboard events`: what stands in the log, event by event."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, get_args

import click
from rich.text import Text

from callboard.actors.protocol.addresses import CLIENT, PORTS, SUPERVISOR
from callboard.actors.protocol.codec import UnreadableBody, decode
from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage, CallModel, SessionClosed
from callboard.cli.errors import misused
from callboard.cli.formats import local_time, utc
from callboard.cli.message_summary import summary_of
from callboard.cli.options import Command, json_option, log_option, session_argument
from callboard.cli.output import console_on, emit_json, emit_lines, talk
from callboard.cli.recordings import find_session, open_reader
from callboard.cli.terminal_escape import safe_line
from callboard.runtime.log.protocol import LogReader, Stored

KINDS: Final = tuple(sorted(kind.__name__ for kind in get_args(AnyMessage)))
_PAGE: Final = 1_000
_POLL_S: Final = 0.2
_WIDE_FROM: Final = 110


@dataclass(frozen=True)
class Filter:
    """Which events are wanted. Empty means all."""

    start: int = 1
    upto: int | None = None
    kinds: frozenset[str] = frozenset()
    actors: frozenset[str] = frozenset()

    def takes(self, event: Event) -> bool:
        """Whether this event is wanted. An actor's events: what it sent or got, and grants for it."""
        if self.kinds and event.kind not in self.kinds:
            return False
        if not self.actors:
            return True
        granted = event.body.agent if isinstance(event.body, CallModel) else ""
        return bool(self.actors & {event.sender, event.recipient, granted})


@click.command("events", cls=Command)
@session_argument
@click.option("--from", "start", type=click.IntRange(min=1), default=1, metavar="N", help="From event N on.")
@click.option("--to", "upto", type=click.IntRange(min=1), metavar="N", help="Up to event N.")
@click.option(
    "--kind", "kinds", multiple=True, metavar="K", help="Only this kind of message. May be repeated."
)
@click.option(
    "--actor", "actors", multiple=True, metavar="A", help="Only what this actor sent or got. May be repeated."
)
@click.option("-f", "--follow", is_flag=True, help="Wait for more, until the session is closed.")
@log_option
@json_option
def events(
    session: str,
    start: int,
    upto: int | None,
    kinds: tuple[str, ...],
    actors: tuple[str, ...],
    follow: bool,
    log: str,
    as_json: bool,
) -> None:
    """List a session's events, one a line.

    A line has the event's number, the local time, who sent what kind of message to whom, the event it
    answers, and what it says. With --json each line is a JSON object with the whole message under `body`
    and the time in UTC. On a terminal of less than 110 columns the time and the event it answers
    are left out.

    An actor is `host`, a sub-agent such as `host.1`, `supervisor`, or an edge to the world: `model`,
    `tools`, `schema`, `clock`, `client`.

    \b
    Examples:
      callboard events --from 10 --to 20
      callboard events 2026 --kind CallTool --kind ToolReturned --actor host.1
      callboard events --json | jq -r 'select(.kind == "ModelReplied") | .body.usage'
      callboard events --follow
    """
    wanted = Filter(start, upto, _kinds(kinds), _actors(actors))
    width = console_on().width
    with open_reader(log) as reader:
        row = find_session(reader, session)
        if start > row.head and not follow:
            talk(f"session {row.session_id} has {row.head} events; there is none from {start} on")
        found = chosen(reader, row.session_id, wanted, is_endless=follow)
        if as_json:
            for stored, event in found:
                emit_json(event_json(row.session_id, stored, event), is_line=True)
        else:
            emit_lines(line_of(event, width) for _, event in found)


def chosen(
    reader: LogReader, session_id: str, wanted: Filter, *, is_endless: bool
) -> Iterator[tuple[Stored, Event]]:
    """The events that are wanted, as stored and as read."""
    for stored in stream(reader, session_id, wanted, is_endless=is_endless):
        event = event_of(session_id, stored)
        if wanted.takes(event):
            yield stored, event


def stream(reader: LogReader, session_id: str, wanted: Filter, *, is_endless: bool) -> Iterator[Stored]:
    """The stored events, page by page; endless: until the session is closed."""
    following = wanted.start
    while (room := _room(wanted, following)) > 0:
        page = reader.events(session_id, following, room)
        yield from page
        following += len(page)
        if _is_last(session_id, page, is_endless=is_endless):
            return
        if not page:
            time.sleep(_POLL_S)


def _room(wanted: Filter, following: int) -> int:
    return _PAGE if wanted.upto is None else min(_PAGE, wanted.upto - following + 1)


def _is_last(session_id: str, page: Sequence[Stored], *, is_endless: bool) -> bool:
    """Whether nothing follows this page."""
    if not is_endless:
        return not page
    return bool(page) and isinstance(event_of(session_id, page[-1]).body, SessionClosed)


def event_of(session_id: str, stored: Stored) -> Event:
    """The event of a stored row. Raises CorruptLog."""
    try:
        body = decode(stored.body)
    except UnreadableBody as error:
        raise CorruptLog(
            f"session {session_id}, event {stored.seq}: {error}", session_id, stored.seq
        ) from None
    return Event(stored.seq, stored.at, stored.sender, stored.recipient, stored.cause, body)


def event_json(session_id: str, stored: Stored, event: Event) -> dict[str, object]:
    """The event with its envelope."""
    return {
        "session": session_id,
        "seq": stored.seq,
        "at": utc(stored.at),
        "sender": stored.sender,
        "recipient": stored.recipient,
        "cause": stored.cause,
        "kind": event.kind,
        "body": Json(stored.body),
        "digest": stored.digest.hex(),
    }


def line_of(event: Event, width: int) -> Text:
    """The event in one line. Where there is little room, what it says goes before when and why."""
    route = f"{safe_line(event.sender)} → {safe_line(event.recipient)}"
    line = Text(f"{event.seq:>5}  ", style="bold")
    if width >= _WIDE_FROM:
        line.append(f"{local_time(event.at)}  ", style="not bold dim")
    line.append(f"{route:<20}  ", style="not bold")
    line.append(f"{event.kind:<15}", style=f"not bold {style_of(event)}")
    if width >= _WIDE_FROM:
        line.append(f"  ←{event.cause:<5}" if event.cause else " " * 8, style="not bold dim")
    line.append(f"  {summary_of(event.body)}", style="not bold")
    line.rstrip()
    return line


def style_of(event: Event) -> str:
    """The colour of a kind of message: inputs from the world, and what deciders say."""
    if event.sender in PORTS:
        return "green" if event.sender != CLIENT else "magenta"
    return "cyan" if event.sender == SUPERVISOR else "blue"


def _kinds(names: tuple[str, ...]) -> frozenset[str]:
    """The kinds, however they are capitalised."""
    known = {kind.lower(): kind for kind in KINDS}
    for name in names:
        if name.lower() not in known:
            raise misused(f"there is no kind {name!r}; kinds: {', '.join(KINDS)}")
    return frozenset(known[name.lower()] for name in names)


def _actors(names: tuple[str, ...]) -> frozenset[str]:
    for name in names:
        if name not in PORTS and name != SUPERVISOR and not name.startswith("host"):
            known = ", ".join(sorted(PORTS))
            raise misused(
                f"there is no actor {name!r}; write host, host.1, ..., {SUPERVISOR}, or one of {known}"
            )
    return frozenset(names)
