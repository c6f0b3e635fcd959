"""The leases of a log, over a connection of their own: no long read of the log delays a renewal."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from callboard.actors.protocol.errors import StoreFailed
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.postgres.address import Address, address_of
from callboard.runtime.log.postgres.leases import LeaseTables
from callboard.runtime.log.postgres.link import Link
from callboard.runtime.log.postgres.meta import prepare
from callboard.runtime.log.postgres.places import PlaceTables
from callboard.runtime.log.postgres.tables import Tables
from callboard.runtime.log.postgres.thread import Worker
from callboard.runtime.log.postgres.together import Together

T = TypeVar("T")


class Leases:
    """The workers and leases of a log. Use it as an async context manager. Parameters: see `open_log`."""

    def __init__(
        self, address: str | Address, key: bytes | None = None, *, encryption_key: bytes | None = None
    ) -> None:
        self.address = address_of(address) if isinstance(address, str) else address
        self._keys = (HashChain(key), encryption_key)
        self._link = Link(self.address)
        self._thread = Worker("callboard leases")
        self._tables: LeaseTables | None = None
        self._places: PlaceTables | None = None
        self._finishing: Together[tuple[int, str], bool] | None = None
        self.cipher: Cipher | None = None
        """The cipher of an encrypted log, once the log is open; else None."""

    @property
    def is_open(self) -> bool:
        """Return True between entering and leaving it."""
        return self._tables is not None

    async def __aenter__(self) -> "Leases":
        """Connect. Raises StoreError."""
        try:
            self._tables = tables = await self._thread.run(self._prepared)
        except BaseException:
            self._thread.stop(self._link.close)
            raise
        self._finishing = Together(self._thread, partial(self._finish, tables))
        return self

    def _prepared(self) -> LeaseTables:
        self.cipher = cipher = prepare(self._link, *self._keys)
        self._places = PlaceTables(Tables(self._link, cipher))
        return LeaseTables(Tables(self._link, cipher), cipher)

    async def __aexit__(self, *_: object) -> None:
        self._tables = self._finishing = None
        self._thread.stop(self._link.close)

    async def change(self, work: Callable[[LeaseTables], T]) -> T:
        """Run a function in a transaction. A cancelled caller does not stop it. Raises StoreError."""
        tables = self._tables
        if tables is None:  # its thread has ended, or has not connected
            raise self._not_open()
        return await self._thread.run(partial(self._link.transact, "changing leases", partial(work, tables)))

    async def finish(self, worker: int, session: str) -> bool:
        """Take a session out of those that workers share, if this worker still has it.

        Return False, and leave it as it is, while a command waits for it. Raises StoreError.
        """
        if self._finishing is None:
            raise self._not_open()
        return await self._finishing.run((worker, session))

    def _finish(self, tables: LeaseTables, ended: Sequence[tuple[int, str]]) -> list[bool]:
        return self._link.transact("changing leases", partial(tables.finish, ended))

    def _not_open(self) -> StoreFailed:
        return StoreFailed(f"the leases of {self.address} are not open; use `async with`")

    async def share(self, work: Callable[[PlaceTables], T]) -> T:
        """Run a function on the capacity of models, each statement for itself. Raises StoreError."""
        if self._tables is None or self._places is None:
            raise self._not_open()
        return await self._thread.run(partial(work, self._places))
