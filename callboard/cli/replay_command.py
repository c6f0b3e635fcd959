"""`callboard replay`: a session, event by event."""

import sys
from collections.abc import Callable
from typing import Final

import click
import msgspec
from rich.text import Text

from callboard.actors.protocol.addresses import is_decider
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.cli.events_command import event_json, style_of
from callboard.cli.formats import duration, local, local_time
from callboard.cli.options import check_option, json_option, log_option, session_argument
from callboard.cli.output import console_on, emit_json, emit_lines, is_terminal, width_of_stdout
from callboard.cli.recordings import open_recording, say_checked
from callboard.cli.state_command import plain, summary
from callboard.cli.terminal_escape import safe_line, safe_text
from callboard.replay.recording import Recording
from callboard.replay.steps import Step

KEYS: Final = (
    "enter, n, space, ↓  next    p, ↑  back    12 enter  event 12    g, G  ends\n"
    "b  all of a long message    s  all of the actor's state    q  leave"
)
# Key -> the event that it leads to from an event; `_go` keeps it within the session.
_MOVES: Final[dict[str, Callable[[int], int]]] = {
    "g": lambda at: 1,
    "G": lambda at: sys.maxsize,
    **dict.fromkeys(("\r", "\n", "n", " ", "j", "\x1b[B", "\x1b[C", "\x1bOB", "\x1bOC"), lambda at: at + 1),
    **dict.fromkeys(("p", "k", "\x7f", "\b", "\x1b[A", "\x1b[D", "\x1bOA", "\x1bOD"), lambda at: at - 1),
}
_ENTER: Final = frozenset({"\r", "\n"})
_SHOWS: Final = frozenset({"b", "s"})
_LEAVE: Final = frozenset({"q", "Q", "\x04", "\x1b", ""})
_AROUND_BODY: Final = 8  # lines of the terminal above and below a message, and the prompt
_LISTED: Final = 6
_LABEL: Final = 10


@click.command("replay")
@session_argument
@click.option("--at", type=int, metavar="N", help="Begin at event N; off a terminal, show only this one.")
@check_option
@log_option
@json_option
def replay(session: str, at: int | None, check: bool, log: str, as_json: bool) -> None:
    """Step through a session, event by event.

    For each event: its envelope, the message, the decision that posted it, the events that answer it, and
    its recipient's state afterwards, as the deciders compute it from the log. No model is called and no tool
    runs.

    \b
    Keys:
      enter, n, space, down   next          p, up    back
      12 enter                event 12      g, G     first, last
      b                       all of a long message
      s                       all of the actor's state, as JSON
      q                       leave

    Off a terminal, or with --json, all events are printed one after the other, or with --at just one; its
    JSON then has the whole state. Digests are checked when all events are printed, or with --check.

    \b
    Examples:
      callboard replay
      callboard replay 2026 --at 12
      callboard replay --at 12 | less
    """
    recording, _ = open_recording(log, session)
    if at is not None:
        recording.event(at)
    is_stepped = not as_json and sys.stdin.isatty() and is_terminal(sys.stdout)
    is_checked = check or (at is None and not is_stepped)
    if is_checked:
        recording.check()
    if is_stepped:
        Stepper(recording, at or 1).run()
    else:
        _print(recording, at, is_checked=is_checked, as_json=as_json)


def _print(recording: Recording, at: int | None, *, is_checked: bool, as_json: bool) -> None:
    """Print one step, or all of them."""
    steps = recording.steps()
    for seq in range(1, len(steps) + 1) if at is None else [at]:
        step = steps.at(seq)
        if not as_json:
            emit_lines(_step_lines(recording, step, width_of_stdout(), body_lines=0))
            continue
        has_state = at is not None
        emit_json(_step_json(recording, step, is_checked=is_checked, has_state=has_state), is_line=at is None)
    if not as_json:
        say_checked(is_checked=is_checked)


class Stepper:
    """A place in a session, moved by keys. read: returns the next key."""

    def __init__(self, recording: Recording, at: int = 1, read: Callable[[], str] = click.getchar) -> None:
        self.at = at
        self._recording = recording
        self._steps = recording.steps()
        self._read = read
        self._digits = ""

    def run(self) -> None:
        """Take keys until one leaves, or the input ends."""
        if not len(self._steps):
            return
        self._show()
        while (key := self._key()) not in _LEAVE:
            self.take(key)

    def _key(self) -> str:
        self._prompt()
        try:
            key = self._read()
        except (EOFError, KeyboardInterrupt):
            key = "q"
        click.echo("\r\x1b[K", nl=False)
        return key

    def take(self, key: str) -> None:
        """Act on a key."""
        if key.isdecimal() and key.isascii():
            self._digits += key
            return
        digits, self._digits = self._digits, ""
        if digits:
            self._go(int(digits[:9]) if key in _ENTER else self.at)
        elif key in _SHOWS:
            self._show(is_whole=key == "b", has_state=key == "s")
        elif key in _MOVES:
            self._go(_MOVES[key](self.at))
        else:
            emit_lines(Text(KEYS, style="dim").split())

    def _go(self, seq: int) -> None:
        seq = max(1, min(len(self._steps), seq))
        if seq != self.at:
            self.at = seq
            self._show()

    def _show(self, *, is_whole: bool = False, has_state: bool = False) -> None:
        console = console_on()
        limit = 0 if is_whole else max(8, console.height - _AROUND_BODY)
        step = self._steps.at(self.at)
        emit_lines(_step_lines(self._recording, step, console.width, body_lines=limit, has_state=has_state))

    def _prompt(self) -> None:
        where = f"{self.at} of {len(self._steps)}"
        if self._digits:
            where = f"go to {self._digits}"
        elif self.at == len(self._steps):
            where += " (end)"
        click.echo(f"\r\x1b[K{where}, ? for keys: ", nl=False)


def _step_lines(
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
        lines.append(_labelled(verb, named + (f" and {more} more" if more > 0 else "")))
    if step.state is not None:
        lines.append(_labelled("state", f"{event.recipient}: {summary(step.state)}"))
        if has_state:
            lines += _json_lines(msgspec.json.encode(plain(step.state)))
    return [*lines, Text()]


def _step_json(recording: Recording, step: Step, *, is_checked: bool, has_state: bool) -> dict[str, object]:
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
    lines = [_labelled("route", f"{safe_line(event.sender)} → {safe_line(event.recipient)}")]
    if step.decision:
        cause = recording.events[event.cause - 1]
        place = [one.seq for one in step.decision].index(event.seq) + 1
        said = f"{event.sender} on event {cause.seq} {cause.kind}; output {place} of {len(step.decision)}"
        lines.append(_labelled("decision", said))
    elif event.cause:
        cause = recording.events[event.cause - 1]
        lines.append(_labelled("answers", f"event {cause.seq} {cause.kind}"))
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


def _labelled(label: str, text: str) -> Text:
    return Text.assemble((f"{label:<{_LABEL}}", "bold"), safe_line(text))
