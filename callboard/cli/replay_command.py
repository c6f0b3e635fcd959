"""`callboard replay`: a session, event by event."""

import sys
from collections.abc import Callable
from typing import Final

import click
from rich.text import Text

from callboard.cli.options import Command, json_option, log_option, session_argument
from callboard.cli.output import console_on, emit_json, emit_lines, is_terminal
from callboard.cli.recordings import check_seq, open_recording
from callboard.cli.step_view import step_json, step_lines
from callboard.replay.recording import Recording
from callboard.replay.steps import Steps

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
@log_option
@json_option
def replay(session: str, at: int | None, log: str, as_json: bool) -> None:
    """Step through a session, event by event.

    For each event: its envelope, the message, the decision it was posted in, what it led to, and what its
    recipient knew afterwards, computed anew from the log. No model is called and no tool runs.

    \b
    Keys:
      enter, n, space, down   next          p, up    back
      12 enter                event 12      g, G     first, last
      b                       all of a long message
      s                       all of the actor's state, as JSON
      q                       leave

    Off a terminal, or with --json, all events are printed one after the other, or with --at just one; its
    JSON then has the whole state.

    \b
    Examples:
      callboard replay
      callboard replay 2026 --at 12
      callboard replay --at 12 | less
    """
    recording, _ = open_recording(log, session)
    steps = Steps(recording.events, [row.body for row in recording.rows])
    if at is not None:
        check_seq(recording.events, at, recording.session_id)
    if not as_json and is_terminal(sys.stdout) and sys.stdin.isatty():
        Stepper(recording, steps, at or 1).run()
        return
    for seq in range(1, len(steps) + 1) if at is None else [at]:
        if as_json:
            emit_json(step_json(recording, steps.at(seq), has_state=at is not None), is_line=at is None)
        else:
            emit_lines(step_lines(recording, steps.at(seq), console_on().width, body_lines=0))


_AROUND_BODY: Final = 8
"""Lines of the terminal that are not the message's: what stands above and below it, and the prompt."""


class Stepper:
    """Where somebody is in a session, and what a key does. read: gives the next key."""

    def __init__(
        self, recording: Recording, steps: Steps, at: int = 1, read: Callable[[], str] = click.getchar
    ) -> None:
        self.at = at
        self._recording = recording
        self._steps = steps
        self._read = read
        self._digits = ""

    def run(self) -> None:
        """Until the reader leaves."""
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
        """Do what a key says."""
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
        """Where a key leads, None if it is no key for that."""
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
