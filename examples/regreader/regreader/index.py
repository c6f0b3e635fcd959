"""The index: one SQLite file with a row for each regulation, and full-text search of its places."""

import functools
import itertools
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from regreader.regulation import Regulation
from regreader.words import terms

Row = dict[str, Any]
_SCHEMA = """
CREATE TABLE IF NOT EXISTS regulations(reg_id TEXT PRIMARY KEY, title TEXT, source TEXT, last_page INT,
    body TEXT);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(title_words, body_words, reg UNINDEXED, kind UNINDEXED,
    name UNINDEXED, title UNINDEXED, page UNINDEXED, text UNINDEXED, tokenize="unicode61 tokenchars '.-'");
"""
_TITLE_WEIGHT = 3.0
_CANDIDATES = 60  # places that are ranked again by the words that they hold
_HELD = 16  # regulations in memory


class Index(sqlite3.Connection):
    """An open index. path: its file, which is made if it is missing. Use it from one thread at a time."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(path, check_same_thread=False)
        self.row_factory = sqlite3.Row
        self.executescript(_SCHEMA)
        self.execute("SELECT body FROM regulations LIMIT 0")  # fails for a file of another form
        self._read = functools.lru_cache(_HELD)(self._decoded)

    def put(self, regulation: Regulation) -> None:
        """Add a regulation; it replaces one of the same id."""
        reg = regulation.id
        body = msgspec.json.encode(regulation).decode()
        with self:
            self.execute("DELETE FROM words WHERE reg = ?", (reg,))
            row = (reg, regulation.title, regulation.source, regulation.last_page, body)
            self.execute("REPLACE INTO regulations VALUES(?, ?, ?, ?, ?)", row)
            self.executemany("INSERT INTO words VALUES(?, ?, ?, ?, ?, ?, ?, ?)", _words(regulation))
        self._read.cache_clear()

    def regulations(self) -> list[Row]:
        """Return the id, title, source and last page of each regulation."""
        names = "reg_id, title, source, last_page"
        return self._rows(f"SELECT {names} FROM regulations ORDER BY reg_id")

    def get(self, reg: str) -> Regulation | None:
        """Return a regulation. It is read again after another process has changed the file."""
        return self._read(reg, self.execute("PRAGMA data_version").fetchone()[0])

    def _decoded(self, reg: str, version: int) -> Regulation | None:
        row = self.execute("SELECT body FROM regulations WHERE reg_id = ?", (reg,)).fetchone()
        return msgspec.json.decode(row[0], type=Regulation) if row else None

    def search(self, words: Iterable[str], reg: str, kinds: Sequence[str], limit: int) -> list[Row]:
        """Return the chunks that hold most of the words, the best first. reg: "" for all regulations."""
        wanted = [word.replace('"', '""') for word in words]
        query = " OR ".join(f'"{word}"' + "*" * (len(word) == 1 and not word.isascii()) for word in wanted)
        if not query:
            return []
        where = f"words MATCH ? AND ? IN ('', reg) AND kind IN ({','.join('?' * len(kinds))})"
        ranked = f"SELECT *, -bm25(words, {_TITLE_WEIGHT}, 1.0) AS score FROM words WHERE {where}"
        best = f"{ranked} ORDER BY score DESC, rowid LIMIT ?"
        found = self._rows(best, query, reg, *kinds, limit * 4 + _CANDIDATES)
        # A place that holds all words comes before one that holds a rare word often.
        held = [{*row["title_words"].split(), *row["body_words"].split()} for row in found]
        order = sorted(range(len(found)), key=lambda at: -len(held[at].intersection(wanted)))
        return [found[at] for at in order[:limit]]

    def _rows(self, query: str, *values: object) -> list[Row]:
        return [dict(row) for row in self.execute(query, values)]


def _words(regulation: Regulation) -> Iterator[tuple[object, ...]]:
    """Return the texts that are searched: a section once for each of its pages, a table with its notes."""
    for one in (*regulation.sections, *regulation.tables):
        title = one.title if one.kind == "heading" else f"{one.number} {one.title}"
        kind = "table" if one.kind == "table" else "section"
        parts = one.text or [(one.page, "")]
        if one.kind == "table":
            rows = [" | ".join(row) for row in (one.columns, *one.rows)]
            parts = [(one.page, text) for text in (*rows, *(note.words for note in one.notes))]
        for page, run in itertools.groupby(parts, itemgetter(0)):
            text = "\n".join(text for _, text in run)
            # Chinese as bigrams: SQLite's trigram tokenizer finds no word of two characters
            known = " ".join(terms(title)), " ".join(terms(text))
            yield (*known, regulation.id, kind, one.id, title, page, text)
