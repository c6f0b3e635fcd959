"""The embedded memory: a file in SQLite with a full-text index (FTS5), for any number of processes.

The rank of an entry is a whole number, so it is the same on every machine: the sum, over the terms of the
query that it has, of the binary digits of (entries of the memory / entries with this term). So a rare word
counts more. Of equal entries the newer one is first. Entries below a third of the best one's rank are left
out. No other memory of the file has any influence.

The words of a text, for a search that is the same for every script.

Rules
  - Text is folded first: compatible characters become one, upper case becomes lower case, and the accents of
    European scripts are dropped. So `CAFÉ` is found by `cafe`.
  - Scripts with spaces are split into words of letters, digits and their marks.
  - Scripts without spaces, such as Chinese, become overlapping pairs of characters: `长城很长` has the words
    `长城`, `城很`, `很长` and, so that its last character can be found alone, `长`. Every character begins
    one word, so a single character is looked for as the beginning of a word.
"""

import re
import sqlite3
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain, groupby
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from callboard.actors.protocol.errors import MemoryFailed, MisuseError
from callboard.runtime.memory.access import HITS_MAX, MemoryEntry, entry_of
from callboard.runtime.memory.file import opened, transaction

TERMS_MAX: Final = 32
"""Terms of a query that count."""
_COLUMNS: Final = "e.id, e.text, e.labels, e.by, e.session_id, e.at"
WORD_CHARS_MAX: Final = 64
"""Characters of a word that count."""
# Thai and Lao, Burmese, Khmer, kana, and Han with its extensions.
_WITHOUT_SPACES: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]"
)
_ACCENTS: Final = re.compile("[\u0300-\u036f]")


class Term(NamedTuple):
    """A word to look for. is_prefix: True finds every word that begins with it."""

    word: str
    is_prefix: bool = False


def words_of(text: str) -> list[str]:
    """Return the words of a text, in order.

    >>> words_of("Zürich, 长城!")
    ['zurich', '长城', '城']
    """
    return [word for run, is_dense in _runs(text) for word in (_pairs(run) if is_dense else [run])]


def terms_of(query: str) -> list[Term]:
    """Return the terms of a query, in order, each once.

    >>> terms_of("长 walls")
    [Term(word='长', is_prefix=True), Term(word='walls', is_prefix=False)]
    """
    found: dict[Term, None] = {}
    for run, is_dense in _runs(query):
        if is_dense and len(run) > 1:
            found.update(dict.fromkeys(map(Term, _pairs(run)[:-1])))
        else:
            found[Term(run, is_dense)] = None
    return list(found)


def _pairs(run: str) -> list[str]:
    """Return the pairs of a run of characters, and its last character."""
    return [run[place : place + 2] for place in range(len(run))]


def _runs(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the runs of characters that belong together, and True for those of scripts without spaces."""
    for kind, chars in groupby(_folded(text), _kind):
        if kind:
            run = "".join(chars)
            yield (run, True) if kind == "dense" else (run[:WORD_CHARS_MAX], False)


def _kind(char: str) -> str:
    if unicodedata.category(char)[0] not in "LNM":
        return ""
    return "dense" if _WITHOUT_SPACES.match(char) else "word"


def _folded(text: str) -> str:
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", apart))


class SQLiteMemory:
    """A memory in a file. Any number of processes and threads may use it at once.

    path: of the file; it is made when something is remembered or looked for. entries_max: of each memory.
    bytes_max: of the file. wait_s: seconds to wait while another process writes.

    Raises MisuseError for a path or a bound that cannot work. The methods raise MemoryFailed.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        entries_max: int = 10_000,
        bytes_max: int = 100_000_000,
        wait_s: float = 5.0,
    ) -> None:
        if str(path) in ("", ":memory:") or "\0" in str(path):
            raise MisuseError(f"{str(path)!r}: a memory is kept in a file; name one, such as 'memory.db'")
        if entries_max < 1 or bytes_max < 1 or wait_s < 0:
            raise MisuseError("entries_max and bytes_max are at least 1, and wait_s is not negative")
        self.path = Path(path)
        self._entries_max, self._bytes_max, self._wait_s = entries_max, bytes_max, wait_s

    def __repr__(self) -> str:
        return f"SQLiteMemory({str(self.path)!r})"

    def remember(self, memory: str, entry: MemoryEntry) -> None:
        """Store an entry, unless the memory already has its id. Raises MemoryFailed if it is full."""
        with self._opened() as file, transaction(file, writes=True):
            number = _number_of(file, memory) or _new_number(file, memory)
            if not _has(file, number, entry.id):
                self._refuse_full(file, number, memory)
                _insert(file, number, entry)

    def recall(self, memory: str, query: str, limit: int) -> list[MemoryEntry]:
        """Return up to `limit` entries that have words of the query, best first.

        A query without words gives the newest entries.
        """
        limit = min(max(limit, 0), HITS_MAX)
        with self._opened() as file, transaction(file, writes=False):
            number = _number_of(file, memory)
            if number is None:
                return []
            rows = _found(file, number, terms_of(query)[:TERMS_MAX], limit)
            return [entry_of(row) for row in rows]

    def forget(self, memory: str, entry_id: str) -> bool:
        """Remove an entry. Return False if the memory has none of this id."""
        with self._opened() as file, transaction(file, writes=True):
            row = file.execute(
                "SELECT e.number FROM entries AS e JOIN memories AS m ON m.number = e.memory "
                "WHERE m.name = ? AND e.id = ?",
                (memory, entry_id),
            ).fetchone()
            if row is not None:
                file.execute("DELETE FROM words WHERE rowid = ?", row)
                file.execute("DELETE FROM entries WHERE number = ?", row)
            return row is not None

    # --- for people ---------------------------------------------------------------

    def sizes(self) -> dict[str, int]:
        """Return the number of entries of each memory, by its name."""
        with self._opened() as file:
            rows = file.execute(
                "SELECT m.name, count(*) FROM entries AS e JOIN memories AS m ON m.number = e.memory "
                "GROUP BY m.name ORDER BY m.name"
            )
            return dict(rows.fetchall())

    def _opened(self) -> AbstractContextManager[sqlite3.Connection]:
        return opened(self.path, wait_s=self._wait_s, bytes_max=self._bytes_max)

    def _refuse_full(self, file: sqlite3.Connection, number: int, memory: str) -> None:
        count = _total(file, number)
        if count >= self._entries_max:
            raise MemoryFailed(
                f"the memory {memory!r} has {count:,} entries, which is its limit; forget one first", "full"
            )


class _Weighed(NamedTuple):
    """A search of the index, and the weight of each of its hits."""

    match: str
    weight: int


def _found(
    file: sqlite3.Connection, number: int, terms: Sequence[Term], limit: int
) -> list[tuple[object, ...]]:
    """Return the rows of the entries that fit, best first."""
    if not terms:
        return file.execute(
            f"SELECT {_COLUMNS} FROM entries AS e WHERE e.memory = ? ORDER BY e.number DESC LIMIT ?",
            (number, limit),
        ).fetchall()
    searches = list(_weighed(file, number, terms))
    if not searches:
        return []
    each = " UNION ALL ".join(
        ["SELECT rowid AS entry, ? AS weight FROM words WHERE words MATCH ?"] * len(searches)
    )
    rows = file.execute(
        f"WITH hits AS ({each}), ranked AS (SELECT entry, sum(weight) AS rank FROM hits GROUP BY entry) "
        f"SELECT ranked.rank, {_COLUMNS} FROM ranked JOIN entries AS e ON e.number = ranked.entry "
        "ORDER BY ranked.rank DESC, e.number DESC LIMIT ?",
        (*chain.from_iterable((one.weight, one.match) for one in searches), limit),
    ).fetchall()
    return [row[1:] for row in rows if row[0] * 3 >= rows[0][0]]


def _weighed(file: sqlite3.Connection, number: int, terms: Sequence[Term]) -> Iterator[_Weighed]:
    """Yield a search for each term that some entry of the memory has."""
    total = _total(file, number)
    for term in terms:
        match = f'"_{number}" AND "{term.word}"' + ("*" if term.is_prefix else "")
        count = file.execute("SELECT count(*) FROM words WHERE words MATCH ?", (match,)).fetchone()[0]
        if count:
            yield _Weighed(match, max(total // count, 1).bit_length())


def _total(file: sqlite3.Connection, number: int) -> int:
    count: int = file.execute("SELECT count(*) FROM entries WHERE memory = ?", (number,)).fetchone()[0]
    return count


def _number_of(file: sqlite3.Connection, memory: str) -> int | None:
    row = file.execute("SELECT number FROM memories WHERE name = ?", (memory,)).fetchone()
    return None if row is None else int(row[0])


def _new_number(file: sqlite3.Connection, memory: str) -> int:
    number = file.execute("INSERT INTO memories(name) VALUES (?)", (memory,)).lastrowid
    assert number is not None  # an INSERT was made
    return number


def _has(file: sqlite3.Connection, number: int, entry_id: str) -> bool:
    found = file.execute("SELECT 1 FROM entries WHERE memory = ? AND id = ?", (number, entry_id)).fetchone()
    return found is not None


def _insert(file: sqlite3.Connection, number: int, entry: MemoryEntry) -> None:
    labels = msgspec.json.encode(entry.labels).decode()
    row = (number, entry.id, entry.text, labels, entry.by, entry.session_id, entry.at)
    place = file.execute(
        "INSERT INTO entries(memory, id, text, labels, by, session_id, at) VALUES (?, ?, ?, ?, ?, ?, ?)", row
    ).lastrowid
    words = " ".join((f"_{number}", *words_of(entry.text)))
    file.execute("INSERT INTO words(rowid, found_by) VALUES (?, ?)", (place, words))
