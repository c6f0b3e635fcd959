"""An event, or a span of events, as a line of a list and as JSON."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from rich.text import Text

from callboard.actors.protocol.addresses import CLIENT, PORTS, SUPERVISOR
from callboard.actors.protocol.client_messages import Tell
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import CallTool
from callboard.actors.session.place_names import call_name
from callboard.cli.output import attributes, emit_json, emit_lines, width_of_stdout
from callboard.cli.recordings import open_recording
from callboard.cli.terminal_escape import safe_line
from callboard.cli.word_wrap import wrapped
from callboard.replay.descriptions import CHARS_MAX, words_of
from callboard.replay.formats import duration, local_time, utc
from callboard.replay.grouping import Span
from callboard.replay.refused_calls import RefusedCall
from callboard.runtime.log.protocol import Stored

_WIDE_FROM: Final = 110
_ROUTE: Final = 20
_CALL: Final = 10
_REASON_INDENT: Final = 13  # the columns of a span's events


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


def summary_of(body: AnyMessage) -> str:
    """Say a message in one line that is safe to print."""
    return safe_line(words_of(body), CHARS_MAX)


def lines_of(events: Iterable[Event], width: int) -> Iterator[Text]:
    """Yield each event as a line, the columns below each other. See `line_of`.

    The columns of a sequence are as wide as its widest event needs; others widen when an event needs it.
    """
    known = events if isinstance(events, Sequence) else ()
    route = max([_ROUTE, *(len(_route(event)) for event in known)])
    call = max([_CALL, *(len(call_name(event)) for event in known)])
    for event in events:
        route, call = max(route, len(_route(event))), max(call, len(call_name(event)))
        yield line_of(event, width, route, call)


def _route(event: Event) -> str:
    return f"{safe_line(event.sender)} → {safe_line(event.recipient)}"


def line_of(event: Event, width: int, route_width: int = _ROUTE, call_width: int = _CALL) -> Text:
    """Return the event in one line. A narrow one leaves out time, cause and call, not the message."""
    line = Text(f"{event.seq:>5}  ", style="bold")
    if width >= _WIDE_FROM:
        line.append(f"{local_time(event.at)}  ", style="not bold dim")
    line.append(f"{_route(event):<{route_width}}  ", style="not bold")
    line.append(f"{event.kind:<15}", style=f"not bold {style_of(event)}")
    if width >= _WIDE_FROM:
        line.append(f"  ←{event.cause:<5}" if event.cause else " " * 8, style="not bold dim")
        line.append(f"  {call_name(event):<{call_width}}", style="not bold")
    line.append(f"  {summary_of(event.body)}", style="not bold")
    line.rstrip()
    return line


def style_of(event: Event) -> str:
    """Return the colour of an event; ports, clients, the supervisor and agents differ."""
    if event.sender in PORTS:
        return "green" if event.sender != CLIENT else "magenta"
    return "cyan" if event.sender == SUPERVISOR else "blue"


def emit_spans(session: str, log: str, is_wanted: Callable[[Span], bool], *, as_json: bool) -> None:
    """Print the chosen spans of a session."""
    recording, row = open_recording(log, session)
    chosen = [span for span in recording.spans() if is_wanted(span)]
    if as_json:
        for span in chosen:
            emit_json(_json(row.session_id, span), is_line=True)
    else:
        emit_lines(span_lines(chosen, width_of_stdout()))


def span_lines(spans: Sequence[Span], width: int) -> Iterator[Text]:
    """Yield a line for each span. Columns are no wider than they need, since 80 have to do.

    A narrow terminal has no room for a reason beside them, so a line of its own says why a span failed.
    """
    places = [safe_line(span.place or span.agent, 24) for span in spans]
    names = [_name(span) for span in spans]
    ends = [span.outcome or "open" for span in spans]
    widths = [max(map(len, texts), default=0) for texts in (places, names, ends)]
    for span, place, name, end in zip(spans, places, names, ends, strict=True):
        what = f"{place:<{widths[0]}}  {name:<{widths[1]}}"
        yield _line(span, what, f"{end:<{widths[2]}}", has_reason=width >= _WIDE_FROM)
        if span.reason and width < _WIDE_FROM:
            said = wrapped(safe_line(span.reason, 300), max(1, width - _REASON_INDENT))
            yield from (Text(" " * _REASON_INDENT + line, style="red") for line in said.split("\n"))


def _name(span: Span) -> str:
    again = f" x{span.attempts}" if span.attempts > 1 else ""
    name = "" if span.kind == "ask" else safe_line(span.name, 24)  # the id of a request tells nothing
    return f"{span.kind} {name}".strip() + again


def _line(span: Span, what: str, outcome: str, *, has_reason: bool) -> Text:
    end = span.last.seq if span.outcome else ""
    style = "red" if span.is_bad else "green" if span.outcome else "cyan"
    line = Text(f"{span.first.seq:>5}-{end:<5}  ", style="bold")
    line.append(f"{what}  ", style="not bold")
    line.append(outcome, style=f"not bold {style}")
    line.append(f" {duration(span.duration_ms):>5}  ", style="not bold dim")
    # The reason and the note first: they are what the other columns do not tell.
    if has_reason and span.failure:
        line.append(f"{safe_line(span.failure, 300)}: ", style="not bold red")
    line.append(f"{safe_line(span.note, 300)}: " if span.note else "", style="not bold yellow")
    line.append(_summary(span, has_reason=has_reason), style="not bold")
    return line


def _summary(span: Span, *, has_reason: bool) -> str:
    """Return the message of a span, without the parts that the columns or the next line show."""
    if isinstance(span.body, RefusedCall):
        reason = f" → {span.body.reason}" * has_reason
        return safe_line(f"{bytes(span.body.arguments).decode()}{reason}", 200)
    if isinstance(span.body, Tell):
        return safe_line(span.body.text, 200)
    if isinstance(span.body, CallTool):
        return safe_line(bytes(span.body.arguments)[:800].decode("utf-8", "replace"), 200)
    return summary_of(span.body)


def _json(session_id: str, span: Span) -> dict[str, object]:
    return {
        "session": session_id,
        "kind": span.kind,
        "agent": span.agent,
        "place": span.place,
        "name": span.name,
        "first": span.first.seq,
        "last": span.last.seq,
        "at": utc(span.first.at),
        "duration_ms": span.duration_ms,
        "attempts": span.attempts,
        "outcome": span.outcome,
        "note": span.note,
        **({"reason": span.reason} if span.reason else {}),
    }
