"""The blocks that a file is read into, and the regulation that they are put together to."""

from dataclasses import dataclass, field


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


@dataclass
class Section:
    """A chapter, section, article, annex or schedule. text: its paragraphs with their pages."""

    kind: str
    number: str
    title: str
    level: int
    page: int
    page_end: int = 0
    parent: str = ""
    text: list[tuple[int, str]] = field(default_factory=list)

    @property
    def id(self) -> str:
        """Return the name of the section: its number, with the kind where that is not plain."""
        return self.number if self.kind == "section" else f"{self.kind} {self.number}"


@dataclass
class Note:
    """A note of a table, or of a page. table: its number; empty for none. mark: the id of links to it."""

    label: str
    text: str
    page: int
    table: str = ""
    section: str = ""
    mark: str = ""

    @property
    def id(self) -> str:
        """Return the name of the note."""
        return f"{f'table {self.table}' if self.table else self.section} note {self.label}"


@dataclass
class Table:
    """A table, put together over its pages. marks: (row, column, label) of the cells with a note."""

    number: str
    caption: str
    page: int
    page_end: int
    section: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    marks: list[tuple[int, int, str]] = field(default_factory=list)


@dataclass
class Regulation:
    """One regulation, as it is indexed. notes: those that belong to no table."""

    id: str
    title: str
    source: str
    pages: dict[int, str] = field(default_factory=dict)
    sections: list[Section] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
