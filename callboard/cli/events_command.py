"""`callboard events`: the events of a session, one a line."""

import shlex
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import tee
from typing import Final, get_args

import click
import msgspec
from rich.text import Text

from callboard.actors.protocol.addresses import CLIENT, PORTS, SUPERVISOR
from callboard.actors.protocol.client_messages import SessionClosed
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import CallModel
from callboard.actors.session.place_names import call_name
from callboard.cli.errors import refuse_if
from callboard.cli.folding import Folding
from callboard.cli.formats import local_time, utc
from callboard.cli.message_summary import summary_of
from callboard.cli.options import full_option, json_option, log_flag, log_option, session_argument
from callboard.cli.output import attributes, emit_json, emit_lines, talk, width_of_stdout
from callboard.cli.recordings import find_place, open_reader
from callboard.cli.span_lines import emit_spans
from callboard.cli.terminal_escape import indented, safe_line
from callboard.replay.grouping import Span
from callboard.runtime.log.page_sizes import PageSizes
from callboard.runtime.log.protocol import LogReader, Stored, event_of

KINDS: Final = tuple(sorted(kind.__name__ for kind in get_args(AnyMessage)))
_PAGE: Final = 1_000
_POLL_S: Final = 0.2
_WIDE_FROM: Final = 110
_ROUTE: Final = 20


@dataclass(frozen=True)
class Filter:
    """A choice of events. An empty set chooses all."""

    start: int = 1
    upto: int = sys.maxsize
    kinds: frozenset[str] = frozenset()
    actors: frozenset[str] = frozenset()

    def takes(self, event: Event) -> bool:
        """Return whether this event is chosen; an actor's events include its grants."""
        if self.kinds and event.kind not in self.kinds:
            return False
        if not self.actors:
            return True
        granted = event.body.agent if isinstance(event.body, CallModel) else ""
        return bool(self.actors & {event.sender, event.recipient, granted})

    def takes_span(self, span: Span) -> bool:
        """Return whether this span is chosen: it begins in the range, and is one of these actors'."""
        is_inside = self.start <= span.first.seq <= self.upto
        return is_inside and (not self.actors or bool(self.actors & {span.agent, span.last.sender}))


@click.command("events")
@session_argument
@click.option("--from", "start", type=click.IntRange(min=1), default=1, metavar="N", help="From event N on.")
@click.option(
    "--to", "upto", type=click.IntRange(min=1), default=sys.maxsize, metavar="N", help="Up to event N."
)
@click.option(
    "--kind", "kinds", multiple=True, metavar="K", help="Only this kind of message. May be repeated."
)
@click.option(
    "--actor",
    "actors",
    multiple=True,
    metavar="A",
    help="Only events that this actor sent or received. May be repeated.",
)
@click.option(
    "--grouped",
    is_flag=True,
    help="One line for each turn, call, delegation, report and message.",
)
@full_option
@click.option("-f", "--follow", is_flag=True, help="Wait for more, until the session is closed.")
@log_option
@json_option
def events(
    session: str,
    start: int,
    upto: int,
    kinds: tuple[str, ...],
    actors: tuple[str, ...],
    grouped: bool,
    full: bool,
    follow: bool,
    log: str,
    as_json: bool,
) -> None:
    """List a session's events, one a line.

    A line has the event's number, the local time, sender, recipient and kind, the event it answers, its call
    as AGENT:TURN:CALL, and a summary of the message. With --json each line is a JSON object with the whole
    message under `body` and the time in UTC. A terminal of less than 110 columns has no room for time, call
    and the event that is answered. Every command takes SESSION#SEQ and SESSION#AGENT:TURN:CALL.
    With --grouped a line is a turn, a call, a delegation, a report, a message to an agent, a cancel, a timer
    that fired, a context or a change of agents, from its first event to its last, with its outcome, how long
    it took, its attempts, and the events between. SESSION#SEQ is the same as --from SEQ. --full shows each
    message whole, below its line.

    An actor is `host`, a sub-agent such as `host.1`, `supervisor`, or an edge to the world: `model`,
    `tools`, `schema`, `clock`, `client`.

    \b
    Examples:
      callboard events --from 10 --to 20
      callboard events 2026 --kind CallTool --kind ToolReturned --actor host.1
      callboard events --json | jq -r 'select(.kind == "ModelReplied") | .body.usage'
      callboard events --grouped --actor host.1
      callboard events --follow
    """
    with open_reader(log) as reader:
        row, seq = find_place(reader, session)
    start = start if seq is None else max(start, seq)
    wanted = Filter(start, upto, kinds_named(kinds), _actors(actors))
    if grouped:
        refuse_if(follow or bool(kinds), "--grouped shows whole calls: leave out --follow and --kind")
        emit_spans(row.session_id, log, wanted.takes_span, as_json=as_json)
        return
    width = width_of_stdout()
    with open_reader(log) as reader:
        if start > row.head and not follow:
            talk(f"session {row.session_id} has {row.head} events, so none from {start} on")
        found = chosen(reader, row.session_id, wanted, is_endless=follow)
        if as_json:
            for stored, event in found:
                emit_json(event_json(row.session_id, stored, event), is_line=True)
        else:
            _emit_lines((event for _, event in found), width, Folding(is_full=full))
            talk(places_of(row.session_id))


def _emit_lines(events: Iterable[Event], width: int, fold: Folding) -> None:
    kept, shown = tee(events)
    for event, line in zip(kept, lines_of(shown, width), strict=True):
        fold.note(line.plain.endswith("…") and not fold.is_full)
        body = msgspec.json.format(encode(event.body), indent=2).decode() if fold.is_full else ""
        emit_lines([line, *(Text(indented(body), style="dim"),) * fold.is_full], is_whole=fold.is_full)
    fold.say()


def chosen(
    reader: LogReader, session_id: str, wanted: Filter, *, is_endless: bool
) -> Iterator[tuple[Stored, Event]]:
    """Yield the chosen events, each with its row. is_endless: wait for more until the session is closed."""
    for stored in _rows(reader, session_id, wanted, is_endless=is_endless):
        event = event_of(session_id, stored)
        if wanted.takes(event):
            yield stored, event
        if is_endless and isinstance(event.body, SessionClosed):
            return


def _rows(reader: LogReader, session_id: str, wanted: Filter, *, is_endless: bool) -> Iterator[Stored]:
    following = wanted.start
    sizes = PageSizes(_PAGE)
    while following <= wanted.upto:
        page = reader.events(session_id, following, min(sizes.events, wanted.upto - following + 1))
        sizes.note(page)
        yield from page
        following += len(page)
        if not page:
            if not is_endless:
                return
            time.sleep(_POLL_S)


def event_json(session_id: str, stored: Stored, event: Event) -> dict[str, object]:
    """Return the event with its envelope."""
    return {
        "session": session_id,
        "seq": stored.seq,
        "at": utc(stored.at),
        **attributes(stored, "sender", "recipient", "cause"),
        "kind": event.kind,
        "place": call_name(event),
        "body": Json(stored.body),
        "digest": stored.digest.hex(),
    }


def lines_of(events: Iterable[Event], width: int) -> Iterator[Text]:
    """Yield each event as a line, the columns below each other. See `line_of`."""
    widest = _ROUTE
    for event in events:
        widest = max(widest, len(_route(event)))
        yield line_of(event, width, widest)


def _route(event: Event) -> str:
    return f"{safe_line(event.sender)} → {safe_line(event.recipient)}"


def line_of(event: Event, width: int, route_width: int = _ROUTE) -> Text:
    """Return the event in one line. A narrow one leaves out time, cause and call, not the message."""
    line = Text(f"{event.seq:>5}  ", style="bold")
    if width >= _WIDE_FROM:
        line.append(f"{local_time(event.at)}  ", style="not bold dim")
    line.append(f"{_route(event):<{route_width}}  ", style="not bold")
    line.append(f"{event.kind:<15}", style=f"not bold {style_of(event)}")
    if width >= _WIDE_FROM:
        line.append(f"  ←{event.cause:<5}" if event.cause else " " * 8, style="not bold dim")
        line.append(f"  {call_name(event):<10}", style="not bold")
    line.append(f"  {summary_of(event.body)}", style="not bold")
    line.rstrip()
    return line


def style_of(event: Event) -> str:
    """Return the colour of an event; ports, clients, the supervisor and agents differ."""
    if event.sender in PORTS:
        return "green" if event.sender != CLIENT else "magenta"
    return "cyan" if event.sender == SUPERVISOR else "blue"


def places_of(session_id: str) -> str:
    """Say how the events and calls of a list are named on a command line."""
    name = shlex.quote(session_id)
    return f"\nan event of these: {name}#SEQ, a call: {name}#AGENT:TURN:CALL{log_flag()}"


def kinds_named(names: tuple[str, ...]) -> frozenset[str]:
    """Return the kinds of these names, in any case of letters. Fails for an unknown one."""
    known = {kind.lower(): kind for kind in KINDS}
    for name in names:
        refuse_if(name.lower() not in known, f"there is no kind {name!r}; kinds: {', '.join(KINDS)}")
    return frozenset(known[name.lower()] for name in names)


def _actors(names: tuple[str, ...]) -> frozenset[str]:
    for name in names:
        refuse_if(
            name not in PORTS and name != SUPERVISOR and not name.startswith("host"),
            f"there is no actor {name!r}; write host, host.1, ..., {SUPERVISOR}, "
            f"or one of {', '.join(sorted(PORTS))}",
        )
    return frozenset(names)
