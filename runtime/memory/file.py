"""The file of a memory in SQLite: its tables, and its failures as errors of callboard.

memories  the names of memories; `number` stands for one in the other tables
entries   one row per entry; a higher `number` is a newer entry
words     the full-text index: the words of each entry, and `_N` for memory N
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from callboard.actors.protocol.errors import MemoryFailed, MemoryReason

APPLICATION_ID: Final = 0x6362726D  # "cbrm", in the file's header
WAL_ATTEMPTS: Final = 20
FORMAT: Final = 1  # the version of the tables and of the words, kept as `user_version`

_TABLES: Final = (
    """CREATE TABLE memories(number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)""",
    """CREATE TABLE entries(
    number INTEGER PRIMARY KEY,
    memory INTEGER NOT NULL,
    id TEXT NOT NULL,
    text TEXT NOT NULL,
    labels TEXT NOT NULL,
    by TEXT NOT NULL,
    session_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    UNIQUE(memory, id))""",
    # The words are made in Python, without any sign that this tokenizer would split at. Without their places
    # (detail=none) the index is a third smaller; a query needs whole words only.
    """CREATE VIRTUAL TABLE words USING fts5(found_by, detail=none, tokenize="ascii tokenchars '_'")""",
)

_SAID: Final[dict[int, tuple[MemoryReason, str]]] = {
    sqlite3.SQLITE_NOTADB: ("damaged", "the memory's file is damaged or not a memory; restore a copy of it"),
    sqlite3.SQLITE_CORRUPT: ("damaged", "the memory's file is damaged; restore a copy of it"),
    sqlite3.SQLITE_BUSY: ("locked", "another program holds the memory's file; try again later"),
    sqlite3.SQLITE_LOCKED: ("locked", "another program holds the memory's file; try again later"),
    sqlite3.SQLITE_FULL: ("full", "the memory's file or its disk is full; nothing was stored"),
    sqlite3.SQLITE_CANTOPEN: ("missing", "the memory's file cannot be opened; its folder has to exist"),
    sqlite3.SQLITE_READONLY: ("denied", "the memory's file cannot be written"),
    sqlite3.SQLITE_PERM: ("denied", "the memory's file may not be opened"),
}
_Object: TypeAlias = tuple[str, str, str]


@contextmanager
def opened(path: Path, *, wait_s: float, bytes_max: int) -> Iterator[sqlite3.Connection]:
    """Open the file of a memory, or make it. Errors of SQLite become MemoryFailed.

    wait_s: seconds to wait for other processes. bytes_max: of the file.
    """
    # A connection for each use: it takes half a millisecond, and threads, forks of the process and a file
    # that is replaced need no further care.
    _refuse_special(path)
    with _failures(), closing(sqlite3.connect(path, timeout=wait_s, isolation_level=None)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        _prepare(connection)
        page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {max(bytes_max // page_bytes, 1)}")
        yield connection


@contextmanager
def transaction(connection: sqlite3.Connection, *, writes: bool) -> Iterator[None]:
    """Make the statements of this block one transaction. writes: lock out other writers first."""
    connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _refuse_special(path: Path) -> None:
    """Refuse a folder, a pipe or a device, which could hold up its reader. Raises MemoryFailed."""
    try:
        is_odd = path.exists() and not path.is_file()
    except (OSError, ValueError) as error:
        raise MemoryFailed(f"the memory's file cannot be opened: {type(error).__name__}", "denied") from None
    if is_odd:
        raise MemoryFailed("the memory's file is a folder or a device", "foreign")


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the tables of a new file, and refuse a file that is not a memory of this format."""
    if _is_own(connection):
        return
    _use_wal(connection)
    with transaction(connection, writes=True):
        if _is_own(connection):  # another process was faster
            return
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Let readers and a writer of the file work side by side. Waits for those who make the same file now."""
    # SQLite gives up at once, whatever the timeout, if another process has begun to write the file by then.
    for _ in range(WAL_ATTEMPTS - 1):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
        with transaction(connection, writes=True):  # begins when the other process is done
            pass
    connection.execute("PRAGMA journal_mode = WAL")


def _refuse_newer(version: int) -> None:
    if version > FORMAT:
        raise MemoryFailed(
            f"the memory's file has format {version}, and this callboard reads up to {FORMAT}; "
            "use the newer callboard that wrote it",
            "too_new",
        )


def _is_own(connection: sqlite3.Connection) -> bool:
    """Return True for a memory, False for an empty file. Raises MemoryFailed for any other file."""
    found = _objects(connection)
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if not found and not application:
        return False
    if application != APPLICATION_ID:
        raise MemoryFailed("the memory's file belongs to another program; name another file", "foreign")
    _refuse_newer(connection.execute("PRAGMA user_version").fetchone()[0])
    if found != _own_objects():  # a trigger or a view of a stranger, or a table that is gone
        raise MemoryFailed(
            "the memory's file has tables that callboard did not create; restore a copy", "damaged"
        )
    return True


def _objects(connection: sqlite3.Connection) -> frozenset[_Object]:
    """Return the objects of a file, without those that the full-text index makes for itself."""
    rows = connection.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master LIMIT 100").fetchall()
    return frozenset(row for row in rows if not (row[0] == "table" and str(row[1]).startswith("words_")))


@cache
def _own_objects() -> frozenset[_Object]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in _TABLES:
            connection.execute(statement)
        return _objects(connection)


@contextmanager
def _failures() -> Iterator[None]:
    """Raise MemoryFailed in place of the errors of SQLite."""
    try:
        yield
    except UnicodeDecodeError:
        raise _failed(sqlite3.SQLITE_CORRUPT, "") from None
    except sqlite3.Error as error:
        raise _failed(getattr(error, "sqlite_errorcode", 0) or 0, str(error)) from error


def _failed(code: int, said: str) -> MemoryFailed:
    """Return the error for a result code of SQLite. said: its own words."""
    reason, text = _SAID.get(code & 0xFF, ("failed", f"the memory's file failed: {said}"))
    return MemoryFailed(text, reason)
