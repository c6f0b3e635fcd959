"""The index: one SQLite file with pages, places, the references between them, and full-text search.

A place is a section, a table or a note. Chinese text is indexed as overlapping bigrams, because SQLite's
trigram tokenizer finds no word of two characters.
"""

import itertools
import json
import sqlite3
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from regreader.blocks import Regulation
from regreader.numbering import Target, references_in, table_numbers
from regreader.words import terms

Row = dict[str, Any]
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS regulations(reg_id TEXT PRIMARY KEY, title TEXT, source TEXT, first_page INT, last_page INT);
CREATE TABLE IF NOT EXISTS pages(reg TEXT, page INT, text TEXT, PRIMARY KEY(reg, page));
CREATE TABLE IF NOT EXISTS places(reg TEXT, id TEXT, kind TEXT, number TEXT, title TEXT, level INT, page INT, page_end INT,
    section TEXT, text TEXT, table_id TEXT, cells TEXT);
CREATE INDEX IF NOT EXISTS place_ids ON places(reg, id);
CREATE TABLE IF NOT EXISTS links(reg TEXT, source TEXT, page INT, reference TEXT, target TEXT);
CREATE INDEX IF NOT EXISTS link_sources ON links(reg, source);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(title_words, body_words, reg UNINDEXED, kind UNINDEXED,
    name UNINDEXED, title UNINDEXED, page UNINDEXED, text UNINDEXED, tokenize="unicode61 tokenchars '.-'");
"""
_TITLE_WEIGHT: Final = 3.0
_CANDIDATES: Final = 60  # places that are ranked again by the words that they hold


class Index:
    """An open index. path: its file, which is made if it is missing. Use it from one thread at a time."""

    def __init__(self, path: Path | str) -> None:
        self._db = sqlite3.connect(path, check_same_thread=False)
        self._db.row_factory = lambda cursor, row: dict(
            zip((one[0] for one in cursor.description), row, strict=True)
        )
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def rows(self, query: str, *values: object) -> list[Row]:
        """Return the rows of a query."""
        return self._db.execute(query, values).fetchall()

    def row(self, query: str, *values: object) -> Row | None:
        """Return the first row of a query."""
        found: Row | None = self._db.execute(query, values).fetchone()
        return found

    def put(self, regulation: Regulation) -> None:
        """Add a regulation; it replaces one of the same id."""
        reg, pages = regulation.id, regulation.pages
        span = min(pages, default=0), max(pages, default=0)
        with self._db:
            for table in ("pages", "places", "links", "words"):
                self._db.execute(f"DELETE FROM {table} WHERE reg = ?", (reg,))
            self._many("REPLACE INTO regulations", [(reg, regulation.title, regulation.source, *span)])
            self._many("INSERT INTO pages", ((reg, page, text) for page, text in pages.items()))
            self._many("INSERT INTO places", ((reg, *place) for place in _places(regulation)))
            self._many("INSERT INTO words", _words(regulation))
            self._many("INSERT INTO links", [*self._links(regulation)])

    def _many(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        rows = iter(rows)
        if first := next(rows, None):
            query = f"{statement} VALUES({','.join('?' * len(first))})"
            self._db.execute(query, first)
            self._db.executemany(query, rows)

    def _links(self, regulation: Regulation) -> Iterator[tuple[object, ...]]:
        """Return the references in sections and notes with the ids of their targets, but none of a place to itself."""
        for one in regulation.places:
            for page, text in one.text:
                for words, target in references_in(text):
                    if target.id != one.id:
                        found = self.resolve(regulation.id, target)
                        yield regulation.id, one.id, page, words, found["id"] if found else None

    def place(self, reg: str, name: str) -> Row | None:
        """Return the place of an id."""
        return self.row("SELECT * FROM places WHERE reg = ? AND id = ? ORDER BY rowid", reg, name)

    def resolve(self, reg: str, target: Target) -> Row | None:
        """Return the place that a reference leads to; None for a dangling one."""
        if target.kind == "table":
            table = self.table(reg, target.number)
            return self.place(reg, f"{table['id']} note {target.note}") if table and target.note else table
        return next((place for name in target.names if (place := self.place(reg, name))), None)

    def table(self, reg: str, number: str) -> Row | None:
        """Return a table; 6-2 and 6.2 are one number."""
        return next((row for one in table_numbers(number) if (row := self.place(reg, f"table {one}"))), None)

    def search(self, words: Iterable[str], reg: str, kinds: tuple[str, ...], limit: int) -> list[Row]:
        """Return the chunks that hold most of the words, the best first. reg: "" for all regulations."""
        wanted = list(words)
        query = " OR ".join(
            '"' + word.replace('"', '""') + '"' + "*" * (len(word) == 1 and not word.isascii())
            for word in wanted
        )
        if not query:
            return []
        where = f"words MATCH ? AND kind IN ({','.join('?' * len(kinds))})" + (" AND reg = ?" if reg else "")
        found = self.rows(
            f"SELECT *, -bm25(words, {_TITLE_WEIGHT}, 1.0) AS score FROM words WHERE {where} "
            "ORDER BY score DESC, rowid LIMIT ?",
            *[query, *kinds, *([reg] if reg else []), limit * 4 + _CANDIDATES],
        )
        # A place that holds all words comes before one that holds a rare word often.
        held = [{*row["title_words"].split(), *row["body_words"].split()} for row in found]
        order = sorted(range(len(found)), key=lambda at: -len(held[at].intersection(wanted)))
        return [found[at] for at in order[:limit]]


def _places(regulation: Regulation) -> Iterator[tuple[object, ...]]:
    for one in regulation.places:
        text = "\n".join(text for _, text in one.text)
        is_table = one.kind == "table"
        cells = json.dumps([one.columns, one.rows, one.marks], ensure_ascii=False) if is_table else ""
        named = one.id, one.kind, one.number, one.title, one.level, one.page, one.page_end, one.parent
        yield (*named, text, one.number if is_table else one.table, cells)


def _words(regulation: Regulation) -> Iterator[tuple[object, ...]]:
    """Return the texts that are searched: a section once for each of its pages, a table with its notes."""
    for one in regulation.places:
        by_page = {
            page: [text for _, text in run] for page, run in itertools.groupby(one.text, itemgetter(0))
        }
        kind, name, title = "section", one.id, f"{one.number} {one.title}"
        if one.kind == "table":
            lines = [" | ".join(row) for row in (one.columns, *one.rows)]
            by_page = {one.page: [*lines, *(text for note in one.notes for _, text in note.text)]}
            kind, name = "table", one.number
        elif one.kind == "note":
            kind, name, title = "note", one.number, ""
        elif one.kind == "heading":
            title = one.title
        if not (kind == "note" and one.table):
            for page, texts in (by_page or {one.page: []}).items():
                text = "\n".join(texts)
                known = " ".join(terms(title)), " ".join(terms(text))
                yield (*known, regulation.id, kind, name, title, page, text)
