"""Data goes to stdout, talk to stderr. Everything that is printed passes through here, and is safe.

Data is text for people, or with `--json` one JSON document (events: one a line). Talk is progress, hints
and summaries: redirecting stdout leaves it on the terminal.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

import click
import msgspec
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from callboard.cli.terminal_escape import safe_json, safe_text

WIDE = 10_000
"""The width of what is no terminal: nothing is cut or wrapped for a pipe."""


def emit(text: str) -> None:
    """A piece of data, as text."""
    click.echo(safe_text(text))


def emit_json(value: object, *, is_line: bool = False) -> None:
    """A piece of data, as JSON: indented, or on one line. msgspec.Raw stands for JSON as it is."""
    click.echo(safe_json(msgspec.json.format(msgspec.json.encode(value), indent=-1 if is_line else 2)))


def talk(text: str) -> None:
    """Something to know beside the data."""
    click.echo(safe_text(text), err=True)


def is_terminal(stream: TextIO) -> bool:
    """Whether somebody looks at this stream on a terminal that can move its cursor."""
    try:
        return stream.isatty() and not console_on(stream).is_dumb_terminal
    except ValueError:  # closed
        return False


def console_on(stream: TextIO | None = None, *, is_drawn: bool = False) -> Console:
    """A console that takes text as it is: no markup, no emoji names, no guessed colours.

    Colours only on a terminal, and not with NO_COLOR. As wide as the terminal; a pipe has no width.
    is_drawn: it is a terminal, whatever the stream itself says.
    """
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


def emit_lines(lines: Iterable[Text]) -> None:
    """Styled lines of data, each cut at the width of the terminal."""
    console = console_on()
    for line in lines:
        if console.is_terminal:
            console.print(line, no_wrap=True, overflow="ellipsis", crop=True, soft_wrap=False)
        else:
            click.echo(line.plain)


def table(rows: Sequence[Sequence[str]], headings: Sequence[str], right: Sequence[int] = ()) -> list[Text]:
    """Columns as lines, the last as long as it likes. right: the columns whose values stand at the right."""
    cells = [[safe_text(cell).replace("\n", " ") for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(headings, *cells, strict=True)]

    def line(row: Sequence[str], style: str) -> Text:
        parts = [padded(cell, widths[place], is_right=place in right) for place, cell in enumerate(row)]
        return Text("  ".join(parts).rstrip(), style=style)

    return [line(headings, "bold"), *(line(row, "") for row in cells)]


def padded(cell: str, width: int, *, is_right: bool = False) -> str:
    """The text in exactly so many columns of a terminal: filled up, or cut."""
    if cell_len(cell) > width:
        cell = set_cell_size(cell, max(0, width - 1)).rstrip() + "…"
    fill = " " * (width - cell_len(cell))
    return fill + cell if is_right else cell + fill


def fields(pairs: Mapping[str, str]) -> list[Text]:
    """Labels and values; the lines of a value stand under each other. Empty values are left out."""
    width = max(map(len, pairs), default=0)
    lines = []
    for label, value in pairs.items():
        for place, part in enumerate(safe_text(value).split("\n") if value else ()):
            head = label if not place else ""
            lines.append(Text.assemble((f"{head:<{width}}  ", "bold"), part))
    return lines
