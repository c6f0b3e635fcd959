"""Points at which a process can be killed, and the hooks that kill it. Only the child program uses this.

    before append               the store is about to get a batch
    in a transaction            the rows are about to be inserted: at another step of the statement for each
                                batch; or a moment later, by the parent
    in a commit                 the transaction begins, if it is one statement, else its COMMIT; or a moment
                                later, by the parent, during its writes and syncs
    in a torn write             a write is cut off in the middle
    after append                the batch is durable, but not acknowledged yet
    before effect               a tool begins whose intent is durable
    after effect                it has changed the world and has not returned
    in a checkpoint             the WAL is being written back
    between checkpoint steps    before one of the marks that go with it
    resume: reading done        the log was read, no earlier writer is fenced yet
    resume: taken over          earlier writers are fenced
    resume: recovered           the remaining work is known, none of it posted
    resume: restored            it is posted, and not yet durable
    at random                   the parent kills after some milliseconds
    polite: ...                 the program leaves by itself (leaving.py)

A torn write ends by SIGXFSZ, which the system sends instead of writing beyond a limit; all others by SIGKILL.
"""

import contextlib
import os
import resource
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from callboard.actors.session.recovery import Recovered
from callboard.runtime.log.protocol import Append, Head
from callboard.runtime.log.sqlite import store as sqlite_store
from callboard.runtime.log.sqlite.batch import insert_batch
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.rows import Chunk
from callboard.runtime.log.sqlite.store import SQLiteStore
from callboard.runtime.log.sqlite.thread import SQLiteThread
from callboard.runtime.sessions.board import Board
from tests.crash.leaving import POLITE
from tests.crash.notes import Notes, SeenHead

RANDOM: Final = "at random"
TORN: Final = "in a torn write"
IN_RESUME: Final = (
    "resume: reading done",
    "resume: taken over",
    "resume: recovered",
    "resume: restored",
)
POINTS: Final = (
    RANDOM,
    "before append",
    "in a transaction",
    "in a commit",
    TORN,
    "after append",
    "before effect",
    "after effect",
    "in a checkpoint",
    "between checkpoint steps",
    *IN_RESUME,
    *POLITE,
)
_BATCH: Final = "INSERT INTO batch"
_BATCH_STEPS: Final = 7
"""Least number of steps that SQLite reports for a batch in one statement, those of its trigger included."""
_STATEMENTS: Final = {
    "INSERT INTO events": ("in a transaction",),
    "COMMIT": ("in a commit", TORN),
    "PRAGMA wal_checkpoint": ("in a checkpoint",),
    "UPDATE meta": ("between checkpoint steps",),
}


class Death(msgspec.Struct, frozen=True):
    """The moment and the way in which a process ends.

    nth: the passing of the point that kills. after_s: for a random moment. is_late: the process only rings,
    and the parent kills it a moment later; a polite end waits for no answer. torn_at: the most bytes of the
    WAL that are written.
    """

    point: str = ""
    nth: int = 1
    after_s: float = 0.0
    is_late: bool = False
    torn_at: int = 0


class Reaper:
    """Ends this process at its point. bell: a pipe on which the parent listens. may_note: see `Notes`."""

    def __init__(self, death: Death, bell: int) -> None:
        self.death = death
        self.may_note = threading.Event()
        self.may_note.set()
        self._bell = bell
        self._passed = 0
        self._is_writing = False
        self._batches = 0
        self._steps = 0

    def at(self, point: str) -> None:
        """Pass a point, and die there if it is the one."""
        if point != self.death.point:
            return
        self._passed += 1
        if point == TORN and self._is_writing:
            self._tear()
        elif point != TORN and self._passed == self.death.nth:
            self._die()

    def at_batch(self) -> None:
        """Pass the points before a batch that is one statement."""
        self._batches, self._steps = self._batches + 1, 0
        self.at("in a commit")
        self.at(TORN)

    def in_batch(self) -> None:
        """Pass one step of that statement."""
        self._steps += 1
        if self._steps == 1 + self._batches % _BATCH_STEPS:
            self.at("in a transaction")

    def _die(self) -> None:
        if self.death.is_late:
            os.write(self._bell, b"!")
            return
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)  # other threads may run until the signal arrives, this one must not

    def _tear(self) -> None:
        """Limit the size of files until this transaction ends; notes wait meanwhile."""
        self.may_note.clear()
        _bound_files(self.death.torn_at)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Note that a transaction is open, and lift the limit of files at its end."""
        self._is_writing = True
        try:
            yield
        finally:
            self._is_writing = False
            if not self.may_note.is_set():  # the transaction ended before it met the limit
                _bound_files(resource.RLIM_INFINITY)
                self.may_note.set()


def _bound_files(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


class DyingLog(SQLiteLog):
    """The default store, which notes the heads that it acknowledges and passes the points around them."""

    def __init__(self, path: Path, reaper: Reaper, seen: Notes) -> None:
        super().__init__(path)
        self._reaper = reaper
        self._seen = seen

    async def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        self._reaper.at("before append")
        answers = await super().append(batch)
        self._seen.write(
            *(
                SeenHead(part.session_id, answer.seq, answer.digest.hex())
                for part, answer in zip(batch, answers, strict=True)
                if isinstance(answer, Head)
            )
        )
        self._reaper.at("after append")
        return answers

    async def take_over(self, session_id: str) -> tuple[int, Head]:
        self._reaper.at("resume: reading done")
        taken = await super().take_over(session_id)
        self._reaper.at("resume: taken over")
        return taken


def install(reaper: Reaper) -> None:
    """Install the hooks of the other points in this process."""
    connect, restore, transaction = SQLiteThread._connect, Board.restore, SQLiteStore._transaction

    def traced(thread: SQLiteThread) -> sqlite3.Connection:
        connection = connect(thread)
        connection.set_trace_callback(lambda statement: _executed(reaper, statement))
        return connection

    def restored(board: Board, recovered: Recovered) -> None:
        reaper.at("resume: recovered")
        restore(board, recovered)
        reaper.at("resume: restored")

    @contextlib.contextmanager
    def watched(store: SQLiteStore, doing: str) -> Iterator[None]:
        with reaper.writing(), transaction(store, doing):
            yield

    def watched_insert(
        connection: sqlite3.Connection,
        version: int,
        moves: str,
        changes: str,
        chunk: Chunk,
        spending: dict[str, str],
    ) -> bool:
        with reaper.writing():
            reaper.at_batch()
            return insert_batch(connection, version, moves, changes, chunk, spending)

    patch(SQLiteStore, "_transaction", watched)
    patch(sqlite_store, "insert_batch", watched_insert)
    patch(SQLiteThread, "_connect", traced)
    patch(Board, "restore", restored)
    patch(sqlite_store, "CHECKPOINT_PAGES", 24)  # so that short sessions meet it too
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def patch(owner: object, name: str, value: object) -> None:
    """Replace an attribute in this process."""
    assert hasattr(owner, name), f"{owner} has no {name} any more"
    setattr(owner, name, value)


def _executed(reaper: Reaper, statement: str) -> None:
    if statement.startswith(_BATCH):
        reaper.in_batch()
    for start, points in _STATEMENTS.items():
        if statement.startswith(start):
            for point in points:
                reaper.at(point)
