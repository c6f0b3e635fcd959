"""A regulation: its pages, its places (sections, tables and notes), and the references between them."""

from collections import deque
from functools import cached_property

import msgspec

from regreader.numbering import Target, references_in
from regreader.words import shown


class Place(msgspec.Struct, omit_defaults=True):
    """A section, a table or a note. Its parent is the id of the section that holds it."""

    kind: str  # part, chapter, article, section, annex, schedule, heading, front, table or note
    number: str  # of a note its label
    title: str
    page: int
    page_end: int
    parent: str = ""
    level: int = 0
    text: list[tuple[int, str]] = []  # paragraphs with their pages
    links: list[
        tuple[str, int, str | None]
    ] = []  # words of a reference, page, id of its target if there is one
    columns: list[str] = []
    rows: list[list[str]] = []
    marks: list[
        tuple[int, int, str]
    ] = []  # row, column and label of cells with a note; row -1: the column's name
    notes: list["Place"] = []
    table: str = ""  # of a note the number of its table
    anchor: str = ""  # of a note the id of the links to it

    @property
    def id(self) -> str:
        """Return the name of the place: its number, with the kind where that is not plain."""
        if self.kind == "note":
            return f"{f'table {self.table}' if self.table else self.parent} note {self.number}"
        return self.number if self.kind == "section" else f"{self.kind} {self.number}"

    @property
    def words(self) -> str:
        """Return the text without its pages."""
        return "\n".join(text for _, text in self.text)


def note_of(label: str, text: str, page: int, section: str, table: str = "", anchor: str = "") -> Place:
    """Return a note of a table, or of a page."""
    text = shown(text)
    return Place("note", label, "", page, page, section, text=[(page, text)], table=table, anchor=anchor)


class Regulation(msgspec.Struct, dict=True):
    """One regulation. notes: those that belong to no table."""

    id: str
    title: str
    source: str
    pages: dict[int, str] = {}
    sections: list[Place] = []
    tables: list[Place] = []
    notes: list[Place] = []

    @property
    def places(self) -> list[Place]:
        """Return the sections, the tables and all notes."""
        of_tables = [note for one in self.tables for note in one.notes]
        return [*self.sections, *self.tables, *of_tables, *self.notes]

    @cached_property
    def by_id(self) -> dict[str, Place]:
        """The places by their ids; the first one of an id counts."""
        return {one.id: one for one in reversed(self.places)}

    def resolve(self, target: Target) -> Place | None:
        """Return the place that a reference leads to; None for a dangling one."""
        return next((self.by_id[name] for name in target.names if name in self.by_id), None)

    def link(self) -> None:
        """Find the references of each place, but none to itself. Call it once, when all places are there."""
        known = {one.number for one in self.sections}
        for one in self.places:
            for page, text in one.text:
                named = references_in(text, known)
                found = [(words, self.resolve(target)) for words, target in named if target.id != one.id]
                one.links += [(words, page, place.id if place else None) for words, place in found]

    def circle(self, start: Place) -> list[str]:
        """Return the shortest way by references from a place back to it; [] without one."""
        ways, seen = deque([[start.id]]), {start.id}
        while ways:
            way = ways.popleft()
            for target in (target for _, _, target in self.by_id[way[-1]].links if target):
                if target == start.id:
                    return [*way, start.id]
                ways += [] if target in seen else [[*way, target]]
                seen.add(target)
        return []
