"""The owner's side of a SQLite log: plain functions, run one after the other on the connection's thread.

A batch is one statement (`batch`), or, if it is refused there or is too large, a transaction of several. The
store remembers heads, epochs and digests of large values until `PRAGMA data_version` says that another
connection has changed the file. All comparisons are repeated in SQL.
"""

import sqlite3
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from msgspec.structs import replace

from callboard.actors.protocol.errors import CorruptLog, Fenced, SessionNotFound, StoreFailed
from callboard.actors.protocol.events import Event
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.protocol import Append, Head, Stored, has_forks, no_base, session_exists
from callboard.runtime.log.session_rows import SessionQuery, SessionRow, details_of
from callboard.runtime.log.spending import NetChanges
from callboard.runtime.log.sqlite.batch import (
    CHANGE_ROWS,
    MOVE_HEADS,
    BatchPlan,
    KnownHead,
    insert_batch,
    kept_title,
    make_batch_view,
)
from callboard.runtime.log.sqlite.deletion import is_pending, last_removed, remove_some, take_out
from callboard.runtime.log.sqlite.meta import (
    BUSY_TIMEOUT_MS,
    CHECKPOINT_PAGES,
    clear_marker,
    meta_value,
    write_back,
)
from callboard.runtime.log.sqlite.remembered import Remembered
from callboard.runtime.log.sqlite.rows import BLOB, TEXT, Rows
from callboard.runtime.log.sqlite.schema import PAGE_BYTES, check_schema, pragma
from callboard.runtime.log.sqlite.spending import SpendingTables
from callboard.runtime.log.sqlite.store_errors import SQLITE_FAILURES, WalWatch, error_code, store_error
from callboard.runtime.log.sqlite.tables import Tables

T = TypeVar("T")
_NEW_SESSION: Final = (
    "INSERT INTO sessions(id, session_id, epoch, head, created_ms, title, origin) VALUES ("
    "1 + max(ifnull((SELECT max(id) FROM sessions), 0), ?), ?, 1, 0, ?, ?, ?)"
)
_NEW_FORK: Final = (
    "INSERT INTO sessions(id, session_id, epoch, head, created_ms, title, origin, parent, base) VALUES ("
    "1 + max(ifnull((SELECT max(id) FROM sessions), 0), :removed), "
    ":name, 1, :base, :created_ms, :title, :digest, :parent, :base)"
)
_MOVES: Final = MOVE_HEADS.format("?")
_CHANGES: Final = CHANGE_ROWS.format("?")
_PAGES_PER_BATCH: Final = 2  # even the smallest transaction writes: a guess that need not be exact
_FATAL: Final = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class SQLiteStore:
    """A log's tables, written by this object alone. owner: the name that `prepare` gave."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        hash_chain: HashChain,
        owner: str,
        cipher: Cipher | None = None,
    ) -> None:
        self.path = path
        self._connection = connection
        self._hash_chain = hash_chain
        self._remembered = Remembered()
        self._version = -1
        self._end: StoreFailed | Fenced | None = None  # once set, every call raises it
        self._owner = owner
        self._cipher = cipher
        self._tables = Tables(connection, cipher)
        self.spending = SpendingTables(connection, cipher)
        self._cast = TEXT if cipher is None else BLOB
        self._pages = 0
        self._is_overwritten = False
        self._wal = WalWatch(path)
        make_batch_view(connection, self._cast)

    def leave(self) -> None:
        """Write the WAL back and empty it. While a reader is at work, leave that to the next owner."""
        if meta_value(self._connection, "owner") != self._owner:
            return
        self._connection.execute("PRAGMA busy_timeout = 100")
        clear_marker(self._connection, self._owner)
        if self._end is None:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # --- writing ----------------------------------------------------------------

    def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        try:
            plan = self._append_at_once(batch) or self._append_in_steps(batch)
        except Fenced as error:
            return [error] * len(batch)
        except StoreFailed:
            raise
        except Exception as error:
            raise StoreFailed(str(error)) from error
        self._remembered.add(plan.heads, plan.rows.names)
        self._note_written(len(plan.heads), plan.rows.size)
        return plan.answers

    def _append_at_once(self, batch: Sequence[Append]) -> BatchPlan | None:
        """Write the batch in one statement. Return None if that is impossible and nothing was written."""
        with self._reported("append"), self._watched():
            plan = self._plan(batch, self._remembered.blobs)
            chunk = plan.rows.only_chunk()
            if chunk is None or plan.takes_steps:
                return None
            moves, changes = plan.moves(), plan.changes()
            spending = self.spending.parameters(NetChanges(plan.spending), plan.usage)
            is_done = insert_batch(self._connection, self._version, moves, changes, chunk, spending)
            return plan if is_done else None

    def _append_in_steps(self, batch: Sequence[Append]) -> BatchPlan:
        """Write the batch in several statements: it is too large for one, or was refused as one."""
        with self._transaction("append"):
            plan = self._plan(batch)
            self._write(plan)
        return plan

    def _write(self, plan: BatchPlan) -> None:
        """Write a batch inside of a transaction."""
        plan.rows.insert(self._connection)
        moved = self._connection.execute(_MOVES, (plan.moves(),)).rowcount if plan.heads else 0
        if moved != len(plan.heads):
            raise StoreFailed(f"{self.path} was changed by another program; reopen and verify it")
        if (changes := plan.changes()) != "[]":
            self._connection.execute(_CHANGES, (changes,))
        if plan.settles:
            self.spending.apply(plan.spending, plan.usage)
        for session_id, opened in plan.opened.items():
            self._tables.write_details(self._tables.entry(session_id), details_of(opened))
        for session_id, title in plan.titles.items():
            values = (title, plan.heads[session_id].number)
            self._connection.execute("UPDATE sessions SET title = ? WHERE id = ?", values)

    def _plan(self, batch: Sequence[Append], known_blobs: Container[bytes] = ()) -> BatchPlan:
        plan = BatchPlan(Rows(self._cast, known_blobs, self._cipher), self._hash_chain, self._cipher)
        for part in batch:
            try:
                known = plan.heads.get(part.session_id) or self._remembered.head_of(
                    self._tables, part.session_id
                )
            except (SessionNotFound, CorruptLog) as error:
                plan.answers.append(error)
            else:
                plan.answers.append(plan.add(part, known))
        return plan

    def fork(
        self, session_id: str, created_ms: int, title: str, parent: str, base: int, own: Sequence[Event]
    ) -> Head:
        kept = kept_title(self._cipher, session_id, title)
        with self._transaction("fork"):
            entry = self._tables.entry(parent, hidden=True)
            self._tables.verify(self._hash_chain, entry)
            if not 1 <= base <= entry.head:
                raise no_base(parent, base, entry.head)
            # The parent is the session under which the event stands, which may be one that `parent` forks.
            owner = next(one for one in self._tables.lineage(entry) if base <= one.head)
            (row,) = self._tables.events(parent, base, 1, hidden=True)
            named = {"name": session_id, "created_ms": created_ms, "title": kept, "parent": owner.session_id}
            values = {"removed": last_removed(self._connection), "base": base, "digest": row.digest, **named}
            try:
                self._connection.execute(_NEW_FORK, values)
            except sqlite3.IntegrityError:
                raise session_exists(session_id) from None
            plan = self._plan([Append(session_id, base, 1, own)])
            (head,) = plan.answers
            if isinstance(head, Exception):
                raise head
            self._write(plan)
        self._remembered.add(plan.heads, plan.rows.names)
        self._note_written(1, plan.rows.size)
        return head

    def create(self, session_id: str, created_ms: int, title: str, origin: bytes) -> int:
        kept = kept_title(self._cipher, session_id, title)
        with self._transaction("create"):
            try:
                values = (last_removed(self._connection), session_id, created_ms, kept, origin)
                made = self._connection.execute(_NEW_SESSION, values)
            except sqlite3.IntegrityError:
                raise session_exists(session_id) from None
        self._remembered.add({session_id: KnownHead(made.lastrowid or 0, 1, 0, origin, bool(title))})
        self._note_written(1, 0)
        return 1

    def take_over(self, session_id: str) -> tuple[int, Head]:
        # Without a sync of its own: that of the first append makes both durable, for the WAL is one file.
        with self._unsynced(), self._transaction("take_over"):
            entry = self._tables.entry(session_id)
            head = self._tables.verify_tail(self._hash_chain, entry)
            self._connection.execute("UPDATE sessions SET epoch = epoch + 1 WHERE id = ?", (entry.number,))
        epoch = entry.epoch + 1
        self._remembered.add({session_id: KnownHead(entry.number, epoch, *head, entry.has_title)})
        self._note_written(1, 0)
        return epoch, head

    def waiting_since(self, session_id: str) -> int:
        with self._reported("waiting_since"):
            return self._tables.details_of(self._tables.entry(session_id)).waits_ms

    def set_waiting(self, session_id: str, since_ms: int) -> None:
        with self._unsynced(), self._transaction("set_waiting"):
            entry = self._tables.entry(session_id)
            noted = replace(self._tables.details_of(entry), waits_ms=since_ms)
            self._tables.write_details(entry, noted)
        self._note_written(1, 0)

    def delete(self, session_id: str, keep_forks: bool) -> int:
        with self._reported("delete"):
            self._connection.execute("PRAGMA secure_delete = ON")
        with self._transaction("delete"):
            entry = self._tables.entry(session_id)
            forks = self._tables.forks(session_id)
            if forks and not keep_forks:
                raise has_forks(session_id, tuple(forks))
            self.spending.charge_all(session_id, max(1, self._tables.last_ms(entry)))
            self.spending.usage.drop(entry.number)
            count = take_out(self._connection, self._tables, entry)
        self._remembered.heads.pop(session_id, None)
        self._note_written(1, 0)
        return count

    def purge(self) -> bool:
        """Remove the next events of deleted sessions: overwrite them. Return whether more is left."""
        with self._reported("purge"):
            if not is_pending(self._connection):
                return False
            self._connection.execute("PRAGMA secure_delete = ON")
        with self._transaction("purge"):
            step = remove_some(self._connection)
            self._is_overwritten = False
        if step.blobs:  # some may be gone: they are sent again
            self._remembered.blobs.clear()
        self._note_written(step.pages, 0)
        if step.is_last:  # the zeros get into the file itself
            with self._reported("purge"), self._watched():
                write_back(self._connection, self._owner)
        return not step.is_last

    def vacuum(self, pages: int | None) -> int:
        """Cut free pages off the file; for None, write the whole file again. Return the number left."""
        with self._transaction("vacuum"):  # which checks the owner
            can_cut = pages is not None and not is_pending(self._connection)
        with self._reported("vacuum"):
            if pages is None:
                self._connection.execute("VACUUM")
                self._is_overwritten = False
                self._overwrite()
            elif can_cut and self._overwrite():
                # Not `execute`: of a pragma without columns it runs one step, which frees one page.
                self._connection.executescript(f"PRAGMA incremental_vacuum({pages:d})")
                self._note_written(pages, 0)
            left = pragma(self._connection, "freelist_count")
            if not left:
                write_back(self._connection, self._owner)
            self._wal.note()
            return left

    def _overwrite(self) -> bool:
        """Write all of the WAL back and empty it. Return False if a reader prevents that now."""
        # Cutting the file gives its pages back as they are: only once the zeros of `purge` are in it.
        if not self._is_overwritten:
            self._connection.execute("PRAGMA busy_timeout = 0")  # commits of other sessions must not wait
            (is_read, _, _) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            write_back(self._connection, self._owner)
            self._is_overwritten = not is_read
        self._wal.note()
        return self._is_overwritten

    # --- reading ----------------------------------------------------------------

    def read(self, session_id: str, start: int, limit: int) -> list[Stored]:
        with self._reported("read"):
            return self._tables.events(session_id, start, limit)

    def checked(self, session_id: str, after: Head | None, limit: int) -> list[Stored]:
        with self._reported("read"):
            return self._tables.checked(self._hash_chain, session_id, after, limit)

    def head(self, session_id: str) -> Head:
        with self._reported("head"):
            return self._tables.head_of(self._tables.entry(session_id))

    def sessions(self, query: SessionQuery) -> list[SessionRow]:
        with self._reported("sessions"):
            return self.spending.usage.added_to(self._tables.sessions(query))

    def look_at_spending(self, look: Callable[[SpendingTables], T]) -> T:
        with self._reported("reading the amounts spent"):
            return look(self.spending)

    def change_spending(self, change: Callable[[SpendingTables], T]) -> T:
        with self._transaction("changing the amounts spent"):
            done = change(self.spending)
        self._note_written(1, 0)
        return done

    # --- helpers ----------------------------------------------------------------

    @contextmanager
    def _transaction(self, doing: str) -> Iterator[None]:
        with self._reported(doing), self._watched():
            self._connection.execute("BEGIN IMMEDIATE")
            version = pragma(self._connection, "data_version")
            if version != self._version:
                self._check_owner()
                check_schema(self._connection, self.path)
                self._remembered.forget()
                self._version = version
            yield
            self._connection.execute("COMMIT")

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Let no commit pass that a WAL cut or replaced by another program has lost."""
        if lost := self._wal.before():
            self._fail(lost)
        if self._end is None:
            yield
            if lost := self._wal.after():
                self._fail(lost)
        if self._end is not None:
            raise self._end

    @contextmanager
    def _unsynced(self) -> Iterator[None]:
        """Let commits wait for no sync."""
        before = pragma(self._connection, "synchronous")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        try:
            yield
        finally:
            if not self._connection.in_transaction:  # else a rollback has failed, and nothing more is written
                self._connection.execute(f"PRAGMA synchronous = {before}")

    def _check_owner(self) -> None:
        """Raise Fenced if another process has opened the log since, even if this one still holds a lock."""
        if meta_value(self._connection, "owner") != self._owner:
            self._end = Fenced(
                f"{self.path} was taken over by another process; this one appends nothing more: "
                f"close it, and read the log to see how far its sessions got"
            )
            raise self._end

    def _note_written(self, sessions: int, size: int) -> None:
        self._pages += _PAGES_PER_BATCH + sessions + size // PAGE_BYTES
        if self._pages >= CHECKPOINT_PAGES:
            self._pages = 0
            try:
                with self._watched():  # SQLite cuts a WAL of more than `WAL_BYTES_MAX` when it begins anew
                    write_back(self._connection, self._owner)
            except sqlite3.Error as error:  # the batch is stored; after a failed disk nothing more is
                self._end_if_fatal(error, "writing the WAL back")

    @contextmanager
    def _reported(self, doing: str) -> Iterator[None]:
        """Undo what fails, and turn SQLite's errors into ours. If the file is in doubt, refuse every call."""
        if self._end is not None:
            raise self._end.with_traceback(None)  # which would grow with every call
        try:
            yield
        except BaseException as error:
            self._undo()
            if not isinstance(error, SQLITE_FAILURES):
                raise
            self._end_if_fatal(error, f"an earlier {doing}")
            raise store_error(error, self.path, doing) from error

    def _undo(self) -> None:
        self._remembered.forget()
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            self._fail(f"a rollback failed ({error})")

    def _end_if_fatal(self, error: Exception, doing: str) -> None:
        if error_code(error) in _FATAL:
            self._fail(f"{doing} failed ({error})")

    def _fail(self, why: str) -> None:
        said = f"{why}; this log is closed for good: reopen it, then resume"
        self._end = self._end or StoreFailed(said)
