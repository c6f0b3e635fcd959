"""Reading a SQLite log without owning it: for replay, the command line, the UI. Synchronous, no event loop.

The database is opened with `mode=ro` and no transaction outlives a call: a reader neither writes nor
checkpoints nor keeps the owner from doing so. It works beside a live owner and after it, however it ended.
SQLite may leave its scratch files (`-shm`, an empty `-wal`) beside the file; the next owner removes them.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Self
from urllib.parse import quote

from callboard.actors.protocol.errors import CorruptLog, StoreUnreadable
from callboard.runtime.log.checked_pages import checked_pages
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import HashChain, corrupt
from callboard.runtime.log.protocol import Head, Progress, Sealed, SessionRow, Stored
from callboard.runtime.log.sqlite.copy import copy_all, copy_session
from callboard.runtime.log.sqlite.event_queries import all_sealed, rows_of, stored_rows, whole_rows
from callboard.runtime.log.sqlite.meta import check_key, find_cipher, meta_value
from callboard.runtime.log.sqlite.owner import check_place
from callboard.runtime.log.sqlite.schema import is_fresh
from callboard.runtime.log.sqlite.session_queries import read_head, require_session, session_rows
from callboard.runtime.log.sqlite.store_errors import SQLITE_FAILURES, error_code, store_error
from callboard.runtime.log.sqlite.wal import find_damage
from callboard.runtime.log.sqlite.wal_marker import check_complete

_NO_SHARED_MEMORY: Final = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY})


class SQLiteReader:
    """A `LogReader` of a file. Opens it at once; may be used from several threads, one at a time.

    key: the digest key, for `verify_chain`. encryption_key: see `open_log`. Raises StoreUnreadable if there
    is no log at the path, StoreIncomplete if its WAL was left behind, StoreTooNew for a later format,
    WrongKey for another encryption key than its own.
    """

    def __init__(
        self, path: str | Path, key: bytes | None = None, encryption_key: bytes | None = None
    ) -> None:
        self.path = Path(path).resolve()
        self._key = key
        self._copy: TemporaryDirectory[str] | None = None
        check_place(self.path)  # opening the file could drop the locks of an owner in this process
        if not self.path.exists():
            raise StoreUnreadable(f"there is no log at {self.path}; give the path that it was written to")
        try:
            self._connection = self._open()
            try:
                self._cipher: Cipher | None = find_cipher(self._connection, self.path, encryption_key)
            except BaseException:
                self._connection.close()
                raise
        except BaseException as error:
            if self._copy is not None:
                self._copy.cleanup()
            if isinstance(error, SQLITE_FAILURES):
                raise store_error(error, self.path, "opening") from error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        self._connection.close()
        if self._copy is not None:
            self._copy.cleanup()

    def sessions(self) -> list[SessionRow]:
        with self._reported():
            return session_rows(self._connection, self._cipher)

    def head(self, session_id: str) -> Head:
        with self._reported():
            return read_head(self._connection, session_id, require_session(self._connection, session_id))

    def events(self, session_id: str, start: int = 1, limit: int = 10_000) -> list[Stored]:
        with self._reported(session_id, start):
            entry = require_session(self._connection, session_id)
            return stored_rows(self._connection, session_id, entry, start, limit, self._cipher)

    def events_of(
        self, session_id: str, address: str, first: int, last: int, limit: int = 10_000
    ) -> list[Stored]:
        with self._reported(session_id, first):
            entry = require_session(self._connection, session_id)
            return rows_of(self._connection, session_id, entry, address, first, last, limit, self._cipher)

    def origin(self, session_id: str) -> bytes:
        with self._reported():
            return require_session(self._connection, session_id).origin

    def key_check(self) -> str:
        with self._reported():
            return meta_value(self._connection, "key_check")

    def checked_pages(
        self, session_id: str, upto: int, key: bytes | None = None, known: Head | None = None
    ) -> Iterator[list[Sealed]]:
        """Yield checked rows. key: instead of the reader's own."""

        def read(start: int, limit: int) -> list[Sealed]:
            with self._reported(session_id, start):
                return whole_rows(self._connection, session_id, entry, start, limit, self._cipher)

        hash_chain = HashChain(key or self._key)
        with self._reported(session_id, 1):
            check_key(self._connection, self.path, hash_chain)
            entry = require_session(self._connection, session_id)
        yield from checked_pages(hash_chain, session_id, entry.origin, read, upto, known)
        if upto >= entry.head:
            with self._reported(session_id, upto):
                self._check_end(session_id, upto)

    def _check_end(self, session_id: str, upto: int) -> None:
        """Raise CorruptLog if an event stands behind the last one of the session."""
        entry = require_session(self._connection, session_id)
        later = stored_rows(self._connection, session_id, entry, upto + 1, 1, self._cipher)
        # Asked again: a live owner may have appended since, and moves the head with the events.
        if later and require_session(self._connection, session_id).head < later[0].seq:
            raise corrupt(session_id, later[0].seq, "stands behind the last one of its session")

    def verify_chain(self, session_id: str, key: bytes | None = None, head: Head | None = None) -> Head:
        """Check every digest of a session. key: instead of the reader's own."""
        hash_chain = HashChain(key or self._key)
        with self._reported(session_id, 1):
            check_key(self._connection, self.path, hash_chain)
            entry = require_session(self._connection, session_id)
            rows = all_sealed(self._connection, session_id, entry, self._cipher, self._reported)
            end = hash_chain.verify(session_id, entry.origin, rows, entry.head, head)
            # Asked again: a live owner may have appended since, and moves the head with the events.
            if require_session(self._connection, session_id).head < end.seq:
                raise corrupt(session_id, end.seq, "stands behind the last one of its session")
            return end

    def copy_to(
        self, target: Path, session_id: str = "", progress: Progress = lambda done, total: None
    ) -> None:
        """Write a complete copy of the log as it is now, or of one session, to a new file.

        Safe beside a live owner. Raises SessionNotFound, StoreError.
        """
        try:
            if session_id:
                copy_session(self._uri, target.resolve(), session_id, progress)
            else:
                copy_all(self._connection, target, progress)
        except SQLITE_FAILURES as error:
            raise store_error(error, self.path, f"copying to {target}") from error

    def check_wal(self) -> None:
        """Raise CorruptLog if the WAL is damaged, which hides the events behind the damage."""
        wal = self.path.with_name(self.path.name + "-wal")
        damage = find_damage(wal)
        if damage is not None:
            raise CorruptLog(
                f"{wal} is damaged at frame {damage.frame}: {damage.commits or 'all'} commits behind "
                f"that cannot be read, and the log's next owner will overwrite them; copy both files first"
            )

    @contextmanager
    def _reported(self, session_id: str = "", start: int = 0) -> Iterator[None]:
        try:
            yield
        except SQLITE_FAILURES as error:
            failure = store_error(error, self.path, "reading")
            if session_id and error_code(error) == sqlite3.SQLITE_CORRUPT:
                said = f"session {session_id}, from event {start}: {failure}"
                raise CorruptLog(said, session_id, start) from error
            raise failure from error

    # --- opening ------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect(self.path, "mode=ro")
        except sqlite3.OperationalError as error:
            if error_code(error) not in _NO_SHARED_MEMORY or not os.access(self.path, os.R_OK):
                raise
        # In a read-only folder SQLite cannot make the shared-memory file that it needs, and no owner can be
        # alive: it would have made that file. Without a WAL the file is then complete.
        wal = self.path.with_name(self.path.name + "-wal")
        if not wal.exists() or not wal.stat().st_size:
            return self._connect(self.path, "mode=ro&immutable=1")
        self._copy = TemporaryDirectory(prefix="callboard-")
        copy = Path(self._copy.name, "log.db")
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
        try:
            connection.execute("PRAGMA query_only = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            if is_fresh(connection, self.path):
                raise StoreUnreadable(f"{self.path} is empty: nothing was ever recorded there")
            check_complete(connection, path, self.path)
        except BaseException:
            connection.close()
            raise
        return connection
