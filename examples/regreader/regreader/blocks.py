"""The blocks that a file is read into, with half-width digits and letters."""

from dataclasses import dataclass

from regreader.words import half_width

_CELLS_MAX = 1_000_000  # of a table


class Unreadable(Exception):
    """A file that is no regulation. Its text is the reason."""


def check_size(cells: int) -> None:
    """Raise Unreadable for a table with too many cells."""
    if cells > _CELLS_MAX:
        raise Unreadable(f"it has a table of more than {_CELLS_MAX:,} cells")


@dataclass
class Break:
    """A page mark. number: the page it names; None without one. is_foot: it was text that ends its page."""

    number: int | None = None
    is_foot: bool = False


@dataclass
class Para:
    """A paragraph. level: of a heading, 0 for none. anchor: its id, the target of links."""

    text: str
    level: int = 0
    anchor: str = ""


@dataclass
class Grid:
    """A table as it stands on one page, all rows of one length. header: the number of header rows."""

    rows: list[list[str]]
    header: int = 1
    caption: str = ""

    def __post_init__(self) -> None:
        width = max(map(len, self.rows), default=0)
        check_size(width * len(self.rows))
        self.rows = [[*map(half_width, row), *[""] * (width - len(row))] for row in self.rows]


Block = Break | Para | Grid
Item = Block | str  # a text is a list of its lines until its pages are known
