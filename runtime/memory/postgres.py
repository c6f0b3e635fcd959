"""The memory on a PostgreSQL server, for any number of machines. It ranks entries as `sqlite` does.

memory_meta     key, value: `format` is the version of these tables and of the words
memory_entries  one row per entry; a higher `number` is a newer entry; `words` are looked for through an index

The tables stand in the schema that the address names, beside those of a log, if there is one.
"""

import os
import threading
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from callboard.actors.protocol.errors import (
    MemoryFailed,
    MemoryReason,
    MisuseError,
    StoreError,
    StoreLocked,
    StoreReadOnly,
    StoreTooNew,
    StoreUnreadable,
)
from callboard.runtime.log.postgres.address import address_of
from callboard.runtime.log.postgres.arrays import texts
from callboard.runtime.log.postgres.link import Link, Row
from callboard.runtime.log.postgres.schema import check_server, quoted
from callboard.runtime.log.postgres.store_errors import driver
from callboard.runtime.log.postgres.tables import is_text
from callboard.runtime.memory.access import HITS_MAX, MemoryEntry, entry_of
from callboard.runtime.memory.sqlite import TERMS_MAX, Term, terms_of, words_of

T = TypeVar("T")
FORMAT: Final = 1

_TABLES: Final = (
    'CREATE TABLE {s}.memory_meta(key text COLLATE "C" PRIMARY KEY, value text NOT NULL)',
    """CREATE TABLE {s}.memory_entries(
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    memory text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    text text NOT NULL,
    labels text NOT NULL,
    by text NOT NULL,
    session_id text NOT NULL,
    at bigint NOT NULL,
    words text[] COLLATE "C" NOT NULL,
    UNIQUE (memory, id))""",
    "CREATE INDEX memory_by_age ON {s}.memory_entries(memory, number)",
    "CREATE INDEX memory_by_word ON {s}.memory_entries USING gin(words)",
    f"INSERT INTO {{s}}.memory_meta VALUES ('format', '{FORMAT}')",
)
_COLUMNS: Final = "e.id, e.text, e.labels, e.by, e.session_id, e.at"
_NEW: Final = (
    "INSERT INTO {s}.memory_entries(memory, id, text, labels, by, session_id, at, words) "
    "SELECT %s, %s, %s, %s, %s, %s, %s, %s "
    "WHERE (SELECT count(*) FROM {s}.memory_entries WHERE memory = %s) < %s "
    "ON CONFLICT (memory, id) DO NOTHING RETURNING number"
)
_HAS: Final = "SELECT 1 FROM {s}.memory_entries WHERE memory = %s AND id = %s"
_FORGET: Final = "DELETE FROM {s}.memory_entries WHERE memory = %s AND id = %s RETURNING 1"
_NEWEST: Final = (
    f"SELECT {_COLUMNS} FROM {{s}}.memory_entries AS e WHERE memory = %s ORDER BY number DESC LIMIT %s"
)
_EACH_WORD: Final = "e.words @> %s"
_EACH_PREFIX: Final = "EXISTS (SELECT 1 FROM unnest(e.words) AS w WHERE starts_with(w, %s))"

_FAILED: Final[tuple[str, MemoryReason]] = ("the memory's server has failed; try again later", "failed")
_REASONS: Final[tuple[tuple[type[StoreError], tuple[str, MemoryReason]], ...]] = (
    (StoreLocked, ("another program holds this memory; try again later", "locked")),
    (StoreReadOnly, ("the memory's server does not let this program write", "denied")),
    (StoreTooNew, ("a newer callboard has written this memory; use that one", "too_new")),
    (StoreUnreadable, ("the memory's server cannot be used; look at its address and its log", "missing")),
)


class PostgresMemory:
    """A memory on a PostgreSQL server. Any number of processes and threads may use it at once.

    address: `postgresql://user@host/database?schema=name`; the tables are made when something is remembered.
    entries_max: of each memory. Raises MisuseError for an address or a bound that cannot work, MissingExtra
    without psycopg. The methods raise MemoryFailed.
    """

    def __init__(self, address: str, *, entries_max: int = 10_000) -> None:
        if entries_max < 1:
            raise MisuseError("entries_max is at least 1")
        self.address = address_of(address)
        driver()  # missing here, and not in the middle of a session
        self._schema = quoted(self.address.schema)
        self._entries_max = entries_max
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._process = 0
        self._is_made = False

    def __repr__(self) -> str:
        return f"PostgresMemory({str(self.address)!r})"

    def remember(self, memory: str, entry: MemoryEntry) -> None:
        """Store an entry, unless the memory already has its id. Raises MemoryFailed if it is full."""
        labels = msgspec.json.encode(entry.labels).decode()
        row = (memory, entry.id, entry.text, labels, entry.by, entry.session_id)
        if not all(map(is_text, row)):
            raise MemoryFailed("the entry holds NUL or half a character; nothing was stored", "failed")
        words = texts(dict.fromkeys(words_of(entry.text)))
        values = (*row, entry.at, words, memory, self._entries_max)

        def work(link: Link) -> None:
            # One writer of a memory at a time, so that its bound holds.
            lock = f"callboard {self.address.schema} memory {memory}"
            link.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (lock,))
            if not self._rows(link, _NEW, values) and not self._rows(link, _HAS, (memory, entry.id)):
                raise MemoryFailed(
                    f"the memory {memory!r} has {self._entries_max:,} entries, which is its limit; "
                    "forget one first",
                    "full",
                )

        self._use(lambda link: link.transact("remembering", lambda: work(link)), makes=True)

    def recall(self, memory: str, query: str, limit: int) -> list[MemoryEntry]:
        """Return up to `limit` entries that have words of the query, best first.

        A query without words gives the newest entries.
        """
        limit = min(max(limit, 0), HITS_MAX)
        terms = terms_of(query)[:TERMS_MAX]
        if not is_text(memory):
            return []
        rows = self._use(lambda link: self._found(link, memory, terms, limit))
        return [entry_of(row) for row in rows or ()]

    def forget(self, memory: str, entry_id: str) -> bool:
        """Remove an entry. Return False if the memory has none of this id."""
        if not (is_text(memory) and is_text(entry_id)):
            return False

        def work(link: Link) -> bool:
            return bool(self._rows(link, _FORGET, (memory, entry_id)))

        return bool(self._use(lambda link: link.transact("forgetting", lambda: work(link))))

    # --- for people ---------------------------------------------------------------

    def sizes(self) -> dict[str, int]:
        """Return the number of entries of each memory, by its name."""
        query = "SELECT memory, count(*) FROM {s}.memory_entries GROUP BY memory ORDER BY memory"
        return dict(self._use(lambda link: self._rows(link, query)) or ())

    def close(self) -> None:
        """Close the connection; the next use makes another one."""
        with self._lock:
            if self._link is not None:
                self._link.close()
            self._link = None

    # --- the server -----------------------------------------------------------------

    def _rows(self, link: Link, query: str, values: Sequence[object] = ()) -> list[Row]:
        return link.read(query.replace("{s}", self._schema), values)

    def _use(self, work: Callable[[Link], T], *, makes: bool = False) -> T | None:
        """Call a function with the connection. makes: True to make the tables; else None without them."""
        with self._lock:
            try:
                link = self._connected()
                if not self._is_made:
                    self._is_made = self._prepare(link, makes=makes)
                return work(link) if self._is_made else None
            except StoreError as error:
                # The model reads it, so the address is only in the cause.
                said, reason = next((found for kind, found in _REASONS if isinstance(error, kind)), _FAILED)
                raise MemoryFailed(said, reason) from error

    def _connected(self) -> Link:
        if self._link is None or self._process != os.getpid():  # a fork makes its own
            self._link, self._process, self._is_made = Link(self.address), os.getpid(), False
            self._link.connect()
        return self._link

    def _prepare(self, link: Link, *, makes: bool) -> bool:
        """Make the tables if they are missing and wanted. Return whether they are there."""
        if self._has_tables(link) or not makes:
            return self._has_tables(link)
        check_server(link.read, link.server, repr(self.address))

        def make() -> None:
            lock = f"callboard {self.address.schema}"
            link.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (lock,))
            if self._has_tables(link):  # another process was faster
                return
            query = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s"
            if not link.execute(query, (self.address.schema,)):
                link.execute(f"CREATE SCHEMA {self._schema}")
            for statement in _TABLES:
                link.execute(statement.replace("{s}", self._schema))

        link.transact("making the tables of a memory", make)
        return True

    def _has_tables(self, link: Link) -> bool:
        query = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = %s AND tablename = 'memory_meta'"
        if not link.read(query, (self.address.schema,)):
            return False
        rows = self._rows(link, "SELECT value FROM {s}.memory_meta WHERE key = 'format'")
        if rows != [(str(FORMAT),)]:
            raise StoreTooNew(
                f"the memory has format {rows[0][0] if rows else 'none'}, and this callboard reads {FORMAT}; "
                "use the newer callboard that wrote it"
            )
        return True

    def _found(self, link: Link, memory: str, terms: Sequence[Term], limit: int) -> list[Row]:
        """Return the rows of the entries that fit, best first."""
        if not terms:
            return self._rows(link, _NEWEST, (memory, limit))
        matches = [_match(term) for term in terms]
        each = ", ".join(f"count(*) FILTER (WHERE {clause})" for clause, _ in matches)
        query = f"SELECT count(*), {each} FROM {{s}}.memory_entries AS e WHERE memory = %s"
        ((total, *counts),) = self._rows(link, query, (*(value for _, value in matches), memory))
        weighed = [
            (clause, value, max(total // count, 1).bit_length())
            for (clause, value), count in zip(matches, counts, strict=True)
            if count
        ]
        if not weighed:
            return []
        rank = " + ".join(f"CASE WHEN {clause} THEN {weight} ELSE 0 END" for clause, _, weight in weighed)
        some = " OR ".join(clause for clause, _, _ in weighed)
        values = [value for _, value, _ in weighed]
        rows = self._rows(
            link,
            f"SELECT {rank} AS rank, {_COLUMNS} FROM {{s}}.memory_entries AS e "
            f"WHERE memory = %s AND ({some}) ORDER BY rank DESC, number DESC LIMIT %s",
            (*values, memory, *values, limit),
        )
        return [row[1:] for row in rows if row[0] * 3 >= rows[0][0]]


def _match(term: Term) -> tuple[str, object]:
    """Return the condition of the entries that have a term, and its parameter."""
    return (_EACH_PREFIX, term.word) if term.is_prefix else (_EACH_WORD, texts([term.word]))
