"""The default store: one SQLite file, one owner, WAL with an fsync per commit.

A caller may be cancelled at any time: functions that were handed to the thread run whole. Leaving without
`close` is safe too: everything acknowledged is in the file, and the thread, a daemon, is stopped when the log
is collected or the interpreter ends.
"""

import asyncio
import contextlib
import os
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from callboard.actors.protocol.errors import MisuseError, StoreFailed
from callboard.runtime.log.cipher import check_size
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.protocol import GENESIS, Append, Head, SessionRow, Stored
from callboard.runtime.log.sqlite.meta import find_cipher
from callboard.runtime.log.sqlite.owner import Owner
from callboard.runtime.log.sqlite.preparation import Durability, prepare
from callboard.runtime.log.sqlite.store import SQLiteStore
from callboard.runtime.log.sqlite.store_errors import SQLITE_FAILURES, store_error
from callboard.runtime.log.sqlite.thread import SQLiteThread
from callboard.runtime.log.stream import release

T = TypeVar("T")


class SQLiteLog:
    """An `EventLog` in a SQLite file.

    path: the file; it and `<path>.lock` beside it are created if missing. The other parameters are those of
    `open_log`. After `force` the former owner appends nothing.
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
        self._hash_chain = HashChain(key)
        self._held: _Held | None = None

    async def open(self) -> None:
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
            await held.open(self.durability, self._hash_chain, self._encryption_key)
            owner.seize()
        except BaseException:
            await held.leave()
            raise
        self._held = held
        held.on_abandon = weakref.finalize(self, held.abandon)

    async def close(self) -> None:
        """Write all queued batches, empty the WAL, give up ownership. Safe to call twice."""
        held, self._held = self._held, None
        if held is not None and held.owner.is_here:
            await held.leave()

    async def create(self, session_id: str, created_ms: int, title: str, origin: bytes = GENESIS) -> int:
        return await self._run(lambda store: store.create(session_id, created_ms, title, origin))

    async def take_over(self, session_id: str) -> tuple[int, Head]:
        return await self._run(lambda store: store.take_over(session_id))

    async def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        return await self._run(lambda store: store.append(batch))

    async def read(self, session_id: str, start: int = 1, limit: int = 10_000) -> list[Stored]:
        return await self._run(lambda store: store.read(session_id, start, limit))

    async def head(self, session_id: str) -> Head:
        return await self._run(lambda store: store.head(session_id))

    async def sessions(self) -> list[SessionRow]:
        return await self._run(lambda store: store.sessions())

    async def delete(self, session_id: str) -> int:
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
    """Ownership, thread and store of an open log. Does not refer to the log, which may be collected."""

    def __init__(self, owner: Owner, thread: SQLiteThread) -> None:
        self.owner = owner
        self.thread = thread
        self.store: SQLiteStore | None = None
        self.files: FileIdentity | None = None
        self.on_abandon: weakref.finalize[[], SQLiteLog] | None = None

    async def open(self, durability: Durability, hash_chain: HashChain, encryption_key: bytes | None) -> None:
        """Open the file and prepare it."""
        path, is_contested, key = self.owner.path, self.owner.is_contested, encryption_key

        def opened() -> SQLiteStore:
            owner = prepare(
                connection, path, durability, hash_chain, is_contested=is_contested, encryption_key=key
            )
            return SQLiteStore(connection, path, hash_chain, owner, find_cipher(connection, path, key))

        try:
            connection = await self.thread.connect()
            self.store = await self.thread.run(opened)
            self.files = FileIdentity(path)
        except SQLITE_FAILURES as error:
            raise store_error(error, path, "opening") from error

    async def leave(self) -> None:
        """End the thread and give up ownership, even if the caller is cancelled meanwhile."""
        if self.on_abandon is not None:
            self.on_abandon.detach()
        loop = asyncio.get_running_loop()
        left = loop.create_future()
        self._stop(lambda: loop.call_soon_threadsafe(release, left))
        await left

    def abandon(self) -> None:
        """Leave without a loop: the log was collected, or the interpreter ends."""
        if self.owner.is_here:  # a forked child must leave the connection alone
            self._stop(lambda: None)
            self.thread.join()

    def _stop(self, then: Callable[[], object]) -> None:
        def left() -> None:
            self.owner.release()
            with contextlib.suppress(RuntimeError):  # the loop was closed
                then()

        self.thread.stop(self.store.leave if self.store else lambda: None, left)


class FileIdentity:
    """The database and its WAL as they are when the log is opened.

    SQLite goes on writing to a file that was removed or replaced: its name is not asked again.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._wal = f"{path}-wal"
        self._found = self._find()
        self._is_lost = False

    def check(self) -> None:
        """Raise StoreFailed if one of the paths has another file now, and from then on always."""
        if self._is_lost or self._found is None or self._find() != self._found:
            self._is_lost = True
            raise StoreFailed(
                f"{self._path} or its WAL was removed, replaced or moved while it was open: nothing more is "
                f"stored in it. Put the files back if you have them, open the log again, then resume"
            )

    def check_again(self) -> None:
        """Raise StoreFailed if `check` has raised before. Asks no file system."""
        if self._is_lost:
            self.check()

    def _find(self) -> tuple[int, int, int, int] | None:
        try:
            database, wal = os.stat(self._path), os.stat(self._wal)  # noqa: PTH116  (half the time of Path.stat)
        except OSError:
            return None
        return (database.st_dev, database.st_ino, wal.st_dev, wal.st_ino)
