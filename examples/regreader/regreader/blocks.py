"""The blocks that a file is read into."""

from dataclasses import dataclass

from regreader.words import half_width

CELLS_MAX = 1_000_000  # of a table


class Unreadable(Exception):
    """A file that is not a regulation. Its text is the reason."""


def check_size(cells: int) -> None:
    """Raise Unreadable for a table with too many cells."""
    if cells > CELLS_MAX:
        raise Unreadable(f"it has a table of more than {CELLS_MAX:,} cells")


@dataclass
class Break:
    """A page mark. number: the page that begins here; None for the next one."""

    number: int | None = None


@dataclass
class Para:
    """A paragraph. level: of a declared heading, 0 for none.

    indent: of a text's paragraph, -1 in markup. is_alone: it is one line of a text, as headings are.
    """

    text: str
    level: int = 0
    indent: int = -1
    is_alone: bool = False

    def __post_init__(self) -> None:
        self.text = half_width(self.text)


@dataclass
class Grid:
    """A table, all rows of one length. header: the number of header rows."""

    rows: list[list[str]]
    header: int = 1
    caption: str = ""

    def __post_init__(self) -> None:
        width = max(map(len, self.rows), default=0)
        check_size(width * len(self.rows))
        self.rows = [[*map(half_width, row), *[""] * (width - len(row))] for row in self.rows]


Block = Break | Para | Grid
