"""The default store: one SQLite file, one owner, WAL with an fsync per commit.

    sqlite_owner    who may write: flock on <path>.lock, and never in a forked child
    sqlite_thread   aiosqlite's connection and thread, and all of its private parts
    sqlite_schema   tables, versions, settings, what SQLite's errors mean
    sqlite_mark     whether the file is all there is, whose it is, and when the WAL is written back
    sqlite_store    batches and sessions: plain functions on that thread
    sqlite_rows     all rows of a batch in one statement, its large values in another
    sqlite_door     the whole batch, heads and all, in one
    sqlite_queries  rows to events, shared with the readers
    sqlite_reader   reading without owning, with sqlite_wal (damage that SQLite does not see) and sqlite_copy
    cipher          encryption of what is said, if there is a key for it

This module only puts them together. Whoever calls may be cancelled at any time: what was handed to the
thread is done whole. Leaving without `close` is safe too: everything acknowledged is in the file, and the
thread, a daemon, is stopped when the log is collected or the interpreter ends.
"""

import asyncio
import contextlib
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from callboard.actors.protocol.errors import MisuseError, StoreFailed
from callboard.runtime.log.cipher import check_size
from callboard.runtime.log.hash_chain import Chain
from callboard.runtime.log.protocol import GENESIS, Append, Head, SessionRow, Stored
from callboard.runtime.log.sqlite.file_identity import FileIdentity
from callboard.runtime.log.sqlite.meta import find_cipher
from callboard.runtime.log.sqlite.owner import Owner
from callboard.runtime.log.sqlite.preparation import Durability, prepare
from callboard.runtime.log.sqlite.store import SQLiteStore
from callboard.runtime.log.sqlite.store_errors import SQLITE_FAILURES, store_error
from callboard.runtime.log.sqlite.thread import SQLiteThread

T = TypeVar("T")


class SQLiteLog:
    """An `EventLog` in a SQLite file.

    path: the file; it and `<path>.lock` beside it are made if they are not there. durability: "full"
    syncs the disk at every commit; "process" leaves that to the system, so that a commit survives the
    process but not a power cut. key: 1 to 64 secret bytes under which the digests are computed. force: take
    the log from another process that owns it and does not answer: from then on that one appends nothing.
    encryption_key: at least 32 random bytes, with which bodies, large values and titles are encrypted.
    """

    def __init__(
        self,
        path: str | Path,
        durability: Durability = "full",
        key: bytes | None = None,
        *,
        force: bool = False,
        encryption_key: bytes | None = None,
    ) -> None:
        if durability not in ("full", "process"):
            raise MisuseError(f'durability is "full" or "process", not {durability!r}')
        self.path = Path(path)
        self.durability = durability
        self.force = force
        if encryption_key is not None:
            check_size(encryption_key)
        self._encryption_key = encryption_key
        self._chain = Chain(key)
        self._held: _Held | None = None

    async def open(self) -> None:
        """Take ownership. Raises StoreLocked, StoreUnreadable, StoreTooNew, StoreReadOnly, StoreFailed."""
        if self._held is not None:
            raise MisuseError(f"{self.path} is open already")
        path = self.path.resolve()  # two names of one file (a link) must give one lock
        owner = Owner(path)
        owner.acquire(force=self.force)
        try:
            held = _Held(owner, SQLiteThread(path))
        except BaseException:
            owner.release()
            raise
        try:
            await held.open(self.durability, self._chain, self._encryption_key)
            owner.seize()
        except BaseException:
            await held.leave()
            raise
        self._held = held
        held.on_abandon = weakref.finalize(self, held.abandon)

    async def close(self) -> None:
        """Write what is queued, empty the WAL, give up ownership. Safe to call twice."""
        held, self._held = self._held, None
        if held is not None and held.owner.is_here:
            await held.leave()

    async def create(self, session_id: str, created_ms: int, title: str, origin: bytes = GENESIS) -> int:
        """See `EventLog.create`."""
        return await self._run(lambda store: store.create(session_id, created_ms, title, origin))

    async def take_over(self, session_id: str) -> tuple[int, Head]:
        """See `EventLog.take_over`."""
        return await self._run(lambda store: store.take_over(session_id))

    async def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        """See `EventLog.append`."""
        return await self._run(lambda store: store.append(batch))

    async def read(self, session_id: str, start: int = 1, limit: int = 10_000) -> list[Stored]:
        """See `EventLog.read`."""
        return await self._run(lambda store: store.read(session_id, start, limit))

    async def head(self, session_id: str) -> Head:
        """See `EventLog.head`."""
        return await self._run(lambda store: store.head(session_id))

    async def sessions(self) -> list[SessionRow]:
        """See `EventLog.sessions`."""
        return await self._run(lambda store: store.sessions())

    async def delete(self, session_id: str) -> int:
        """See `EventLog.delete`. What was deleted is overwritten in the file, which then gets smaller."""
        return await self._run(lambda store: store.delete(session_id))

    async def _run(self, work: Callable[[SQLiteStore], T]) -> T:
        held = self._held
        if held is None or held.store is None or held.files is None:
            raise StoreFailed(f"{self.path} is not open; await open() first")
        held.owner.check()
        held.files.check_again()
        answer = await held.thread.run(partial(work, held.store))
        held.files.check()  # here, not on the store's thread: that would wait for the interpreter lock again
        return answer


class _Held:
    """What an open log holds: ownership, thread, store. Knows nothing of the log, which may be collected."""

    def __init__(self, owner: Owner, thread: SQLiteThread) -> None:
        self.owner = owner
        self.thread = thread
        self.store: SQLiteStore | None = None
        self.files: FileIdentity | None = None
        self.on_abandon: weakref.finalize[[], SQLiteLog] | None = None

    async def open(self, durability: Durability, chain: Chain, encryption_key: bytes | None) -> None:
        """Open the file and see what is in it."""
        path, is_contested = self.owner.path, self.owner.is_contested

        def opened() -> SQLiteStore:
            owner = prepare(
                connection,
                path,
                durability,
                chain,
                is_contested=is_contested,
                encryption_key=encryption_key,
            )
            return SQLiteStore(connection, path, chain, owner, find_cipher(connection, path, encryption_key))

        try:
            connection = await self.thread.connect()
            self.store = await self.thread.run(opened)
            self.files = FileIdentity(path)
        except SQLITE_FAILURES as error:
            raise store_error(error, path, "opening") from error

    async def leave(self) -> None:
        """End the thread and give up ownership; a caller who is cancelled meanwhile does not stop that."""
        if self.on_abandon is not None:
            self.on_abandon.detach()
        loop = asyncio.get_running_loop()
        left = loop.create_future()
        self._stop(lambda: loop.call_soon_threadsafe(_settle, left))
        await left

    def abandon(self) -> None:
        """The same without a loop: the log was collected, or the interpreter ends."""
        if self.owner.is_here:  # a forked child must leave the connection alone
            self._stop(lambda: None)
            self.thread.join()

    def _stop(self, then: Callable[[], object]) -> None:
        def left() -> None:
            self.owner.release()
            with contextlib.suppress(RuntimeError):  # the loop was closed
                then()

        self.thread.stop(self.store.leave if self.store else lambda: None, left)


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
