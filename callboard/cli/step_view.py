"""One step of a recording, as lines and as JSON."""

from collections.abc import Sequence
from typing import Final

import msgspec
from rich.text import Text

from callboard.actors.protocol.addresses import is_decider
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.cli.events_command import event_json, style_of
from callboard.cli.formats import duration, local, local_time
from callboard.cli.states import plain, summary
from callboard.cli.terminal_escape import safe_line, safe_text
from callboard.replay.recording import Recording
from callboard.replay.steps import Step

_LISTED: Final = 6
_LABEL: Final = 10


def step_lines(
    recording: Recording, step: Step, width: int, *, body_lines: int = 0, has_state: bool = False
) -> list[Text]:
    """Return the step as lines for people.

    body_lines: the most lines of the message, 0 for all. has_state: with the state as JSON.
    """
    event = step.event
    lines = [_heading(recording, event, width), *_envelope(recording, step)]
    lines += _body(recording.rows[event.seq - 1].body, body_lines)
    if step.outputs:
        verb = "posted" if is_decider(event.recipient) else "answered"
        lines.append(_labelled(verb, _listing(step.outputs)))
    if step.state is not None:
        lines.append(_labelled("state", f"{event.recipient}: {summary(step.state)}"))
        if has_state:
            lines += _json_lines(msgspec.json.encode(plain(step.state)))
    return [*lines, Text()]


def step_json(
    recording: Recording, step: Step, *, is_checked: bool, has_state: bool = False
) -> dict[str, object]:
    """Return the step for programs.

    is_checked: whether the session's digests were checked. has_state: with the whole state, which is large in
    a long session.
    """
    stored = recording.rows[step.event.seq - 1]
    found = {
        **event_json(recording.session_id, stored, step.event),
        "checked": is_checked,
        "decision": [event.seq for event in step.decision],
        "outputs": [event.seq for event in step.outputs],
        "summary": None if step.state is None else summary(step.state),
    }
    if has_state:
        found["state"] = None if step.state is None else plain(step.state)
    return found


def _heading(recording: Recording, event: Event, width: int) -> Text:
    first = recording.events[0].at
    text = Text.assemble(
        ("── ", "dim"),
        (f"{event.seq}", "bold"),
        (f" of {len(recording.events)}  ", "dim"),
        (event.kind, f"bold {style_of(event)}"),
        (f"  {local_time(event.at)}, +{duration(event.at - first)} ", "dim"),
    )
    if width < 1_000:
        text.append("─" * max(0, width - text.cell_len), style="dim")
    return text


def _envelope(recording: Recording, step: Step) -> list[Text]:
    event = step.event
    lines = [_labelled("route", f"{safe_line(event.sender)} → {safe_line(event.recipient)}")]
    if step.decision:
        cause = recording.events[event.cause - 1]
        place = [one.seq for one in step.decision].index(event.seq) + 1
        said = f"{event.sender} on event {_brief(cause)}; output {place} of {len(step.decision)}"
        lines.append(_labelled("decision", said))
    elif event.cause:
        lines.append(_labelled("answers", f"event {_brief(recording.events[event.cause - 1])}"))
    else:
        lines.append(_labelled("input", f"from {safe_line(event.sender)}, {local(event.at)}"))
    return lines


def _body(body: bytes, longest: int) -> list[Text]:
    """Return the message, indented, without its kind, which the heading has."""
    fields = msgspec.json.decode(body, type=dict[str, Json])
    fields.pop("type", None)
    lines = _json_lines(msgspec.json.encode(fields)) if fields else []
    if longest and len(lines) > longest:
        rest = len(lines) - longest + 1
        lines = [*lines[: longest - 1], Text(f"  … {rest:,} more lines; b shows them", style="dim")]
    return lines


def _json_lines(data: bytes) -> list[Text]:
    text = msgspec.json.format(data, indent=2).decode()
    return [Text(f"  {line}") for line in safe_text(text).split("\n")]


def _listing(events: Sequence[Event]) -> str:
    named = ", ".join(f"{event.seq} {event.kind} → {event.recipient}" for event in events[:_LISTED])
    return named + (f" and {len(events) - _LISTED} more" if len(events) > _LISTED else "")


def _brief(event: Event) -> str:
    return f"{event.seq} {event.kind}"


def _labelled(label: str, text: str) -> Text:
    return Text.assemble((f"{label:<{_LABEL}}", "bold"), safe_line(text))
