"""Where the store under test keeps its log."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Protocol

from callboard.runtime.log.protocol import EventLog, LogReader


class StorePlace(Protocol):
    """One place, empty when a test begins. It outlives the objects that write and read there."""

    def log(self, key: bytes | None = None) -> EventLog:
        """Return the log there, not open yet. key: for its digests."""
        ...

    def reader(self) -> LogReader:
        """Return a reader of the log there, which was opened at least once."""
        ...

    def after_crash(self) -> "StorePlace | None":
        """Return the place as it would be if the writing process died now, without closing.
        Called while a log is open there. None for a store that dies with its process.
        """
        ...


@asynccontextmanager
async def opened(
    place: StorePlace, key: bytes | None = None, sessions: Iterable[str] = ()
) -> AsyncIterator[EventLog]:
    """Open the log there and make these sessions; close it at the end if the test has not."""
    log = place.log(key)
    await log.open()
    for name in sessions:
        await log.create(name, 1, "")
    yield log
    await log.close()
