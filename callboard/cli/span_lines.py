"""The lines of `callboard events --grouped`: one for each turn, call, delegation and report."""

from collections.abc import Callable, Iterator, Sequence

from rich.text import Text

from callboard.actors.protocol.client_messages import Tell
from callboard.actors.protocol.port_messages import CallTool
from callboard.cli.formats import duration, utc
from callboard.cli.message_summary import summary_of
from callboard.cli.output import emit_json, emit_lines
from callboard.cli.recordings import open_recording
from callboard.cli.terminal_escape import safe_line
from callboard.replay.grouping import Span
from callboard.replay.refused_calls import RefusedCall

_FAILED = frozenset(
    {"error", "failed", "interrupted", "denied", "invalid", "late", "budget", "crashed", "refused"}
)


def emit_spans(session: str, log: str, is_wanted: Callable[[Span], bool], *, as_json: bool) -> None:
    """Print the chosen spans of a session."""
    recording, row = open_recording(log, session)
    chosen = [span for span in recording.spans() if is_wanted(span)]
    if as_json:
        for span in chosen:
            emit_json(_json(row.session_id, span), is_line=True)
    else:
        emit_lines(_lines(chosen))


def _lines(spans: Sequence[Span]) -> Iterator[Text]:
    """Yield a line for each span. Columns are no wider than they need, since 80 have to do."""
    places = [safe_line(span.place or span.agent, 24) for span in spans]
    names = [_name(span) for span in spans]
    widths = max(map(len, places), default=0), max(map(len, names), default=0)
    for span, place, name in zip(spans, places, names, strict=True):
        yield _line(span, f"{place:<{widths[0]}}  {name:<{widths[1]}}")


def _name(span: Span) -> str:
    again = f" x{span.attempts}" if span.attempts > 1 else ""
    name = "" if span.kind == "ask" else safe_line(span.name, 24)  # the id of a request tells nothing
    return f"{span.kind} {name}".strip() + again


def _line(span: Span, what: str) -> Text:
    end = span.last.seq if span.outcome else ""
    style = "red" if span.outcome in _FAILED else "green" if span.outcome else "cyan"
    line = Text(f"{span.first.seq:>5}-{end:<5}  ", style="bold")
    line.append(f"{what}  ", style="not bold")
    line.append(f"{span.outcome or 'open':<9}", style=f"not bold {style}")
    line.append(f" {duration(span.duration_ms):>5}  ", style="not bold dim")
    # The note first: it is what the other columns do not tell.
    line.append(f"{safe_line(span.note, 300)}: " if span.note else "", style="not bold yellow")
    line.append(_summary(span), style="not bold")
    return line


def _summary(span: Span) -> str:
    """Return the message of a span, without the parts that the columns show."""
    if isinstance(span.body, RefusedCall):
        return safe_line(f"{bytes(span.body.arguments).decode()} → {span.body.reason}", 200)
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
