"""The lines of `callboard events --grouped`: one for each turn, call, delegation and report."""

from collections.abc import Callable

from rich.text import Text

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
        emit_lines(map(_line, chosen))


def _line(span: Span) -> Text:
    end = span.last.seq if span.outcome else ""
    again = f" x{span.attempts}" if span.attempts > 1 else ""
    what = f"{span.kind} {safe_line(span.name, 40)}".strip() + again
    style = "red" if span.outcome in _FAILED else "green" if span.outcome else "cyan"
    line = Text(f"{span.first.seq:>5}-{end:<5}  ", style="bold")
    line.append(f"{safe_line(span.place or span.agent, 24):<12}  {what:<22}  ", style="not bold")
    line.append(f"{span.outcome or 'open':<10}", style=f"not bold {style}")
    line.append(f" {duration(span.duration_ms):>6}  ", style="not bold dim")
    line.append(_summary(span), style="not bold")
    line.append(f"  ({safe_line(span.note, 300)})" if span.note else "", style="not bold yellow")
    return line


def _summary(span: Span) -> str:
    if isinstance(span.body, RefusedCall):
        return safe_line(f"{bytes(span.body.arguments).decode()} → {span.body.reason}", 200)
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
