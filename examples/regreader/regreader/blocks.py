"""The blocks that a file is read into, before they are put together to a regulation."""

from dataclasses import dataclass


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
    """A table as it stands on one page. header: the number of header rows."""

    rows: list[list[str]]
    header: int = 1
    caption: str = ""


Block = Break | Para | Grid
Item = Block | str  # a text is a list of its lines until its pages are known
