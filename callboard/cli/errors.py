"""Exit codes, and the one line that names the error and the next step.

0    ok
1    failed: the outcome is not ok, the log cannot be used, or the user's own module raised
2    usage: arguments or settings that cannot work, such as a model without a key; nothing was recorded
3    not found: a log, session, event, actor, module, agent or file
4    corrupt log
5    diverged: the code no longer does what the log says
130  interrupted by Ctrl-C
141  the reader of the output has gone away
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
    UnknownModel,
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

# The first class that matches decides; any other error is FAILED.
_CODES: Final[tuple[tuple[type[CallboardError], int], ...]] = (
    (SessionNotFound, NOT_FOUND),
    (UnknownModel, USAGE),  # as a missing key: the set-up cannot work
    (UnknownName, NOT_FOUND),
    (MisuseError, USAGE),
    (CorruptLog, CORRUPT),
    (StoreUnreadable, CORRUPT),
    (Diverged, DIVERGED),
)
# The next step, for errors whose own message cannot mention the command line.
_NEXT: Final[tuple[tuple[type[CallboardError], str], ...]] = (
    (StoreLocked, "wait for the other process, or name another log with --log"),
    (CorruptLog, "nothing was changed; `callboard verify --all` lists the sessions that are intact"),
)


class Failure(click.ClickException):
    """The end of a command: an exit code and one line on stderr, behind its traceback with `--debug`."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.has_traceback = False
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line, after the traceback if one was asked for."""
        if self.__cause__ is not None and self.has_traceback:
            click.echo("".join(traceback.format_exception(self.__cause__)), file=file, err=True, nl=False)
        click.echo(f"error: {safe_line(self.message)}", file=file, err=True)


class Left(Failure):
    """The end of a command whose session goes on later; the line says how, and is not an error."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line."""
        click.echo(safe_line(self.message), file=file, err=True)


def not_found(message: str) -> Failure:
    """Return the failure for a name that does not exist; the message lists names that do."""
    return Failure(message, NOT_FOUND)


def misused(message: str) -> Failure:
    """Return the failure for arguments that cannot work."""
    return Failure(message, USAGE)


def refuse_if(is_wrong: object, message: str) -> None:
    """Raise the failure for arguments that cannot work, if they are wrong."""
    if is_wrong:
        raise misused(message)


def failure_of(error: Exception) -> Failure:
    """Convert an exception to a failure: our own with their message, others as a fault of this program."""
    if isinstance(error, CallboardError):
        hint = next((text for kind, text in _NEXT if isinstance(error, kind)), "")
        text = str(error)
        code = next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)
        return Failure(f"{text}; {hint}" if hint not in text else text, code)
    advice = "run it again with --debug for the traceback, and report it"
    return Failure(f"unexpected {failure_text(error)}; {advice}", FAILED)
