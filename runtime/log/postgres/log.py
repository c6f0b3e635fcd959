"""The store on a PostgreSQL server, which any number of processes and machines share.

Each log object has two connections, each with a thread: one for appends, and one, made when it is needed,
for all that may take longer or wait for a lock. A caller may be cancelled at any time: functions that were
handed to a thread run whole.
"""

import os
import weakref
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

from callboard.actors.protocol.errors import MisuseError, StoreFailed, StoreLocked
from callboard.actors.protocol.events import Event
from callboard.actors.session.budget_keys import CallKey, Reservation
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.cipher import Cipher, check_size
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.postgres.address import Address, address_of
from callboard.runtime.log.postgres.checking import Wanted
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.leases import LeaseTables
from callboard.runtime.log.postgres.link import Link
from callboard.runtime.log.postgres.meta import prepare
from callboard.runtime.log.postgres.spending import SpendingTables
from callboard.runtime.log.postgres.store import Memory, PostgresStore
from callboard.runtime.log.postgres.tables import Standing
from callboard.runtime.log.postgres.thread import Worker
from callboard.runtime.log.postgres.together import Together
from callboard.runtime.log.protocol import GENESIS, Append, EventLog, Head, Stored
from callboard.runtime.log.session_rows import EVERY_SESSION, SessionQuery, SessionRow
from callboard.runtime.log.spending import BudgetLimit, SharedSpendingStore, Spending, Unlogged, UsageRow

T = TypeVar("T")


class PostgresLog(EventLog):
    """An `EventLog` on a PostgreSQL server. Makes its tables if they are missing.

    Parameters: see `open_log`.
    """

    def __init__(
        self, address: str | Address, key: bytes | None = None, *, encryption_key: bytes | None = None
    ) -> None:
        self.address = address_of(address) if isinstance(address, str) else address
        if encryption_key is not None:
            check_size(encryption_key)
        self._key, self._encryption_key = key, encryption_key
        self._hash_chain = HashChain(key)
        self._held: _Held | None = None
        self.worker = 0  # the number of the worker or runtime that uses it: its own leases are no obstacle

    def __repr__(self) -> str:
        return f"PostgresLog({str(self.address)!r})"

    def leases(self) -> Leases:
        """Return the leases of this log, over a connection of their own."""
        return Leases(self.address, self._key, encryption_key=self._encryption_key)

    async def open(self) -> None:
        if self._held is not None:
            raise MisuseError(f"{self.address} is open already")
        held = _Held(self.address, self._hash_chain)
        try:
            await held.writer.run(partial(held.prepare, self._encryption_key))
        except BaseException:
            held.stop()
            raise
        self._held = held
        held.on_abandon = weakref.finalize(self, held.abandon)

    async def close(self) -> None:
        """Write all queued batches and close the connections. Safe to call twice."""
        held, self._held = self._held, None
        if held is not None:
            await held.leave()

    async def create(self, session_id: str, created_ms: int, title: str, origin: bytes = GENESIS) -> int:
        return await self._write(lambda store: store.create(session_id, created_ms, title, origin))

    async def fork(
        self, session_id: str, created_ms: int, title: str, parent: str, base: int, own: Sequence[Event] = ()
    ) -> Head:
        return await self._run(lambda store: store.fork(session_id, created_ms, title, parent, base, own))

    async def take_over(self, session_id: str) -> tuple[int, Head]:
        return await self._open().other().taken.run(session_id)

    async def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        return await self._write(lambda store: store.append(batch))

    async def read(self, session_id: str, start: int = 1, limit: int = 10_000) -> list[Stored]:
        return await self._run(lambda store: store.read(session_id, start, limit))

    async def checked(self, session_id: str, after: Head | None = None, limit: int = 10_000) -> list[Stored]:
        return await self._open().other().checked.run(Wanted(session_id, after, limit))

    async def head(self, session_id: str) -> Head:
        # Behind the appends that were handed over before: after a cancelled one it says what became of it.
        return await self._write(lambda store: store.head(session_id))

    async def standings(self, known: Collection[tuple[str, int]]) -> dict[str, Standing | None]:
        """Return where those sessions stand that do not end at this seq, or are closed, in one statement.

        None for one that is unknown or deleted.
        """
        return await self._run(lambda store: store.tables.standings(known))

    async def owner(self, session_id: str) -> str:
        found = await self._open().other().owners.run(session_id)
        return "" if found is None or found[0] == self.worker else found[1]

    async def waiting_since(self, session_id: str) -> int:
        return await self._open().other().waiting.run(session_id)

    async def set_waiting(self, session_id: str, since_ms: int) -> None:
        await self._run(lambda store: store.set_waiting(session_id, since_ms))

    async def sessions(self, query: SessionQuery = EVERY_SESSION) -> list[SessionRow]:
        return await self._run(lambda store: store.sessions(query))

    async def usage(self, since_day: str = "") -> list[UsageRow]:
        return await self._run(lambda store: store.spending.usage(since_day))

    async def set_usage(self, session_id: str, charges: Sequence[Charge]) -> None:
        await self._run(lambda store: store.change_spending(lambda one: one.put_usage(session_id, charges)))

    @property
    def spending(self) -> SharedSpendingStore:
        return _Spending(self)

    async def delete(self, session_id: str, *, keep_forks: bool = False) -> int:
        return await self._run(lambda store: store.delete(session_id, keep_forks=keep_forks))

    async def purge(self) -> bool:
        return await self._run(lambda store: store.purge())

    async def vacuum(self, pages: int | None) -> int:
        held = self._open()
        left = await self._run(lambda store: store.vacuum(pages))
        held.size = await self._run(lambda store: store.measure())
        return left

    def size_bytes(self) -> int:
        """Return the size as it was measured last, and the bytes of the events since."""
        held = self._open()
        return held.size + held.memory.written

    def _open(self) -> "_Held":
        held = self._held
        if held is None:
            raise StoreFailed(f"{self.address} is not open; await open() first")
        if held.process != os.getpid():
            raise StoreLocked(
                f"{self.address} was opened in the process from which this one was forked; open it here again"
            )
        return held

    async def _write(self, work: Callable[[PostgresStore], T]) -> T:
        """Run a function on the thread of the appends."""
        held = self._open()
        return await held.writer.run(partial(work, held.store))

    async def _run(self, work: Callable[[PostgresStore], T]) -> T:
        """Run a function on the other thread."""
        other = self._open().other()
        return await other.worker.run(partial(work, other.store))


class _Spending(SharedSpendingStore):
    """The spending of budgets of an open log."""

    def __init__(self, log: PostgresLog) -> None:
        self._log = log

    async def read(self, scopes: Sequence[str] | None = None) -> Spending:
        return await self._look(lambda tables: tables.read(scopes))

    async def hand_over(
        self,
        session_id: str,
        epoch: int,
        held: Sequence[Reservation],
        lost: Sequence[Reservation],
        at_ms: int,
    ) -> list[Reservation]:
        handed = (session_id, epoch, held, lost, at_ms)
        run = self._log._run
        return await run(lambda store: store.change_spending(lambda tables: tables.hand_over(*handed)))

    async def unlogged(self) -> list[Unlogged]:
        return await self._look(lambda tables: tables.unlogged())

    async def reserve(self, reservation: Reservation, limits: Sequence[BudgetLimit]) -> bool:
        return await self._look(lambda tables: tables.reserve(reservation, limits))

    async def release(self, key: CallKey) -> None:
        await self._look(lambda tables: tables.release(key))

    async def now_ms(self) -> int:
        return await self._look(lambda tables: tables.now_ms())

    def _look(self, look: Callable[[SpendingTables], T]) -> Awaitable[T]:
        return self._log._run(lambda store: look(store.spending))


class _Other:
    """The thread of all but the appends, and the calls on it that are answered together."""

    def __init__(self, store: PostgresStore, hash_chain: HashChain) -> None:
        self.store, tables = store, store.tables
        self.worker = worker = Worker("callboard postgres")
        leases = LeaseTables(tables, None)
        self.owners: Together[str, tuple[int, str] | None] = Together(
            worker, lambda names: [*map(leases.owners(names).get, names)]
        )
        self.checked = Together(worker, partial(tables.checked, hash_chain))
        self.taken = Together(worker, store.take_over)
        self.waiting = Together(worker, tables.waiting_since)


class _Held:
    """Threads, connections and stores of an open log. Does not refer to the log, which may be collected."""

    def __init__(self, address: Address, hash_chain: HashChain) -> None:
        self.process = os.getpid()
        self.memory = Memory()
        self.size = 0
        self.on_abandon: weakref.finalize[[], PostgresLog] | None = None
        self._links = [Link(address)]
        self.writer = Worker("callboard postgres append")
        self._workers = [self.writer]
        self._other: _Other | None = None
        self._hash_chain = hash_chain
        self._cipher: Cipher | None = None
        self._stores: list[PostgresStore] = []

    @property
    def store(self) -> PostgresStore:
        """Return the store of the appends."""
        return self._stores[0]

    def prepare(self, encryption_key: bytes | None) -> None:
        """Open the log, on the thread of the appends."""
        self._cipher = prepare(self._links[0], self._hash_chain, encryption_key)
        self._stores.append(self._made(self._links[0]))
        self.size = self.store.measure()

    def _made(self, link: Link) -> PostgresStore:
        return PostgresStore(link, self._hash_chain, self._cipher, self.memory)

    def other(self) -> _Other:
        """Return the other thread, which connects when it is first used."""
        if self._other is None:
            self._links.append(Link(self._links[0].address))
            self._other = _Other(self._made(self._links[1]), self._hash_chain)
            self._workers.append(self._other.worker)
        return self._other

    async def leave(self) -> None:
        """Run the work that was handed over, then close the connections."""
        if self.on_abandon is not None:
            self.on_abandon.detach()
        for worker, link in zip(self._workers, self._links, strict=True):
            await worker.run(link.close)
        self.stop()

    def stop(self) -> None:
        """Queue the end of the threads. Does not wait."""
        for worker, link in zip(self._workers, self._links, strict=True):
            worker.stop(link.close)

    def abandon(self) -> None:
        """Leave without a loop: the log was collected, or the interpreter ends."""
        if self.process == os.getpid():
            self.stop()
            for worker in self._workers:
                worker.join()
