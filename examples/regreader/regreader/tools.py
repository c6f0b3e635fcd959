"""The ten tools: each takes plain arguments, and returns plain JSON that names its places exactly."""

import re
import sqlite3
from collections.abc import Callable
from typing import Any, Final

from regreader.index import Index, unpacked
from regreader.numbering import Target, heading_of, label_of, references_in, same_number, table_id
from regreader.words import half_width, query_terms, terms

Found = dict[str, Any]
PAGES_MAX: Final = 20
LIMIT_MAX: Final = 50
_SNIPPET: Final = 240
_HOPS_MAX: Final = 20
_SECTIONS: Final = ("chapter", "section", "article", "annex", "schedule", "part", "heading")


class ToolFailure(Exception):
    """A call that has no result. code: `not_found` or `bad_argument`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Tools:
    """The tools over one index."""

    def __init__(self, index: Index) -> None:
        self._index = index

    # --- the regulation as a whole --------------------------------------------------------

    def list_regulations(self) -> Found:
        """List the imported regulations, with their ids, titles and pages."""
        rows = self._index.rows("SELECT * FROM regulations ORDER BY id")
        return {"regulations": [_regulation(row) for row in rows]}

    def get_toc(self, reg_id: str) -> Found:
        """Return the table of contents: chapters, sections, annexes and schedules with their pages.

        reg_id: of the regulation.
        """
        self._regulation(reg_id)
        rows = self._index.rows(
            "SELECT * FROM sections WHERE reg = ? AND kind != 'front' ORDER BY place", reg_id
        )
        names = ("id", "kind", "number", "title", "level", "page", "parent")
        return {"reg_id": reg_id, "entries": [{name: row[name] for name in names} for row in rows]}

    def read_page_range(self, reg_id: str, start_page: int, end_page: int = 0) -> Found:
        """Read pages, at most 20.

        reg_id: of the regulation. start_page, end_page: page numbers; without an end only the first.
        """
        known = self._regulation(reg_id)
        end = end_page or start_page
        if end < start_page or end - start_page >= PAGES_MAX:
            raise ToolFailure(
                "bad_argument", f"pages {start_page} to {end}: give 1 to {PAGES_MAX} pages in order"
            )
        rows = self._index.rows(
            "SELECT page, text FROM pages WHERE reg = ? AND page BETWEEN ? AND ? ORDER BY page",
            reg_id,
            start_page,
            end,
        )
        if not rows:
            raise ToolFailure("not_found", f"{reg_id} has pages {known['first']} to {known['last']}")
        return {"reg_id": reg_id, "pages": [{"page": row["page"], "text": row["text"]} for row in rows]}

    # --- search ---------------------------------------------------------------------------

    def smart_search(self, query: str, reg_id: str = "", limit: int = 5) -> Found:
        """Search sections, tables and notes for words; the best places come first.

        query: a few words. reg_id: of one regulation; empty for all. limit: places, at most 50.
        """
        return self._search(query, reg_id, ("section", "table", "note"), limit)

    def search_tables(self, query: str, reg_id: str = "", limit: int = 5) -> Found:
        """Search tables by their captions, columns, cells and notes.

        query: a few words. reg_id: of one regulation; empty for all. limit: tables, at most 50.
        """
        return self._search(query, reg_id, ("table",), limit)

    def find_similar_content(self, reg_id: str, query_text: str, limit: int = 5) -> Found:
        """Find places that share the most words with a text or with a section.

        reg_id: of the regulation. query_text: a text, or the number of a section. limit: places.
        """
        section = self._find_section(reg_id, half_width(query_text))
        text = f"{section['title']} {section['text']}" if section else query_text
        mine = set(query_terms(text))
        found = self._index.search(sorted(mine)[:80], reg_id, ("section", "table"), min(limit, LIMIT_MAX) + 3)
        others = [
            row
            for row in found
            if not (section and row["name"] == section["id"] and row["kind"] == "section")
        ]
        return {"reg_id": reg_id, "results": [self._hit(row, mine) for row in others[:limit]]}

    # --- tables and notes -----------------------------------------------------------------

    def get_table_by_id(self, reg_id: str, table_id: str) -> Found:
        """Return a whole table, put together over its pages, with its notes and the cells that they mark.

        reg_id: of the regulation. table_id: its number, such as "6-2".
        """
        row = self._table(reg_id, table_id)
        notes = self._index.rows(
            "SELECT * FROM notes WHERE reg = ? AND tab = ? ORDER BY rowid", reg_id, row["number"]
        )
        columns, cells = unpacked(row, "columns"), unpacked(row, "rows")
        return {
            "reg_id": reg_id,
            "table_id": row["number"],
            **{name: row[name] for name in ("caption", "page", "page_end", "section")},
            "columns": columns,
            "rows": cells,
            "notes": [{"label": note["label"], "text": note["text"], "page": note["page"]} for note in notes],
            "marks": [
                {"row": at, "column": columns[place] if place < len(columns) else "", "label": label}
                for at, place, label in unpacked(row, "marks")
            ],
        }

    def lookup_annotation(self, reg_id: str, annotation_id: str, table_id: str = "") -> Found:
        """Return a note, and the table that it belongs to.

        reg_id: of the regulation. annotation_id: its label, such as "1", "Note 1", "注1", "*" or "表6-2注1".
        table_id: of its table; empty if the label names it, or for a note of a page.
        """
        self._regulation(reg_id)
        named = [target for _, target in references_in(annotation_id) if target.kind == "table"]
        wanted = table_id or (named[0].number if named else "")
        label = named[0].note if named and named[0].note else label_of(annotation_id)
        if wanted:
            number = self._table(reg_id, wanted)["number"]
            rows = self._index.rows(
                "SELECT * FROM notes WHERE reg = ? AND tab = ? AND label = ?", reg_id, number, label
            )
        else:
            rows = self._index.rows(
                "SELECT * FROM notes WHERE reg = ? AND label = ? ORDER BY page", reg_id, label
            )
        if not rows:
            where = f"table {wanted}" if wanted else reg_id
            raise ToolFailure("not_found", f"{where} has no note {label!r}")
        names = {"label": "label", "text": "text", "page": "page", "table_id": "tab", "section": "section"}
        notes = [{name: row[column] for name, column in names.items()} for row in rows]
        return {"reg_id": reg_id, **notes[0], "others": notes[1:]}

    # --- references -----------------------------------------------------------------------

    def resolve_reference(self, reg_id: str, reference_text: str) -> Found:
        """Find the target of a reference, and say if it is dangling or circular.

        reg_id: of the regulation. reference_text: such as "see Table 6-2, note 1", "§ 5.6.12" or "第三章".
        """
        self._regulation(reg_id)
        target = self._target_of(reference_text)
        found = self._resolved(reg_id, target)
        answer: Found = {
            "reg_id": reg_id,
            "reference": reference_text,
            "kind": target.kind,
            "number": target.number,
        }
        if target.note:
            answer["note"] = target.note
        if found is None:
            return {**answer, "status": "dangling", "target": None, "references": [], "chain": []}
        circle = self._circle(reg_id, found["id"])
        return {
            **answer,
            "status": "circular" if circle else "resolved",
            "target": found,
            "references": self._links_of(reg_id, found["id"]),
            "chain": circle or self._chain(reg_id, found["id"]),
        }

    def compare_sections(self, reg_id: str, section_a: str, section_b: str) -> Found:
        """Compare two sections: their texts, the words that only one has, and the ones they share.

        reg_id: of the regulation. section_a, section_b: numbers; "ID:NUMBER" for one of another regulation.
        """
        sides = [self._side(reg_id, one) for one in (section_a, section_b)]
        words = [list(dict.fromkeys(terms(side["text"]))) for side in sides]
        shared = [word for word in words[0] if word in set(words[1])]
        return {
            "a": sides[0],
            "b": sides[1],
            "only_a": [word for word in words[0] if word not in set(shared)],
            "only_b": [word for word in words[1] if word not in set(shared)],
            "shared": shared,
            "is_equal": sides[0]["text"] == sides[1]["text"],
        }

    # --- helpers --------------------------------------------------------------------------

    def _regulation(self, reg_id: str) -> sqlite3.Row:
        row = self._index.row("SELECT * FROM regulations WHERE id = ?", reg_id)
        if row is None:
            known = [one["id"] for one in self._index.rows("SELECT id FROM regulations ORDER BY id")]
            raise ToolFailure(
                "not_found", f"no regulation {reg_id!r}; there are: {', '.join(known) or 'none'}"
            )
        return row

    def _search(self, query: str, reg_id: str, kinds: tuple[str, ...], limit: int) -> Found:
        if reg_id:
            self._regulation(reg_id)
        if not 1 <= limit <= LIMIT_MAX:
            raise ToolFailure("bad_argument", f"limit is {limit}; give 1 to {LIMIT_MAX}")
        words = query_terms(query) or terms(query)
        rows = self._index.search(words, reg_id, kinds, limit)
        return {"query": query, "results": [self._hit(row, set(words)) for row in rows]}

    def _hit(self, row: sqlite3.Row, words: set[str]) -> Found:
        return {
            "reg_id": row["reg"], "kind": row["kind"], "id": row["name"], "title": row["title"],
            "page": row["page"], "snippet": _snippet(row["text"], words), "score": round(row["score"], 3),
        }  # fmt: skip

    def _table(self, reg_id: str, wanted: str) -> sqlite3.Row:
        self._regulation(reg_id)
        if re.match(r"附表|schedule", wanted, re.IGNORECASE) and (
            place := self._find_section(reg_id, wanted)
        ):
            row = self._index.row("SELECT * FROM tables WHERE reg = ? AND section = ?", reg_id, place["id"])
            if row is not None:
                return row
        number = wanted if wanted.startswith("unnumbered") else table_id(wanted)
        rows = self._index.rows("SELECT * FROM tables WHERE reg = ?", reg_id)
        exact = [row for row in rows if row["number"] == number]
        near = [row for row in rows if same_number(row["number"]) == same_number(number)]
        if not exact + near:
            raise ToolFailure("not_found", f"{reg_id} has no table {wanted!r}")
        return (exact + near)[0]

    def _find_section(self, reg_id: str, name: str) -> sqlite3.Row | None:
        self._regulation(reg_id)
        name = name.strip().removeprefix("§").strip()
        row = self._index.row("SELECT * FROM sections WHERE reg = ? AND id = ? ORDER BY place", reg_id, name)
        if row is not None:
            return row
        targets = [target for _, target in references_in(name) if target.kind != "table"]
        wanted = targets[0] if targets else None
        if wanted is None and (heading := heading_of(f"{name} x", 1)):
            wanted = Target(heading.kind, heading.number)
        if wanted is None:
            return None
        same = "SELECT * FROM sections WHERE reg = ? AND kind = ? AND number = ? ORDER BY place"
        found = self._index.row(same, reg_id, wanted.kind, wanted.number)
        if found is None and wanted.kind in ("section", "article"):
            other = "article" if wanted.kind == "section" else "section"
            found = self._index.row(same, reg_id, other, wanted.number)
        if found is None and wanted.kind == "section" and "." not in wanted.number:
            found = self._index.row(same, reg_id, "chapter", wanted.number)
        if found is None and wanted.kind == "chapter":
            found = self._index.row(same, reg_id, "section", wanted.number)
        return found

    def _side(self, reg_id: str, name: str) -> Found:
        reg, _, rest = name.rpartition(":")
        reg = reg or reg_id
        row = self._find_section(reg, half_width(rest))
        if row is None:
            raise ToolFailure("not_found", f"{reg} has no section {rest!r}")
        return {"reg_id": reg, **self._section(row)}

    @staticmethod
    def _target_of(text: str) -> Target:
        found = references_in(text)
        if found:
            return found[0][1]
        plain = half_width(text).strip()
        if re.fullmatch(r"(?:[A-Z]\.)?\d+(?:\.\d+)*", plain):
            return Target("section", plain)
        if re.fullmatch(r"(?:[A-Z][-.]?)?\d+-\d+", plain):
            return Target("table", plain)
        heading = heading_of(f"{plain} x", 1)
        if heading is None:
            raise ToolFailure(
                "bad_argument", f"{text!r} names no chapter, section, table, note, annex or schedule"
            )
        return Target(heading.kind, heading.number)

    def _resolved(self, reg_id: str, target: Target) -> Found | None:
        if target.kind != "table":
            row = self._find_section(reg_id, target.id)
            return None if row is None else self._section(row)
        try:
            table = self.get_table_by_id(reg_id, target.number)
        except ToolFailure:
            return None
        place = {name: table[name] for name in ("page", "page_end", "section")}
        if not target.note:
            return {
                "id": f"table {table['table_id']}",
                "kind": "table",
                "number": table["table_id"],
                "title": table["caption"],
                **place,
                "text": "",
            }
        notes = [note for note in table["notes"] if note["label"] == target.note]
        if not notes:
            return None
        return {
            "id": f"table {table['table_id']} note {target.note}", "kind": "note", "number": target.note,
            "title": table["caption"], **place, "page": notes[0]["page"], "text": notes[0]["text"],
        }  # fmt: skip

    @staticmethod
    def _section(row: sqlite3.Row) -> Found:
        names = ("id", "kind", "number", "title", "page", "page_end", "parent", "text")
        return {name: row[name] for name in names}

    def _links_of(self, reg_id: str, source: str) -> list[Found]:
        """Return the references in a place, each with the id of its target, None for a dangling one."""
        rows = self._index.rows(
            "SELECT * FROM links WHERE reg = ? AND source = ? ORDER BY rowid", reg_id, source
        )
        found = []
        for row in rows:
            target = self._resolved(reg_id, Target(row["kind"], row["number"], row["note"]))
            found.append(
                {"reference": row["words"], "page": row["page"], "target": target["id"] if target else None}
            )
        return found

    def _chain(self, reg_id: str, start: str) -> list[str]:
        """Return the places that one comes to by the first reference of each, from a place on."""
        chain = [start]
        while len(chain) < _HOPS_MAX:
            links = [link["target"] for link in self._links_of(reg_id, chain[-1])]
            following = next((target for target in links if target), None)
            if following is None or following in chain:
                break
            chain.append(following)
        return chain

    def _circle(self, reg_id: str, start: str) -> list[str]:
        """Return the shortest way by references from a place back to it; [] without one."""
        ways, seen = [[start]], {start}
        while ways:
            way = ways.pop(0)
            for link in self._links_of(reg_id, way[-1]):
                if link["target"] == start:
                    return [*way, start]
                if link["target"] and link["target"] not in seen and len(way) < _HOPS_MAX:
                    seen.add(link["target"])
                    ways.append([*way, link["target"]])
        return []

    def by_name(self) -> dict[str, Callable[..., Found]]:
        """Return the tools by their names."""
        return {name: getattr(self, name) for name in TOOL_NAMES}


TOOL_NAMES: Final = (
    "list_regulations", "get_toc", "smart_search", "read_page_range", "search_tables", "get_table_by_id",
    "lookup_annotation", "resolve_reference", "find_similar_content", "compare_sections",
)  # fmt: skip


def _regulation(row: sqlite3.Row) -> Found:
    return {
        "reg_id": row["id"],
        "title": row["title"],
        "source": row["source"],
        "first_page": row["first"],
        "last_page": row["last"],
    }


def _snippet(text: str, words: set[str]) -> str:
    """Return the line of a text that holds the most of some words, cut to its length."""
    lines = text.split("\n")
    best = max(lines, key=lambda line: len(words & set(terms(line))), default="")
    return best[:_SNIPPET]
