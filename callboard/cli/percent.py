"""The progress of a long export or import, in percent, on a terminal."""

from collections.abc import Callable
from typing import Final, TextIO

import click

from callboard.cli.output import is_terminal
from callboard.cli.terminal_escape import safe_line

EVENTS_MIN: Final = 1_000
"""Sessions with fewer events are done before anybody could read a line about them."""


def percent_on(stream: TextIO) -> Callable[[str, int, int], None]:
    """Return what shows progress: called with a name, how much is done, and how much there is.

    Shows nothing where the stream is no terminal.
    """
    is_shown = is_terminal(stream)

    def show(name: str, done: int, total: int) -> None:
        if is_shown and total > EVENTS_MIN:
            click.echo(f"\r{safe_line(name)}: {100 * done // total} %", file=stream, nl=False)
            click.echo("\n" if done >= total else "", file=stream, nl=False)

    return show
