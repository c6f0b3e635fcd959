"""The lines of one step of a session: the event, its decision, what answers it, its recipient's state."""

from typing import Final

import msgspec
from rich.text import Text

from callboard.actors.protocol.addresses import is_decider
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.session.place_names import call_name
from callboard.cli.event_lines import event_json, style_of
from callboard.cli.output import emit_json, emit_lines, width_of_stdout
from callboard.cli.recordings import say_checked
from callboard.cli.state_view import plain, summary
from callboard.cli.terminal_escape import safe_line, safe_text
from callboard.replay.formats import duration, local, local_time
from callboard.replay.recording import Recording
from callboard.replay.steps import Step

_LISTED: Final = 6
_LABEL: Final = 10


def step_lines(
    recording: Recording, step: Step, width: int, *, body_lines: int = 0, has_state: bool = False
) -> list[Text]:
    """Return the step as lines. body_lines: the most lines of its message, 0 for all."""
    event = step.event
    lines = [_heading(recording, event, width), *_envelope(recording, step)]
    lines += _body(recording.rows[event.seq - 1].body, body_lines)
    if step.outputs:
        verb = "posted" if is_decider(event.recipient) else "answered"
        named = ", ".join(f"{one.seq} {one.kind} → {one.recipient}" for one in step.outputs[:_LISTED])
        more = len(step.outputs) - _LISTED
        lines.append(labelled(verb, named + (f" and {more} more" if more > 0 else "")))
    if step.state is not None:
        lines.append(labelled("state", f"{event.recipient}: {summary(step.state)}"))
        if has_state:
            lines += json_lines(msgspec.json.encode(plain(step.state)))
    return [*lines, Text()]


def emit_steps(recording: Recording, start: int, upto: int, *, is_checked: bool, as_json: bool) -> None:
    """Print the steps from event to event. As JSON, a single one has the whole state."""
    steps, is_one = recording.steps(), start == upto
    for seq in range(start, upto + 1):
        step = steps.at(seq)
        if as_json:
            found = step_json(recording, step, is_checked=is_checked, has_state=is_one)
            emit_json(found, is_line=not is_one)
        else:
            emit_lines(step_lines(recording, step, width_of_stdout()))
    if not as_json:
        say_checked(is_checked=is_checked)


def step_json(recording: Recording, step: Step, *, is_checked: bool, has_state: bool) -> dict[str, object]:
    """Return the step as JSON. has_state: with the whole state of the recipient."""
    stored = recording.rows[step.event.seq - 1]
    found = {
        **event_json(recording.session_id, stored, step.event),
        "checked": is_checked,
        "decision": [event.seq for event in step.decision],
        "outputs": [event.seq for event in step.outputs],
        "summary": None if step.state is None else summary(step.state),
    }
    if has_state:  # it is large in a long session
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
    lines = [labelled("route", f"{safe_line(event.sender)} → {safe_line(event.recipient)}")]
    call = call_name(event)
    lines.append(labelled("place", f"{recording.session_id}#{call or event.seq}"))
    if step.decision:
        cause = recording.events[event.cause - 1]
        place = [one.seq for one in step.decision].index(event.seq) + 1
        said = f"{event.sender} on event {cause.seq} {cause.kind}; output {place} of {len(step.decision)}"
        lines.append(labelled("decision", said))
    elif event.cause:
        cause = recording.events[event.cause - 1]
        lines.append(labelled("answers", f"event {cause.seq} {cause.kind}"))
    else:
        lines.append(labelled("input", f"from {safe_line(event.sender)}, {local(event.at)}"))
    return lines


def _body(body: bytes, longest: int) -> list[Text]:
    """Return the message, indented, without its kind, which the heading has."""
    fields = msgspec.json.decode(body, type=dict[str, Json])
    fields.pop("type", None)
    lines = json_lines(msgspec.json.encode(fields)) if fields else []
    if longest and len(lines) > longest:
        rest = len(lines) - longest + 1
        lines = [*lines[: longest - 1], Text(f"  … {rest:,} more lines; b shows them", style="dim")]
    return lines


def json_lines(data: bytes) -> list[Text]:
    """Return a JSON value as indented lines."""
    text = msgspec.json.format(data, indent=2).decode()
    return [Text(f"  {line}") for line in safe_text(text).split("\n")]


def labelled(label: str, text: str) -> Text:
    """Return a line that begins with a label."""
    return Text.assemble((f"{label:<{_LABEL}}", "bold"), safe_line(text))
