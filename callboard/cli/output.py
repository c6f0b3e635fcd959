"""Output: data on stdout, talk on stderr. All printed text passes through here and is made safe."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TextIO

import click
import msgspec
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from callboard.cli.terminal_escape import safe_json, safe_line, safe_text
from callboard.cli.word_wrap import wrapped

if TYPE_CHECKING:
    from rich.console import Console

# The width of a pipe or file: nothing is cut or wrapped there.
WIDE: Final = 10_000
_TEXT_MIN: Final = 20  # columns of a text beside its label
# Events of a session with a progress line: a smaller one is done before anybody could read it.
_PERCENT_FROM: Final = 1_000


def emit(text: str) -> None:
    """Print data as text."""
    click.echo(safe_text(text))


def emit_json(value: object, *, is_line: bool = False) -> None:
    """Print data as JSON, indented or on one line. A msgspec.Raw in it is printed as the JSON it holds."""
    click.echo(safe_json(msgspec.json.format(msgspec.json.encode(value), indent=-1 if is_line else 2)))


def attributes(value: object, *names: str) -> dict[str, object]:
    """Return attributes of a value by their names, to print them as JSON."""
    return {name: getattr(value, name) for name in names}


def talk(text: str) -> None:
    """Print progress, a hint or a summary on stderr, so that a redirected stdout has only data."""
    click.echo(safe_text(text), err=True)


def is_terminal(stream: TextIO) -> bool:
    """Return whether the stream is a terminal that can move its cursor."""
    try:
        return stream.isatty() and not console_on(stream).is_dumb_terminal
    except ValueError:  # closed
        return False


def is_plain() -> bool:
    """Return whether stdout is a pipe or a file, without forced colours: no console is needed."""
    return not sys.stdout.isatty() and not os.environ.get("FORCE_COLOR")


def width_of_stdout() -> int:
    """Return the columns of the terminal, or `WIDE`."""
    return WIDE if is_plain() else console_on().width


def width_of_stderr() -> int:
    """Return the columns of the terminal to which `talk` prints, or `WIDE`."""
    return console_on(sys.stderr).width


def console_on(stream: TextIO | None = None, *, is_drawn: bool = False) -> "Console":
    """Return a console that prints text unchanged, as wide as the terminal or unbounded.

    is_drawn: the stream counts as a terminal.
    """
    from rich.console import Console  # here: a command whose data goes to a pipe does without it

    stream = stream or sys.stdout
    is_wide = not is_drawn and not stream.isatty()
    return Console(
        file=stream,
        width=WIDE if is_wide else None,
        force_terminal=True if is_drawn else None,
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=is_wide,
    )


def percent_on(stream: TextIO, least: int | None = None) -> Callable[[str, int, int], None]:
    """Return a function that shows progress, on a terminal only: a name, how much is done, of how much.

    least: the length of the shortest work that is worth showing; by default that of a thousand events.
    """
    is_shown = is_terminal(stream)

    def show(name: str, done: int, total: int) -> None:
        if is_shown and total > (_PERCENT_FROM if least is None else least):
            click.echo(f"\r{safe_line(name)}: {100 * done // total} %", file=stream, nl=False)
            click.echo("\n" if done >= total else "", file=stream, nl=False)

    return show


def emit_lines(lines: Iterable[Text], *, is_whole: bool = False) -> None:
    """Print styled lines of data, each cut at the width of the terminal. is_whole: wrap them instead."""
    console = None if is_plain() else console_on()
    if console is None or not (is_whole or console.is_terminal):
        for line in lines:
            click.echo(line.plain)
        return
    for line in lines:
        _print(console, line, is_whole=is_whole)


def _print(console: "Console", line: Text, *, is_whole: bool) -> None:
    if is_whole:
        console.print(line, overflow="fold")
    else:
        console.print(line, no_wrap=True, overflow="ellipsis", crop=True, soft_wrap=False)


def table(rows: Sequence[Sequence[str]], headings: Sequence[str], right: Sequence[int] = ()) -> list[Text]:
    """Format rows as lines of aligned columns; the last is never cut. right: right-aligned columns."""
    cells = [[safe_text(cell).replace("\n", " ") for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(headings, *cells, strict=True)]

    def line(row: Sequence[str], style: str = "") -> Text:
        parts = [padded(cell, widths[place], is_right=place in right) for place, cell in enumerate(row)]
        return Text("  ".join(parts).rstrip(), style=style)

    return [line(headings, "bold"), *map(line, cells)]


def padded(cell: str, width: int, *, is_right: bool = False) -> str:
    """Pad or cut a text to exactly this many terminal columns."""
    if cell_len(cell) > width:
        cell = set_cell_size(cell, max(0, width - 1)).rstrip() + "…"
    fill = " " * (width - cell_len(cell))
    return fill + cell if is_right else cell + fill


def broken(text: str, indent: int = 0) -> str:
    """Break the lines of a text at words for the terminal, but not for a pipe. indent: columns before it."""
    width = width_of_stdout()
    return text if width >= WIDE else wrapped(text, max(_TEXT_MIN, width - indent))


def fields(pairs: Mapping[str, str]) -> list[Text]:
    """Format labels and values, the lines of a value below each other. Empty values are left out.

    A line that is longer than the terminal is broken at words.
    """
    width = max(map(len, pairs), default=0)
    lines = []
    for label, value in pairs.items():
        shown = broken(safe_text(value), width + 2)
        for place, part in enumerate(shown.split("\n") if value else ()):
            head = label if not place else ""
            lines.append(Text.assemble((f"{head:<{width}}  ", "bold"), part))
    return lines
