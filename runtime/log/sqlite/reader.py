"""Reading a SQLite log without owning it: for replay, the command line, the UI. Synchronous, no event loop.

The database is opened with `mode=ro` and no transaction outlives a call: a reader neither writes nor
checkpoints nor keeps the owner from doing so. It works beside a live owner and after it, however it ended.
SQLite may leave its scratch files (`-shm`, an empty `-wal`) beside the file; the next owner removes them.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import quote

from callboard.actors.protocol.errors import CorruptLog, StoreUnreadable
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.protocol import Head, LogReader, Progress, Sealed, Segment, Stored, no_session
from callboard.runtime.log.session_rows import EVERY_SESSION, SessionQuery, SessionRow
from callboard.runtime.log.spending import Spending, Unlogged, UsageRow
from callboard.runtime.log.sqlite.meta import check_complete, check_key, find_cipher, meta_value, size_of
from callboard.runtime.log.sqlite.owner import check_place
from callboard.runtime.log.sqlite.schema import (
    FORMAT,
    SEQ_BITS,
    is_fresh,
    lend_tables,
    make_tables,
    pragma,
    set_page_format,
)
from callboard.runtime.log.sqlite.spending import SpendingTables
from callboard.runtime.log.sqlite.store_errors import SQLITE_FAILURES, error_code, find_damage, store_error
from callboard.runtime.log.sqlite.tables import SessionEntry, Tables

_NO_SHARED_MEMORY: Final = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY})


_PAGES: Final = 2_048
_EVENTS: Final = 5_000
_SESSION: Final = "INSERT INTO main.sessions SELECT * FROM origin.sessions WHERE session_id = ?"
_ROWS: Final = "INSERT INTO main.events SELECT * FROM origin.events WHERE id BETWEEN ? AND ?"
_NO_OWNER: Final = "UPDATE meta SET value = '' WHERE key IN ('wal', 'owner')"
_BLOBS: Final = (
    "INSERT INTO main.blobs SELECT b.* FROM origin.blobs AS b WHERE b.id IN "
    "(SELECT json_extract(cut.value, '$[1]') FROM main.events AS e, json_each(e.cuts) AS cut)"
)


class SQLiteReader(LogReader):
    """A `LogReader` of a file. Opens it at once; may be used from several threads, one at a time.

    key: the digest key, for `verify_chain`. encryption_key: see `open_log`. Raises StoreUnreadable if there
    is not a log at the path, StoreIncomplete if its WAL was left behind, StoreTooNew for a later format,
    WrongKey for another encryption key than its own.
    """

    def __init__(
        self, path: str | Path, key: bytes | None = None, encryption_key: bytes | None = None
    ) -> None:
        self.path = Path(path).resolve()
        self._key = key
        check_place(self.path)  # opening the file could drop the locks of an owner in this process
        if not self.path.exists():
            raise StoreUnreadable(f"there is no log at {self.path}; give the path that it was written to")
        with ExitStack() as opened, self._reported(doing="opening"):
            self._connection = self._open(opened)
            opened.callback(self._connection.close)
            cipher = find_cipher(self._connection, self.path, encryption_key)
            self._tables = Tables(self._connection, cipher, self._reported)
            self._spending = SpendingTables(self._connection, cipher)
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        self._opened.close()

    def sessions(self, query: SessionQuery = EVERY_SESSION) -> list[SessionRow]:
        with self._reported():
            return self._spending.usage.added_to(self._tables.sessions(query))

    def head(self, session_id: str) -> Head:
        with self._reported():
            return self._tables.head_of(self._tables.entry(session_id))

    def events(self, session_id: str, start: int = 1, limit: int = 10_000) -> list[Stored]:
        with self._reported(session_id, start):
            return self._tables.events(session_id, start, limit)

    def events_of(
        self, session_id: str, address: str, first: int, last: int, limit: int = 10_000
    ) -> list[Stored]:
        with self._reported(session_id, first):
            return self._tables.events_of(session_id, address, first, last, limit)

    def segments(self, session_id: str) -> tuple[Segment, ...]:
        with self._reported():
            lineage = self._tables.lineage(self._tables.entry(session_id))
            return tuple(part.segment for part in lineage)

    def usage(self, since_day: str = "") -> list[UsageRow]:
        with self._reported():
            return self._spending.usage.read(since_day)

    def spending(self) -> tuple[Spending, list[Unlogged]]:
        with self._reported():
            return self._spending.read(), self._spending.unlogged()

    def key_check(self) -> str:
        with self._reported():
            return meta_value(self._connection, "key_check")

    def checked_pages(
        self,
        session_id: str,
        upto: int,
        key: bytes | None = None,
        known: Head | None = None,
        after: Head | None = None,
    ) -> Iterator[list[Sealed]]:
        yield from self._tables.checked_pages(*self._to_check(session_id, key), upto, known, after)

    def verify_chain(self, session_id: str, key: bytes | None = None, head: Head | None = None) -> Head:
        return self._tables.verify(*self._to_check(session_id, key), head)

    def _to_check(self, session_id: str, key: bytes | None) -> tuple[HashChain, SessionEntry]:
        hash_chain = HashChain(key or self._key)
        with self._reported(session_id, 1):
            check_key(self._connection, self.path, hash_chain)
            return hash_chain, self._tables.entry(session_id)

    def copy_to(
        self, target: Path, session_id: str = "", progress: Progress = lambda done, total: None
    ) -> None:
        """Write a copy of the log, or of one session, to a new file. Raises SessionNotFound, StoreError."""
        with self._reported(doing=f"copying to {target}"):
            if session_id:
                names = [segment.session_id for segment in self.segments(session_id)]
                _copy_sessions(self._uri, target.resolve(), names, progress)
            else:
                _copy_all(self._connection, target, progress)

    def check_whole(self) -> None:
        """Raise CorruptLog if events are missing at the end because the file's WAL is damaged."""
        wal = self.path.with_name(self.path.name + "-wal")
        damage = find_damage(wal)
        if damage is not None:
            raise CorruptLog(
                f"{wal} is damaged at frame {damage.frame}: {damage.commits or 'all'} commits after "
                f"that cannot be read, and the log's next owner will overwrite them; copy both files first"
            )

    @contextmanager
    def _reported(self, session_id: str = "", start: int = 0, doing: str = "reading") -> Iterator[None]:
        try:
            yield
        except SQLITE_FAILURES as error:
            failure = store_error(error, self.path, doing)
            if session_id and error_code(error) == sqlite3.SQLITE_CORRUPT:
                said = f"session {session_id}, from event {start}: {failure}"
                raise CorruptLog(said, session_id, start) from error
            raise failure from error

    # --- opening ------------------------------------------------------------------

    def _open(self, opened: ExitStack) -> sqlite3.Connection:
        try:
            return self._connect(self.path, "mode=ro")
        except sqlite3.OperationalError as error:
            if error_code(error) not in _NO_SHARED_MEMORY or not os.access(self.path, os.R_OK):
                raise
        # In a read-only folder SQLite cannot make the shared-memory file that it needs, and no owner can be
        # alive: it would have made that file. Without a WAL the file is then complete.
        wal = self.path.with_name(self.path.name + "-wal")
        if not size_of(wal):
            return self._connect(self.path, "mode=ro&immutable=1")
        copy = Path(opened.enter_context(TemporaryDirectory(prefix="callboard-")), "log.db")
        shutil.copyfile(self.path, copy)
        shutil.copyfile(wal, copy.with_name("log.db-wal"))
        return self._connect(copy, "mode=ro")

    # Read-only is not just politeness: SQLite 3.7.0 to 3.51.2 (except 3.44.6 and 3.50.7), which current
    # Pythons ship, can corrupt a WAL that two connections write or checkpoint. One owner does both; readers
    # do neither. https://sqlite.org/wal.html#walresetbug
    def _connect(self, path: Path, mode: str) -> sqlite3.Connection:
        self._uri = f"file:{quote(str(path))}?{mode}"
        connection = sqlite3.connect(
            self._uri, uri=True, isolation_level=None, timeout=30.0, check_same_thread=False
        )
        with ExitStack() as failed:
            failed.callback(connection.close)
            connection.execute("PRAGMA trusted_schema = OFF")
            if is_fresh(connection, self.path):
                raise StoreUnreadable(f"{self.path} is empty: nothing was ever recorded there")
            lend_tables(connection)
            connection.execute("PRAGMA query_only = ON")
            check_complete(connection, path, self.path)
            failed.pop_all()
        return connection


# A copy is made from one snapshot. It needs no WAL and says so (`meta`), even if its origin does. While the
# snapshot is held the owner cannot write all of the WAL back.
def _copy_all(source: sqlite3.Connection, target: Path, progress: Progress) -> None:
    """Copy the whole log, page by page. target: a new file."""
    with closing(sqlite3.connect(target, isolation_level=None)) as made:
        source.execute("BEGIN")
        try:
            source.execute("SELECT count(*) FROM meta").fetchone()  # from here on nothing changes
            source.backup(made, pages=_PAGES, progress=lambda _, left, all_: progress(all_ - left, all_))
        finally:
            source.execute("ROLLBACK")
        made.execute("PRAGMA journal_mode = DELETE")
        made.execute(_NO_OWNER)


def _copy_sessions(uri: str, target: Path, session_ids: Sequence[str], progress: Progress) -> None:
    """Copy a session, and those that it is a fork of, with their large values from `uri`.

    session_ids: the session last. Raises SessionNotFound.
    """
    with closing(sqlite3.connect(f"{target.as_uri()}?mode=rwc", uri=True, isolation_level=None)) as made:
        set_page_format(made)
        made.execute("ATTACH ? AS origin", (uri,))
        made.execute("BEGIN")
        make_tables(made)
        made.execute("INSERT INTO main.meta SELECT * FROM origin.meta")
        for session_id in session_ids:
            _copy_rows(made, session_id, progress)
        made.execute(_BLOBS)
        made.execute(_NO_OWNER)
        made.execute("COMMIT")


def _copy_rows(made: sqlite3.Connection, session_id: str, progress: Progress) -> None:
    """Copy the rows of one session into an attached file's copy. Raises SessionNotFound."""
    made.execute(_SESSION, (session_id,))
    query = "SELECT id, head, base FROM main.sessions WHERE session_id = ?"
    row = made.execute(query, (session_id,)).fetchone()
    if row is None:
        raise no_session(session_id)
    number, head, base = row
    for first in range(base + 1, head + 1, _EVENTS):
        place, last = number << SEQ_BITS, min(head, first + _EVENTS - 1)
        made.execute(_ROWS, (place | first, place | last))
        progress(last, head)
    added = ("usage",) if pragma(made, "origin.user_version") == FORMAT else ()
    for table in ("uses", "tags", *added):
        rows = f"SELECT * FROM origin.{table} WHERE session = ?"
        made.execute(f"INSERT INTO main.{table} {rows}", (number,))
