"""A regulation: its pages, its places (sections, tables and notes), and the references between them."""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

import msgspec

from regreader.numbering import Target, references_in


class Place(msgspec.Struct, omit_defaults=True):
    """A section, a table or a note. page, page_end: 0 in a file without page marks.

    parent: the id of the section that holds it. links: words of a reference, page, id of its target if there
    is exactly one. marks: row, column and label of cells with a note; row -1 is the name of the column.
    """

    kind: str  # part, chapter, article, rule, section, annex, schedule, heading, front, table or note
    number: str  # of a note its label
    title: str
    page: int = 0
    page_end: int = 0
    parent: str = ""
    level: int = 0
    text: list[tuple[int, str]] = []  # paragraphs with their pages
    links: list[tuple[str, int, str | None]] = []
    columns: list[str] = []
    rows: list[list[str]] = []
    marks: list[tuple[int, int, str]] = []
    notes: list["Place"] = []
    table: str = ""  # of a note the number of its table
    id: str = ""  # its name, with that of its parent if several places have one name

    @property
    def name(self) -> str:
        """Return the number, with the kind where that is not plain."""
        if self.kind == "note":
            return f"table {self.table} note {self.number}"
        return self.number if self.kind == "section" else f"{self.kind} {self.number}"

    @property
    def words(self) -> str:
        """Return the text without its pages."""
        return "\n".join(text for _, text in self.text)


def note_of(label: str, text: str, page: int, section: str, table: str) -> Place:
    """Return a note of a table."""
    return Place("note", label, "", page, page, section, text=[(page, text)], table=table)


def free_id(place: Place, taken: set[str]) -> str:
    """Return the id of a place, and take it: its name, with the id of its parent if that is taken."""
    within = f"{place.name} ({place.parent})" if place.parent else place.name
    ways = itertools.chain([place.name, within], (f"{within} ({at})" for at in itertools.count(2)))
    found = next(one for one in ways if one not in taken)
    taken.add(found)
    return found


class Regulation(msgspec.Struct, dict=True):
    """One regulation. form: the form that it was read as."""

    id: str
    title: str
    source: str
    form: str = ""
    last_page: int = 0
    sections: list[Place] = []
    tables: list[Place] = []

    @property
    def summary(self) -> str:
        """Say what the file declares, such as "no pages; 3 sections; 1 table; read as text"."""
        sections = [one for one in self.sections if one.kind != "front"]
        sizes = {"page": self.last_page, "section": len(sections), "table": len(self.tables)}
        told = [f"{count or 'no'} {name}{'' if count == 1 else 's'}" for name, count in sizes.items()]
        return "; ".join([*told, f"read as {self.form}"])

    @property
    def places(self) -> list[Place]:
        """Return the sections, the tables and all notes."""
        return [*self.sections, *self.tables, *(note for one in self.tables for note in one.notes)]

    @cached_property
    def by_id(self) -> dict[str, Place]:
        """The places by their ids."""
        return {one.id: one for one in self.places}

    @cached_property
    def by_name(self) -> dict[str, list[Place]]:
        """The places by their names, which several may share."""
        found = defaultdict[str, list[Place]](list)
        for one in self.places:
            found[one.name].append(one)
        return found

    def named(self, target: Target, beside: Sequence[Target] = ()) -> list[Place]:
        """Return the places that a reference may mean: one, none for a dangling one, or several of one name.

        beside: places named with it, such as the chapter of an article. A kind that the regulation does not
        use, as in "Article 4" of numbered sections, means the plain number.
        """
        found = self.by_name.get(target.id, [])
        if not found and not any(one.kind == target.kind for one in self.sections) and not target.note:
            found = self.by_name.get(target.number, []) if target.kind != "table" else []
        if len(found) > 1:
            around = {other.id for other in beside}
            found = [one for one in found if around & {*self.above(one)}] or found
        return found

    def above(self, place: Place) -> list[str]:
        """Return the ids and names of the sections that hold a place, the nearest first."""
        found: list[str] = []
        while parent := self.by_id.get(place.parent):
            found += [parent.id, parent.name]
            place = parent
        return found

    def link(self) -> None:
        """Give the tables and notes their ids, and find all references. Call it once, at the end."""
        taken = {one.id for one in self.sections}
        for one in self.places[len(self.sections) :]:
            one.id = free_id(one, taken)
        for one in self.places:
            for page, text in one.text:
                for words, target in references_in(text):
                    found = self.named(target)
                    is_plain = words == target.number  # as of a version, if there is no such place
                    if one not in found and (found or not is_plain):
                        one.links.append((words, page, found[0].id if len(found) == 1 else None))
