"""The index: one SQLite file with pages, sections, tables, notes and references, and full-text search.

Chinese text is indexed as overlapping bigrams, because SQLite's trigram tokenizer finds no word of two
characters.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from regreader.blocks import Note, Regulation, Section, Table
from regreader.numbering import references_in
from regreader.words import terms

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS regulations(id TEXT PRIMARY KEY, title TEXT, source TEXT, first INT, last INT);
CREATE TABLE IF NOT EXISTS pages(reg TEXT, page INT, text TEXT, PRIMARY KEY(reg, page));
CREATE TABLE IF NOT EXISTS sections(reg TEXT, place INT, id TEXT, kind TEXT, number TEXT, title TEXT, level INT,
    page INT, page_end INT, parent TEXT, text TEXT, PRIMARY KEY(reg, place));
CREATE INDEX IF NOT EXISTS section_ids ON sections(reg, id);
CREATE TABLE IF NOT EXISTS tables(reg TEXT, number TEXT, caption TEXT, page INT, page_end INT, section TEXT,
    columns TEXT, rows TEXT, marks TEXT);
CREATE TABLE IF NOT EXISTS notes(reg TEXT, label TEXT, text TEXT, page INT, tab TEXT, section TEXT);
CREATE TABLE IF NOT EXISTS links(reg TEXT, source TEXT, page INT, words TEXT, kind TEXT, number TEXT, note TEXT);
CREATE TABLE IF NOT EXISTS chunks(id INTEGER PRIMARY KEY, reg TEXT, kind TEXT, name TEXT, title TEXT, page INT,
    text TEXT);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(title, body, tokenize="unicode61 tokenchars '.-'");
"""
_TITLE_WEIGHT: Final = 3.0
_CANDIDATES: Final = 60  # places that are ranked again by the words that they hold


class Index:
    """An open index. path: its file, which is made if it is missing. Use it from one thread at a time."""

    def __init__(self, path: Path | str) -> None:
        self._db = sqlite3.connect(path, check_same_thread=False)
        self._db.row_factory = sqlite3.Row
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        """Return the rows of a query."""
        return self._db.execute(query, values).fetchall()

    def row(self, query: str, *values: object) -> sqlite3.Row | None:
        """Return the first row of a query."""
        found: sqlite3.Row | None = self._db.execute(query, values).fetchone()
        return found

    def put(self, regulation: Regulation) -> None:
        """Add a regulation; it replaces one of the same id."""
        with self._db:
            self._remove(regulation.id)
            pages = regulation.pages
            first, last = min(pages, default=0), max(pages, default=0)
            one = (regulation.id, regulation.title, regulation.source, first, last)
            self._db.execute("INSERT INTO regulations VALUES(?,?,?,?,?)", one)
            self._many("pages", ((regulation.id, page, text) for page, text in pages.items()))
            self._many("sections", _section_rows(regulation))
            self._many("tables", (_table_row(regulation.id, table) for table in regulation.tables))
            self._many("notes", (_note_row(regulation.id, note) for note in _notes(regulation)))
            self._many("links", _links(regulation))
            for chunk in _chunks(regulation):
                self._add_chunk(regulation.id, *chunk)

    def search(self, words: Iterable[str], reg: str, kinds: tuple[str, ...], limit: int) -> list[sqlite3.Row]:
        """Return the chunks that hold most of the words, the best first. reg: "" for all regulations."""
        wanted = list(words)
        query = " OR ".join('"' + word.replace('"', '""') + '"' + "*" * _is_single(word) for word in wanted)
        if not query:
            return []
        where = f"words MATCH ? AND kind IN ({','.join('?' * len(kinds))})" + (" AND reg = ?" if reg else "")
        found = self.rows(
            "SELECT chunks.*, words.title || ' ' || words.body AS known, "
            f"-bm25(words, {_TITLE_WEIGHT}, 1.0) AS score FROM words JOIN chunks ON chunks.id = words.rowid "
            f"WHERE {where} ORDER BY score DESC, chunks.id LIMIT ?",
            *[query, *kinds, *([reg] if reg else []), limit * 4 + _CANDIDATES],
        )
        # A place that holds all words comes before one that holds a rare word often.
        return sorted(found, key=lambda row: -len({*wanted} & {*row["known"].split()}))[:limit]

    def _remove(self, reg: str) -> None:
        self._db.execute("DELETE FROM words WHERE rowid IN (SELECT id FROM chunks WHERE reg = ?)", (reg,))
        for table, column in [("regulations", "id"), *((name, "reg") for name in _TABLES)]:
            self._db.execute(f"DELETE FROM {table} WHERE {column} = ?", (reg,))

    def _many(self, table: str, rows: Iterable[tuple[object, ...]]) -> None:
        given = list(rows)
        if given:
            self._db.executemany(f"INSERT INTO {table} VALUES({','.join('?' * len(given[0]))})", given)

    def _add_chunk(self, reg: str, kind: str, name: str, title: str, page: int, text: str) -> None:
        done = self._db.execute(
            "INSERT INTO chunks(reg, kind, name, title, page, text) VALUES(?,?,?,?,?,?)",
            (reg, kind, name, title, page, text),
        )
        body = (done.lastrowid, " ".join(terms(title)), " ".join(terms(text)))
        self._db.execute("INSERT INTO words(rowid, title, body) VALUES(?,?,?)", body)


_TABLES: Final = ("pages", "sections", "tables", "notes", "links", "chunks")


def _is_single(word: str) -> bool:
    return len(word) == 1 and not word.isascii()


def _section_rows(regulation: Regulation) -> Iterator[tuple[object, ...]]:
    for place, one in enumerate(regulation.sections):
        yield (
            regulation.id, place, one.id, one.kind, one.number, one.title, one.level, one.page,
            one.page_end, one.parent, "\n".join(text for _, text in one.text),
        )  # fmt: skip


def _table_row(reg: str, one: Table) -> tuple[object, ...]:
    packed = [json.dumps(value, ensure_ascii=False) for value in (one.columns, one.rows, one.marks)]
    return (reg, one.number, one.caption, one.page, one.page_end, one.section, *packed)


def _note_row(reg: str, one: Note) -> tuple[object, ...]:
    return (reg, one.label, one.text, one.page, one.table, one.section)


def _notes(regulation: Regulation) -> list[Note]:
    return [*regulation.notes, *(note for table in regulation.tables for note in table.notes)]


def _links(regulation: Regulation) -> Iterator[tuple[object, ...]]:
    """Return the references in sections and notes, but none of a place to itself."""
    texts = [(one.id, page, text) for one in regulation.sections for page, text in one.text]
    for note in _notes(regulation):
        source = f"table {note.table} note {note.label}" if note.table else note.section
        texts.append((source, note.page, note.text))
    for source, page, text in texts:
        for words, target in references_in(text):
            if target.id != source:
                yield (regulation.id, source, page, words, target.kind, target.number, target.note)


def _chunks(regulation: Regulation) -> Iterator[tuple[str, str, str, int, str]]:
    for one in regulation.sections:
        yield from _section_chunks(one)
    for table in regulation.tables:
        lines = [table.columns, *table.rows, *([note.text] for note in table.notes)]
        title = f"{table.number} {table.caption}"
        yield ("table", table.number, title, table.page, "\n".join(" | ".join(line) for line in lines))
    for note in regulation.notes:
        yield ("note", note.label, "", note.page, note.text)


def _section_chunks(one: Section) -> Iterator[tuple[str, str, str, int, str]]:
    by_page: dict[int, list[str]] = {}
    for page, text in one.text:
        by_page.setdefault(page, []).append(text)
    title = f"{one.number} {one.title}" if one.kind != "heading" else one.title
    for page, texts in (by_page or {one.page: []}).items():
        yield ("section", one.id, title, page, "\n".join(texts))


def unpacked(row: sqlite3.Row, name: str) -> Any:
    """Return a column that holds JSON."""
    return json.loads(row[name])
