"""An event as a line of a list, and as JSON."""

from collections.abc import Iterable, Iterator
from typing import Final

from rich.text import Text

from callboard.actors.protocol.addresses import CLIENT, PORTS, SUPERVISOR
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.session.place_names import call_name
from callboard.cli.formats import local_time, utc
from callboard.cli.message_summary import summary_of
from callboard.cli.output import attributes
from callboard.cli.terminal_escape import safe_line
from callboard.runtime.log.protocol import Stored

_WIDE_FROM: Final = 110
_ROUTE: Final = 20


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
