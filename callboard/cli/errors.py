"""Exit codes, and the one line that says what went wrong and what to do next.

0    ok
1    failed: the outcome is not ok, the log cannot be used, the user's own module raised
2    usage: arguments or a set-up that cannot work; nothing was recorded
3    not found: a log, session, event, actor, module, agent or file
4    corrupt log
5    diverged: the code no longer does what the log says
130  interrupted by Ctrl-C
141  the reader of our output went away
"""

import traceback
from typing import IO, Any, Final

import click

from callboard.actors.protocol.errors import (
    CallboardError,
    CorruptLog,
    Diverged,
    MisuseError,
    SessionNotFound,
    StoreLocked,
    StoreUnreadable,
    UnknownName,
)
from callboard.cli.terminal_escape import safe_line
from callboard.runtime.failure_text import failure_text

FAILED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
CORRUPT: Final = 4
DIVERGED: Final = 5
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

_CODES: Final[tuple[tuple[type[CallboardError], int], ...]] = (
    (SessionNotFound, NOT_FOUND),
    (UnknownName, NOT_FOUND),
    (MisuseError, USAGE),
    (CorruptLog, CORRUPT),
    (StoreUnreadable, CORRUPT),
    (Diverged, DIVERGED),
)
"""The first class that fits decides; anything else is FAILED."""

_NEXT: Final[tuple[tuple[type[CallboardError], str], ...]] = (
    (StoreLocked, "wait for the other process, or name another log with --log"),
    (CorruptLog, "nothing was changed; `callboard verify --all` tells which sessions are whole"),
)
"""What to do next, where the message itself cannot know of the command line."""

DEBUG: Final = "callboard.debug"
"""Where `--debug` is kept in click's context."""


class Failure(click.ClickException):
    """An end with an exit code, told in one line on stderr.

    has_traceback: whether the traceback of what caused it is shown too.
    """

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.has_traceback = False
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line; before it, if that is wanted, the traceback."""
        if self.__cause__ is not None and self.has_traceback:
            click.echo("".join(traceback.format_exception(self.__cause__)), file=file, err=True, nl=False)
        click.echo(f"error: {safe_line(self.message)}", file=file, err=True)


def not_found(message: str) -> Failure:
    """Something that was named and is not there; the message says what is."""
    return Failure(message, NOT_FOUND)


def misused(message: str) -> Failure:
    """Arguments that cannot work."""
    return Failure(message, USAGE)


def code_of(error: CallboardError) -> int:
    """The exit code for an error of ours."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


def failure_of(error: Exception) -> Failure:
    """Any exception as a failure: ours as they say it, others as a fault of this program."""
    if isinstance(error, CallboardError):
        hint = next((text for kind, text in _NEXT if isinstance(error, kind)), "")
        text = str(error)
        return Failure(f"{text}; {hint}" if hint and hint not in text else text, code_of(error))
    advice = "run it again with --debug for the traceback, and report it"
    return Failure(f"unexpected {failure_text(error)}; {advice}", FAILED)
