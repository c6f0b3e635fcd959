"""A place in a session, moved by single keys on a terminal, and the lines of one step.

The lines tell the event, its decision, what answers it, and its recipient's state.
"""

import sys
from collections.abc import Callable
from typing import Final

import click
import msgspec
from rich.text import Text

from callboard.actors.protocol.addresses import is_decider
from callboard.actors.protocol.errors import CallboardError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import Delegate, DelegationEnded
from callboard.actors.session.place_names import call_name
from callboard.cli.event_lines import event_json, lines_of, style_of
from callboard.cli.folding import Folding
from callboard.cli.output import console_on, emit_json, emit_lines, width_of_stdout
from callboard.cli.recordings import say_checked
from callboard.cli.request_command import show_request
from callboard.cli.state_view import change_lines, heading, plain, summary
from callboard.cli.terminal_escape import safe_line, safe_text
from callboard.replay.formats import duration, local, local_time
from callboard.replay.recording import Recording
from callboard.replay.search import Query
from callboard.replay.steps import Step, is_failure

KEYS: Final = (
    "enter, n, space, ↓  next    p, ↑  back    12 enter  event 12    g, G  ends\n"
    "a, A  next, last of this actor   d, D  delegation   f, F  failure or refusal\n"
    "/  search for a text    v  last change of a field of the actor's state\n"
    "b  all of a long message    s  all of the state    c  what changed in it\n"
    "r  the model's request    w  why    q  leave"
)
# Key -> the event that it leads to from an event; `_go` keeps it within the session.
_MOVES: Final[dict[str, Callable[[int], int]]] = {
    "g": lambda at: 1,
    "G": lambda at: sys.maxsize,
    **dict.fromkeys(("\r", "\n", "n", " ", "j", "\x1b[B", "\x1b[C", "\x1bOB", "\x1bOC"), lambda at: at + 1),
    **dict.fromkeys(("p", "k", "\x7f", "\b", "\x1b[A", "\x1b[D", "\x1bOA", "\x1bOD"), lambda at: at - 1),
}
_ENTER: Final = frozenset({"\r", "\n"})
_LEAVE: Final = frozenset({"q", "Q", "\x04", "\x1b", ""})
_AROUND_BODY: Final = 8  # lines of the terminal above and below a message, and the prompt


class Stepper:
    """A place in a session, moved by keys. read: returns the next key. ask: asks for a line of text."""

    def __init__(
        self,
        recording: Recording,
        at: int = 1,
        read: Callable[[], str] = click.getchar,
        ask: Callable[[str], str] = lambda label: str(click.prompt(label, default="", show_default=False)),
    ) -> None:
        self.at = at
        self._recording = recording
        self._steps = recording.steps()
        self._read = read
        self._ask = ask
        self._digits = ""
        self._text = ""

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
        elif key in _MOVES:
            self._go(_MOVES[key](self.at))
        else:
            self._act(_ACTIONS.get(key, _help))

    def _act(self, action: "Callable[[Stepper], None]") -> None:
        try:
            action(self)
        except CallboardError as error:  # an event without a request, a text that is not a path
            self.say(str(error))

    def say(self, text: str) -> None:
        """Print a line that is not part of a step."""
        emit_lines([Text(safe_line(text, 1_000), style="dim")])

    @property
    def event(self) -> Event:
        """Return the event at this place."""
        return self._recording.event(self.at)

    @property
    def actor(self) -> str:
        """Return the actor that this event is about: its recipient, or its sender if that is a port."""
        event = self.event
        return event.recipient if is_decider(event.recipient) else event.sender

    def _go(self, seq: int) -> None:
        seq = max(1, min(len(self._steps), seq))
        if seq != self.at:
            self.at = seq
            self._show()

    def seek(self, is_wanted: Callable[[Event], bool], name: str, *, is_back: bool = False) -> None:
        """Go to the next wanted event, or to the last one before. name: of the kind of event."""
        events = self._recording.events
        places = range(self.at - 1, 0, -1) if is_back else range(self.at + 1, len(events) + 1)
        found = next((seq for seq in places if is_wanted(events[seq - 1])), 0)
        if found:
            self._go(found)
        else:
            self.say(f"there is no {'earlier' if is_back else 'later'} {name}")

    def search(self) -> None:
        """Ask for a text, and go to the next event that holds it; an empty one repeats the last search."""
        self._text = self._ask("search for") or self._text
        if self._text:
            self.seek(Query(text=self._text).is_in, f"event with {self._text!r}")

    def last_change(self) -> None:
        """Ask for a field of the actor's state, and go to the event that changed it last."""
        field = self._ask(f"field of {self.actor}, such as phase")
        found = self._recording.last_change(self.actor, field, self.at) if field else 0
        if found:
            self._go(found)
        elif field:
            self.say(f"no earlier event changed {field} of {self.actor}")

    def show_changes(self) -> None:
        """Print the fields that the decision of this event changed."""
        found = self._recording.changes(self.at)
        at, actor = self._recording.decision(self.at)
        emit_lines([Text(heading(at, actor, has_changes=bool(found)), style="bold")])
        emit_lines(change_lines(found, self._folding("show {at} --changes")))

    def _folding(self, command: str) -> Folding:
        """Return a folding that names the command which shows all."""
        place = f"{self._recording.session_id}#{self.at}"
        return Folding(is_full=False, whole=f"callboard {command.format(at=place)} --full")

    def show_request(self) -> None:
        """Print the request of the model call that this event belongs to."""
        asked = self._recording.request(self.at)
        show_request(asked, self._folding("request {at}"))

    def show_why(self) -> None:
        """Print the events that this one was made of, and the way to it."""
        found, width = self._recording.why(self.at), console_on().width
        for title, events in (("made of", found.parts), ("the way to it", found.way[-_AROUND_BODY:])):
            emit_lines([Text(title, style="bold"), *lines_of(events, width)])

    def _show(self, *, is_whole: bool = False, has_state: bool = False) -> None:
        console = console_on()
        limit = 0 if is_whole else max(8, console.height - _AROUND_BODY)
        step = self._steps.at(self.at)
        emit_lines(step_lines(self._recording, step, console.width, body_lines=limit, has_state=has_state))

    def _prompt(self) -> None:
        where = f"{self.at} of {len(self._steps)}"
        if self._digits:
            where = f"go to {self._digits}"
        elif self.at == len(self._steps):
            where += " (end)"
        click.echo(f"\r\x1b[K{where}, ? for keys: ", nl=False)


def _is_delegation(event: Event) -> bool:
    return isinstance(event.body, Delegate | DelegationEnded)


def _of_actor(stepper: Stepper, *, is_back: bool) -> None:
    actor = stepper.actor
    stepper.seek(lambda event: actor in (event.sender, event.recipient), f"event of {actor}", is_back=is_back)


def _help(stepper: Stepper) -> None:
    emit_lines(Text(KEYS, style="dim").split())


_ACTIONS: Final[dict[str, Callable[[Stepper], None]]] = {
    "a": lambda stepper: _of_actor(stepper, is_back=False),
    "A": lambda stepper: _of_actor(stepper, is_back=True),
    "d": lambda stepper: stepper.seek(_is_delegation, "delegation"),
    "D": lambda stepper: stepper.seek(_is_delegation, "delegation", is_back=True),
    "f": lambda stepper: stepper.seek(is_failure, "failure"),
    "F": lambda stepper: stepper.seek(is_failure, "failure", is_back=True),
    "/": Stepper.search,
    "v": Stepper.last_change,
    "b": lambda stepper: stepper._show(is_whole=True),
    "s": lambda stepper: stepper._show(has_state=True),
    "c": Stepper.show_changes,
    "r": Stepper.show_request,
    "w": Stepper.show_why,
}


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
