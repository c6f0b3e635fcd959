"""`callboard replay`: a session, event by event."""

import sys
from collections.abc import Callable
from typing import Final

import click
from rich.text import Text

from callboard.cli.options import Command, check_option, json_option, log_option, session_argument
from callboard.cli.output import console_on, emit_json, emit_lines, is_terminal, width_of_stdout
from callboard.cli.recordings import open_recording, say_checked
from callboard.cli.step_view import step_json, step_lines
from callboard.replay.recording import Recording

KEYS: Final = (
    "enter, n, space, ↓  next    p, ↑  back    12 enter  event 12    g, G  ends\n"
    "b  all of a long message    s  all of the actor's state    q  leave"
)
_NEXT: Final = frozenset({"\r", "\n", "n", " ", "j", "\x1b[B", "\x1b[C", "\x1bOB", "\x1bOC"})
_BACK: Final = frozenset({"p", "k", "\x7f", "\b", "\x1b[A", "\x1b[D", "\x1bOA", "\x1bOD"})
_ENTER: Final = frozenset({"\r", "\n"})
_SHOWS: Final = frozenset({"b", "s"})
_LEAVE: Final = frozenset({"q", "Q", "\x04", "\x1b", ""})


@click.command("replay", cls=Command)
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
            emit_lines(step_lines(recording, step, width_of_stdout(), body_lines=0))
            continue
        has_state = at is not None
        emit_json(step_json(recording, step, is_checked=is_checked, has_state=has_state), is_line=at is None)
    if not as_json:
        say_checked(is_checked=is_checked)


_AROUND_BODY: Final = 8
"""Lines of the terminal that a message cannot have: those above and below it, and the prompt."""


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
        elif (target := self._target(key)) is not None:
            self._go(target)
        else:
            emit_lines([Text(line, style="dim") for line in KEYS.split("\n")])

    def _target(self, key: str) -> int | None:
        """Return the event that a key leads to, None for any other key."""
        steps = {"g": 1, "G": len(self._steps)}
        steps |= dict.fromkeys(_NEXT, self.at + 1) | dict.fromkeys(_BACK, self.at - 1)
        return steps.get(key)

    def _go(self, seq: int) -> None:
        seq = max(1, min(len(self._steps), seq))
        if seq != self.at:
            self.at = seq
            self._show()

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
