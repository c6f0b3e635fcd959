"""The default store: one SQLite file, one owner, WAL with an fsync per commit.

A caller may be cancelled at any time: functions that were handed to the thread run whole. Leaving without
`close` is safe too: everything acknowledged is in the file, and the thread, a daemon, is stopped when the log
is collected or the interpreter ends.
"""

import asyncio
import contextlib
import os
import weakref
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from callboard.actors.protocol.errors import MisuseError, StoreFailed
from callboard.actors.protocol.events import Event
from callboard.actors.session.budget_keys import Reservation
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.cipher import check_size
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.protocol import GENESIS, Append, EventLog, Head, Stored
from callboard.runtime.log.session_rows import EVERY_SESSION, SessionQuery, SessionRow
from callboard.runtime.log.spending import Spending, SpendingStore, Unlogged, UsageRow
from callboard.runtime.log.sqlite.meta import Durability, find_cipher, prepare, size_of
from callboard.runtime.log.sqlite.owner import Owner
from callboard.runtime.log.sqlite.store import SQLiteStore
from callboard.runtime.log.sqlite.store_errors import SQLITE_FAILURES, store_error
from callboard.runtime.log.sqlite.thread import SQLiteThread
from callboard.runtime.log.stream import release

T = TypeVar("T")


class SQLiteLog(EventLog):
    """An `EventLog` in a SQLite file. Creates it and `<path>.lock` if missing. Parameters: see `open_log`."""

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

    @property
    def owned_path(self) -> Path:
        """Return the resolved path of the open log: two names of one file have one owner."""
        return self._held.owner.path if self._held is not None else self.path.resolve()

    def announce(self, address: str) -> None:
        """Write the name of this owner's control socket into the lock."""
        if self._held is not None:
            self._held.owner.announce(address)

    async def close(self) -> None:
        """Write all queued batches, empty the WAL, and give up ownership. Safe to call twice."""
        held, self._held = self._held, None
        if held is not None and held.owner.is_here:
            await held.leave()

    async def create(self, session_id: str, created_ms: int, title: str, origin: bytes = GENESIS) -> int:
        return await self._run(lambda store: store.create(session_id, created_ms, title, origin))

    async def fork(
        self, session_id: str, created_ms: int, title: str, parent: str, base: int, own: Sequence[Event] = ()
    ) -> Head:
        return await self._run(lambda store: store.fork(session_id, created_ms, title, parent, base, own))

    async def take_over(self, session_id: str) -> tuple[int, Head]:
        return await self._run(lambda store: store.take_over(session_id))

    async def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        return await self._run(lambda store: store.append(batch))

    async def read(self, session_id: str, start: int = 1, limit: int = 10_000) -> list[Stored]:
        return await self._run(lambda store: store.read(session_id, start, limit))

    async def checked(self, session_id: str, after: Head | None = None, limit: int = 10_000) -> list[Stored]:
        return await self._run(lambda store: store.checked(session_id, after, limit))

    async def head(self, session_id: str) -> Head:
        return await self._run(lambda store: store.head(session_id))

    async def waiting_since(self, session_id: str) -> int:
        return await self._run(lambda store: store.waiting_since(session_id))

    async def set_waiting(self, session_id: str, since_ms: int) -> None:
        await self._run(lambda store: store.set_waiting(session_id, since_ms))

    async def sessions(self, query: SessionQuery = EVERY_SESSION) -> list[SessionRow]:
        return await self._run(lambda store: store.sessions(query))

    async def usage(self, since_day: str = "") -> list[UsageRow]:
        return await self._run(lambda store: store.look_at_spending(lambda one: one.usage.read(since_day)))

    async def set_usage(self, session_id: str, charges: Sequence[Charge]) -> None:
        await self._run(lambda store: store.change_spending(lambda one: one.usage.put(session_id, charges)))

    @property
    def spending(self) -> SpendingStore:
        return _Spending(self._run)

    async def delete(self, session_id: str, *, keep_forks: bool = False) -> int:
        return await self._run(lambda store: store.delete(session_id, keep_forks))

    async def purge(self) -> bool:
        return await self._run(lambda store: store.purge())

    async def vacuum(self, pages: int | None) -> int:
        return await self._run(lambda store: store.vacuum(pages))

    def size_bytes(self) -> int:
        return sum(size_of(self.path.with_name(self.path.name + suffix)) for suffix in ("", "-wal"))

    async def _run(self, work: Callable[[SQLiteStore], T]) -> T:
        held = self._held
        if held is None or held.store is None:
            raise StoreFailed(f"{self.path} is not open; await open() first")
        held.owner.check()
        if held.is_lost:
            held.check_files()
        answer = await held.thread.run(partial(work, held.store))
        held.check_files()  # here, not on the store's thread: that would wait for the interpreter lock again
        return answer


class _Run(Protocol):
    def __call__(self, work: Callable[[SQLiteStore], T]) -> Awaitable[T]: ...


class _Spending(SpendingStore):
    """The spending of budgets of an open log. run: calls a function of the store on its thread."""

    def __init__(self, run: "_Run") -> None:
        self._run = run

    async def read(self, scopes: Sequence[str] | None = None) -> Spending:
        return await self._run(lambda store: store.look_at_spending(lambda tables: tables.read(scopes)))

    async def hand_over(
        self,
        session_id: str,
        epoch: int,
        held: Sequence[Reservation],
        lost: Sequence[Reservation],
        at_ms: int,
    ) -> list[Reservation]:
        handed = (session_id, epoch, held, lost, at_ms)
        return await self._run(lambda store: store.change_spending(lambda tables: tables.hand_over(*handed)))

    async def unlogged(self) -> list[Unlogged]:
        return await self._run(lambda store: store.look_at_spending(lambda tables: tables.unlogged()))


class _Held:
    """Ownership, thread and store of an open log. Does not refer to the log, which may be collected."""

    def __init__(self, owner: Owner, thread: SQLiteThread) -> None:
        self.owner = owner
        self.thread = thread
        self.store: SQLiteStore | None = None
        self.is_lost = False
        self._is_left = False
        self.on_abandon: weakref.finalize[[], SQLiteLog] | None = None
        self._files = (str(owner.path), f"{owner.path}-wal")
        self._opened: list[tuple[int, int]] | None = None

    async def open(self, durability: Durability, hash_chain: HashChain, key: bytes | None) -> None:
        """Open the file and prepare it."""
        path, is_contested = self.owner.path, self.owner.is_contested

        def prepared() -> SQLiteStore:
            owner = prepare(
                connection, path, durability, hash_chain, is_contested=is_contested, encryption_key=key
            )
            return SQLiteStore(connection, path, hash_chain, owner, find_cipher(connection, path, key))

        try:
            connection = await self.thread.connect()
            self.store = await self.thread.run(prepared)
        except SQLITE_FAILURES as error:
            raise store_error(error, path, "opening") from error
        self._opened = _inodes(self._files)

    def check_files(self) -> None:
        """Raise StoreFailed if the database or its WAL is another file now, and from then on always."""
        # SQLite goes on writing to a file that was removed or replaced: it does not ask for its name again.
        is_other = self._opened is None or _inodes(self._files) != self._opened
        # Closing removes the WAL itself, maybe before the caller of the last batch goes on.
        if self.is_lost or (is_other and not self._is_left):
            self.is_lost = True
            raise StoreFailed(
                f"{self.owner.path} or its WAL was removed, replaced or moved while it was open: nothing "
                f"more is stored in it. Put the files back if you have them, open the log again, then resume"
            )

    async def leave(self) -> None:
        """End the thread and give up ownership, even if the caller is cancelled meanwhile."""
        if self.on_abandon is not None:
            self.on_abandon.detach()
        loop = asyncio.get_running_loop()
        left = loop.create_future()
        self._stop(partial(loop.call_soon_threadsafe, release, left))
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

        self.thread.stop(self._leave_store, left)

    def _leave_store(self) -> None:
        """Close the store, on its thread, after a last look at the files."""
        if self.store is not None:
            self.is_lost = self.is_lost or _inodes(self._files) != self._opened
            self._is_left = True
            self.store.leave()


def _inodes(files: tuple[str, str]) -> list[tuple[int, int]] | None:
    try:
        return [(found.st_dev, found.st_ino) for found in map(os.stat, files)]
    except OSError:
        return None
