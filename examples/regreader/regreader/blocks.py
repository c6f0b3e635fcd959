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
class Place:
    """A section, a table or a note.

    kind: part, chapter, article, section, annex, schedule, heading, front, table or note. number: of a note
    its label. text: its paragraphs with their pages. parent: the id of the section that holds it.
    columns, rows, marks, notes: of a table; a mark is (row, column, label) of a cell with a note, row -1 for
    the name of a column. table: the number of a note's table, if any. anchor: the id of links to a note.
    """

    kind: str
    number: str
    title: str
    page: int
    page_end: int
    parent: str = ""
    level: int = 0
    text: list[tuple[int, str]] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    marks: list[tuple[int, int, str]] = field(default_factory=list)
    notes: list["Place"] = field(default_factory=list)
    table: str = ""
    anchor: str = ""

    @property
    def id(self) -> str:
        """Return the name of the place: its number, with the kind where that is not plain."""
        if self.kind == "note":
            return f"{f'table {self.table}' if self.table else self.parent} note {self.number}"
        return self.number if self.kind == "section" else f"{self.kind} {self.number}"

    def give_notes(self, notes: list[tuple[str, str]], page: int) -> None:
        """Add notes of a table, as (label, text)."""
        self.notes += [note_of(label, text, page, self.parent, self.number) for label, text in notes]


def note_of(label: str, text: str, page: int, section: str, table: str = "", anchor: str = "") -> Place:
    """Return a note of a table, or of a page."""
    return Place("note", label, "", page, page, section, text=[(page, text)], table=table, anchor=anchor)


@dataclass
class Regulation:
    """One regulation, as it is indexed. notes: those that belong to no table."""

    id: str
    title: str
    source: str
    pages: dict[int, str] = field(default_factory=dict)
    sections: list[Place] = field(default_factory=list)
    tables: list[Place] = field(default_factory=list)
    notes: list[Place] = field(default_factory=list)

    @property
    def places(self) -> list[Place]:
        """Return the sections, the tables and all notes."""
        return [
            *self.sections,
            *self.tables,
            *(note for one in self.tables for note in one.notes),
            *self.notes,
        ]
