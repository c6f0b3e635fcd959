"""The seven tools: each takes plain arguments, and returns plain JSON that names its places exactly."""

import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from regreader.index import Index
from regreader.numbering import Target, label_of, references_in, table_id, target_of
from regreader.regulation import Place, Regulation
from regreader.words import half_width, query_terms, terms

Found = dict[str, Any]
Function = Callable[..., Found]
LIMIT_MAX = 50
_SNIPPET = 240
_WORDS_MAX = 80  # of a text that similar places are searched for
TOOL_NAMES = (
    "list_regulations", "get_toc", "smart_search", "search_tables", "get_table_by_id",
    "lookup_annotation", "resolve_reference",
)  # fmt: skip


class ToolFailure(Exception):
    """A call that has no result. code: `not_found` or `bad_argument`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Tools:
    """The tools over one index.

    reg_id: id of a regulation; "" for all, where it can be left out. query: a few words. limit: of places.
    start_page, end_page: page numbers; without an end only the first. table_id: a number, such as "6-2".
    annotation_id: a label, such as "1", "Note 1", "注1", "*", or "表6-2注1", which names the table too.
    reference_text: such as "see Table 6-2, note 1", "§ 5.6.12" or "第三章".
    """

    def __init__(self, index: Index) -> None:
        self._index = index

    def by_name(self) -> dict[str, Function]:
        """Return the tools by their names."""
        return {name: getattr(self, name) for name in TOOL_NAMES}

    def call(self, name: str, arguments: Mapping[str, object]) -> Found:
        """Call a tool by its name. arguments: texts and whole numbers; a number can be a text, too."""
        if name not in TOOL_NAMES:
            raise ToolFailure("not_found", f"no tool {name!r}; tools are {', '.join(TOOL_NAMES)}")
        function: Function = getattr(self, name)
        known = inspect.signature(function)
        try:
            given = known.bind(**arguments).arguments
            texts = {key: str(one) if type(one) is int else one for key, one in given.items()}
            kinds = {key: known.parameters[key].annotation for key in given}
            given = {key: msgspec.convert(one, kinds[key], strict=False) for key, one in texts.items()}
        except (TypeError, msgspec.ValidationError) as error:
            told = f"{name}: {error}; it takes {', '.join(known.parameters) or 'no arguments'}"
            raise ToolFailure("bad_argument", told) from None
        return function(**given)

    def check(self, regulations: Sequence[str]) -> None:
        """Raise ToolFailure for an id of a regulation that is not imported; without ids if none is."""
        for reg_id in regulations or ([] if self._index.regulations() else [""]):
            self._regulation(reg_id)

    def list_regulations(self) -> Found:
        """List the imported regulations: ids, titles, pages."""
        return {"regulations": self._index.regulations()}

    def get_toc(self, reg_id: str) -> Found:
        """List the chapters, sections, annexes and schedules with their pages."""
        levels, entries = {"": 0}, []
        for one in self._regulation(reg_id).sections:
            levels[one.id] = levels.get(one.parent, 0) + 1
            told = {"level": levels[one.id], "page": one.page, "parent": one.parent}
            entries += [{**_named(one), **told}] if one.kind != "front" else []
        return {"reg_id": reg_id, "entries": entries}

    def smart_search(self, query: str, reg_id: str = "", limit: int = 5) -> Found:
        """Search sections, tables and notes for words, the best first; without reg_id in all regulations."""
        return {"query": query, "results": self._search(query, reg_id, ("section", "table"), limit)}

    def search_tables(self, query: str, reg_id: str = "", limit: int = 5) -> Found:
        """Search captions, columns, cells and notes of tables."""
        return {"query": query, "results": self._search(query, reg_id, ("table",), limit)}

    def get_table_by_id(self, reg_id: str, table_id: str) -> Found:
        """Return a table, such as "6-2", with its notes and the cells that they mark."""
        table = self._table(reg_id, table_id)
        names = [*table.columns, *[""] * (1 + max((place for _, place, _ in table.marks), default=0))]
        return {
            "reg_id": reg_id, "id": table.id, "table_id": table.number, "caption": table.title,
            "page": table.page, "page_end": table.page_end, "section": table.parent,
            "columns": table.columns, "rows": table.rows, "notes": [_note(one) for one in table.notes],
            "marks": [{"row": at, "column": names[one], "label": label} for at, one, label in table.marks],
        }  # fmt: skip

    def lookup_annotation(self, reg_id: str, annotation_id: str, table_id: str = "") -> Found:
        """Return a note by its label, such as "1" or "*", and its table."""
        named = target_of(annotation_id) if re.search("table|表", annotation_id, re.IGNORECASE) else None
        label = named.note if named and named.note else label_of(annotation_id)
        wanted = table_id or (named.number if named else "")
        number = self._table(reg_id, wanted).number if wanted else ""
        notes = [one for one in self._regulation(reg_id).places if one.kind == "note" and one.number == label]
        found = sorted((one for one in notes if number in ("", one.table)), key=lambda one: one.page)
        if not found:
            raise ToolFailure("not_found", f"{f'table {wanted}' if wanted else reg_id} has no note {label!r}")
        places = [{"id": one.id, "table_id": one.table, "section": one.parent} for one in found]
        first, *others = [{**_note(one), **place} for one, place in zip(found, places, strict=True)]
        return {"reg_id": reg_id, **first, "others": others}

    def resolve_reference(self, reg_id: str, reference_text: str) -> Found:
        """Find the place that words such as "Table 6-2, note 1" name; say if it is missing or ambiguous."""
        regulation, named = self._regulation(reg_id), references_in(half_width(reference_text))
        known, first = regulation.by_id.get(reference_text.strip()), target_of(reference_text)
        if known is not None:
            first = Target(known.kind, known.number)
        if first is None:
            told = f"{reference_text[:80]!r} names no chapter, section, table, note, annex or schedule"
            raise ToolFailure("bad_argument", told)
        found = [known] if known else regulation.named(first, [target for _, target in named[1:]])
        place = found[0] if len(found) == 1 else None
        links = place.links if place else []
        names = ("reference", "page", "target")
        return {
            "reg_id": reg_id, "reference": reference_text, "kind": first.kind, "number": first.number,
            "status": "resolved" if place else "ambiguous" if found else "dangling",
            "target": _told(reg_id, place) if place else None, "candidates": [one.id for one in found],
            "references": [dict(zip(names, link, strict=True)) for link in links],
        }  # fmt: skip

    def _regulation(self, reg_id: str) -> Regulation:
        found = self._index.get(reg_id)
        if found is None:
            known = ", ".join(one["reg_id"] for one in self._index.regulations())
            there = known or "none yet: regreader import FOLDER"
            raise ToolFailure("not_found", f"no regulation {reg_id!r}; there are: {there}")
        return found

    def _search(self, text: str, reg_id: str, kinds: Sequence[str], limit: int) -> list[Found]:
        """Return the places that hold the most words of a text."""
        if reg_id:
            self._regulation(reg_id)
        if not 1 <= limit <= LIMIT_MAX:
            raise ToolFailure("bad_argument", f"limit is {limit}; give 1 to {LIMIT_MAX}")
        words = (query_terms(text) or terms(text))[:_WORDS_MAX]
        return [_hit(row, set(words)) for row in self._index.search(words, reg_id, kinds, limit)]

    def _table(self, reg_id: str, wanted: str) -> Place:
        target = target_of(wanted) if re.search("[a-z表]", wanted, re.IGNORECASE) else None
        name = (target or Target("table", table_id(half_width(wanted).strip()))).number
        regulation = self._regulation(reg_id)
        found = [one for one in regulation.tables if one.number in (name, wanted.removeprefix("table "))]
        if len(found) != 1:
            told = f"several tables {wanted!r}" if found else f"no table {wanted!r}"
            raise ToolFailure("not_found", f"{reg_id} has {told}")
        return found[0]


def on_loop(function: Function) -> Callable[..., Awaitable[Found]]:
    """Make a tool async, so that it uses the index on the loop's thread."""

    @functools.wraps(function)
    async def call(**arguments: Any) -> Found:
        return function(**arguments)

    return call


def _note(note: Place) -> Found:
    return {"label": note.number, "text": note.words, "page": note.page}


def _named(place: Place) -> Found:
    return {"id": place.id, "kind": place.kind, "number": place.number, "title": place.title}


def _told(reg_id: str, place: Place) -> Found:
    where = {"page": place.page, "page_end": place.page_end, "section": place.parent}
    return {"reg_id": reg_id, **_named(place), **where, "text": place.words}


def _hit(row: Found, words: set[str]) -> Found:
    """Return a place with the line that holds the most of some words."""
    best = max(row["text"].split("\n"), key=lambda line: len(words & set(terms(line))))
    return {
        "reg_id": row["reg"], "kind": row["kind"], "id": row["name"], "title": row["title"],
        "page": row["page"], "snippet": best[:_SNIPPET], "score": round(row["score"], 3),
    }  # fmt: skip
