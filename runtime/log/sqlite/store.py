"""The owner's side of a SQLite log: plain functions, run one after the other on the connection's thread.

A batch is one statement (`sqlite_door`), which compares heads and epochs in SQL. What that refuses, and
what is too large for one, is written as a transaction of several statements.

Heads and epochs of the sessions written lately are kept in memory, and digests of large values that the file
has; `PRAGMA data_version`, asked inside such a transaction, says whether any other connection has changed the
file since, and then they are forgotten. The comparisons are repeated in SQL, so even a mistake here could not
put two events in one place, or a row without its large values.
"""

import sqlite3
from collections.abc import Collection, Container, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from callboard.actors.protocol.errors import CorruptLog, Fenced, SessionNotFound, StoreFailed
from callboard.runtime.log.append_rules import refusal, session_exists
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import UNWRITABLE, Chain, corrupt
from callboard.runtime.log.protocol import Append, Head, SessionRow, Stored
from callboard.runtime.log.sqlite.batch_insert import MOVED, make_door, through_door
from callboard.runtime.log.sqlite.queries import (
    all_sealed,
    delete_session,
    find,
    found,
    head_of,
    session_rows,
    stored_rows,
)
from callboard.runtime.log.sqlite.rows import BLOB, TEXT, Rows
from callboard.runtime.log.sqlite.schema import PAGE_BYTES, SEQ_BITS, check_schema, pragma
from callboard.runtime.log.sqlite.store_errors import SQLITE_FAILURES, error_code, store_error
from callboard.runtime.log.sqlite.wal_marker import CHECKPOINT_PAGES, owner_of, say_whole, write_back

REMEMBERED_MAX: Final = 10_000
"""How many sessions, and how many digests of large values, are kept in memory, give or take one batch."""

_MOVE_HEADS: Final = MOVED.format("?")
_PAGES_PER_BATCH: Final = 2
"""The pages that every transaction writes to the WAL, whatever it holds: a guess that need not be exact."""

_FATAL: Final = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class _Line(msgspec.Struct, gc=False):
    """A session as this owner knows it: number in the file, epoch, head, the head's digest."""

    number: int
    epoch: int
    head: int
    digest: bytes


class _Plan:
    """What a batch comes to: answers, rows, and where sessions will stand."""

    def __init__(self, rows: Rows) -> None:
        self.answers: list[Head | Exception] = []
        self.rows = rows
        self.lines: dict[str, _Line] = {}
        self.before: dict[str, int] = {}

    def moves(self) -> list[tuple[int, int, int, int]]:
        """Number, epoch, former and new head of every session that is appended to."""
        return [
            (line.number, line.epoch, self.before[session_id], line.head)
            for session_id, line in self.lines.items()
        ]


def _encoded(moves: list[tuple[int, int, int, int]]) -> str:
    return msgspec.json.encode(moves).decode()


def _encrypted(cipher: Cipher, part: Append, bodies: Sequence[bytes]) -> list[bytes]:
    return [
        cipher.seal_event(part.session_id, event.seq, body)
        for event, body in zip(part.events, bodies, strict=True)
    ]


class SQLiteStore:
    """A log's tables, written by this object alone. owner: the name that `prepare` gave."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        chain: Chain,
        owner: str,
        cipher: Cipher | None = None,
    ) -> None:
        self.path = path
        self._connection = connection
        self._chain = chain
        self._lines: dict[str, _Line] = {}
        self._blobs: set[bytes] = set()
        self._version = -1
        self._death = ""
        self._owner = owner
        self._cipher = cipher
        self._cast = TEXT if cipher is None else BLOB
        self._is_lost = False
        self._pages = 0
        make_door(connection, self._cast)

    def leave(self) -> None:
        """Write the WAL back and empty it, unless somebody reads just now: then the next owner does."""
        if owner_of(self._connection) != self._owner:
            return
        self._connection.execute("PRAGMA busy_timeout = 100")
        say_whole(self._connection, self._owner)
        if not self._death:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # --- writing ----------------------------------------------------------------

    def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        """One transaction for the whole batch; see `EventLog.append`."""
        try:
            plan = self._append_at_once(batch) or self._append_in_steps(batch)
        except Fenced as error:
            return [error] * len(batch)
        except StoreFailed:
            raise
        except Exception as error:
            raise StoreFailed(str(error)) from error
        self._remember(plan.lines, plan.rows.names)
        self._note_written(len(plan.lines), plan.rows.size)
        return plan.answers

    def _append_at_once(self, batch: Sequence[Append]) -> _Plan | None:
        """Write the batch in one statement; None if that cannot be, and then nothing was written."""
        plan = _Plan(self._rows(self._blobs))
        with self._reported("append"):
            try:
                for part in batch:
                    plan.answers.append(self._planned(plan, part))
                chunk = plan.rows.only_chunk()
                is_refused = any(isinstance(answer, Exception) for answer in plan.answers)
                if chunk is None or is_refused:  # in a transaction it may turn out otherwise
                    return None
                is_in = through_door(self._connection, self._version, _encoded(plan.moves()), chunk)
                return plan if is_in else None
            except BaseException:
                self._undo()
                raise

    def _append_in_steps(self, batch: Sequence[Append]) -> _Plan:
        """Write the batch in several statements: it is too large for one, or something may be wrong."""
        plan = _Plan(self._rows())
        with self._transaction("append"):
            for part in batch:
                plan.answers.append(self._planned(plan, part))
            plan.rows.insert(self._connection)
            self._move_heads(plan.moves())
        return plan

    def create(self, session_id: str, created_ms: int, title: str, origin: bytes) -> int:
        """See `EventLog.create`."""
        kept = title if self._cipher is None else self._cipher.seal_title(session_id, title)
        with self._transaction("create"):
            if find(self._connection, session_id) is not None:
                raise session_exists(session_id)
            made = self._connection.execute(
                "INSERT INTO sessions(session_id, epoch, head, created_ms, title, origin) "
                "VALUES (?, 1, 0, ?, ?, ?)",
                (session_id, created_ms, kept, origin),
            )
        self._remember({session_id: _Line(made.lastrowid or 0, 1, 0, origin)})
        self._note_written(1, 0)
        return 1

    def take_over(self, session_id: str) -> tuple[int, Head]:
        """See `EventLog.take_over`."""
        with self._transaction("take_over"):
            place = found(self._connection, session_id)
            head = head_of(self._connection, session_id, place)
            rows = all_sealed(self._connection, session_id, place, self._cipher)
            if self._chain.verify(session_id, place.origin, rows, place.head, head) != head:
                raise corrupt(session_id, place.head + 1, "stands behind the last one of its session")
            self._connection.execute("UPDATE sessions SET epoch = epoch + 1 WHERE id = ?", (place.number,))
        epoch = place.epoch + 1
        self._remember({session_id: _Line(place.number, epoch, *head)})
        self._note_written(1, 0)
        return epoch, head

    def delete(self, session_id: str) -> int:
        """See `EventLog.delete`. The WAL is emptied too, and the file gets smaller."""
        with self._reported("delete"):
            self._connection.execute("PRAGMA secure_delete = ON")
        with self._transaction("delete"):
            place = found(self._connection, session_id)
            delete_session(self._connection, place)
        self._lines.pop(session_id, None)
        self._blobs.clear()
        with self._reported("delete"):
            (is_read, _, _) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            # Only when the pages are overwritten in the file itself: cutting the file gives them back as they
            # are. A reader that keeps the old pages keeps them for the next delete.
            if not is_read:
                # Not `execute`: of a pragma without columns it runs one step, which frees one page.
                self._connection.executescript("PRAGMA incremental_vacuum")
            write_back(self._connection, self._owner)
        return place.head

    # --- reading ----------------------------------------------------------------

    def read(self, session_id: str, start: int, limit: int) -> list[Stored]:
        """See `EventLog.read`."""
        with self._reported("read"):
            place = found(self._connection, session_id)
            return stored_rows(self._connection, session_id, place, start, limit, self._cipher)

    def head(self, session_id: str) -> Head:
        """See `EventLog.head`."""
        with self._reported("head"):
            return head_of(self._connection, session_id, found(self._connection, session_id))

    def sessions(self) -> list[SessionRow]:
        """See `EventLog.sessions`."""
        with self._reported("sessions"):
            return session_rows(self._connection, self._cipher)

    # --- helpers ----------------------------------------------------------------

    def _rows(self, known: Container[bytes] = ()) -> Rows:
        return Rows(self._cast, known, None if self._cipher is None else self._cipher.seal_blob)

    def _planned(self, plan: _Plan, part: Append) -> Head | Exception:
        """Seal one session's events into the plan, all or none."""
        try:
            line = plan.lines.get(part.session_id) or self._line(part.session_id)
        except (SessionNotFound, CorruptLog) as error:
            return error
        if refused := refusal(part, line.epoch, line.head):
            return refused
        base = line.number << SEQ_BITS
        try:
            sealing = self._chain.seal_all(part.session_id, line.digest, part.events)
            if self._cipher is not None:
                sealing = sealing._replace(bodies=_encrypted(self._cipher, part, sealing.bodies))
        except UNWRITABLE as error:  # let in wrongly: its own session's fault only
            return StoreFailed(f"session {part.session_id}: an event cannot be written: {error}")
        head = line.head + len(part.events)
        plan.rows.add(base, part.events, sealing)
        plan.before.setdefault(part.session_id, line.head)
        digest = sealing.digests[-1] if sealing.digests else line.digest
        plan.lines[part.session_id] = _Line(line.number, line.epoch, head, digest)
        return Head(head, digest)

    def _move_heads(self, moves: list[tuple[int, int, int, int]]) -> None:
        if moves and self._connection.execute(_MOVE_HEADS, (_encoded(moves),)).rowcount != len(moves):
            raise StoreFailed(f"{self.path} was changed behind its owner's back; reopen and verify it")

    def _line(self, session_id: str) -> _Line:
        line = self._lines.get(session_id)
        if line is None:
            place = found(self._connection, session_id)
            head = head_of(self._connection, session_id, place)
            line = self._lines[session_id] = _Line(place.number, place.epoch, *head)
        return line

    def _remember(self, lines: dict[str, _Line], blobs: Collection[bytes] = ()) -> None:
        if len(self._lines) + len(lines) > REMEMBERED_MAX:
            self._lines.clear()
        self._lines.update(lines)
        if len(self._blobs) + len(blobs) > REMEMBERED_MAX:
            self._blobs.clear()
        self._blobs.update(blobs)

    @contextmanager
    def _transaction(self, doing: str) -> Iterator[None]:
        with self._reported(doing):
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                version = pragma(self._connection, "data_version")
                if version != self._version:
                    self._check_owner()
                    check_schema(self._connection, self.path)
                    self._lines.clear()
                    self._blobs.clear()
                    self._version = version
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                self._undo()
                raise

    def _check_owner(self) -> None:
        """Raise Fenced if another process has opened the log since: whatever lock this one still holds."""
        self._is_lost = self._is_lost or owner_of(self._connection) != self._owner
        if self._is_lost:
            raise Fenced(
                f"{self.path} was taken over by another process; this one appends nothing more: "
                f"close it, and read the log to see how far its sessions got"
            )

    def _note_written(self, sessions: int, size: int) -> None:
        """Have the WAL written back once about 4 MiB were written since that was done last."""
        self._pages += _PAGES_PER_BATCH + sessions + size // PAGE_BYTES
        if self._pages >= CHECKPOINT_PAGES:
            self._pages = 0
            try:
                write_back(self._connection, self._owner)
            except sqlite3.Error as error:  # what was appended stays; if the disk failed, nothing more is
                if error_code(error) in _FATAL:
                    self._death = f"writing the WAL back failed ({error})"

    def _undo(self) -> None:
        self._lines.clear()
        self._blobs.clear()
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            self._death = f"a rollback failed ({error})"

    @contextmanager
    def _reported(self, doing: str) -> Iterator[None]:
        """Turn SQLite's errors into ours; after one that leaves the file in doubt nothing works any more."""
        if self._is_lost:
            self._check_owner()
        if self._death:
            raise StoreFailed(f"{self._death}; this log is closed for good: reopen it, then resume")
        try:
            yield
        except SQLITE_FAILURES as error:
            failure = store_error(error, self.path, doing)
            if error_code(error) in _FATAL:
                self._death = f"an earlier {doing} failed ({error})"
            raise failure from error
