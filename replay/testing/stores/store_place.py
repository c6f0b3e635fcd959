"""Where the store under test keeps its log."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from callboard.runtime.log.protocol import EventLog, LogReader


class StorePlace(Protocol):
    """One place, empty when a test begins. It outlives the objects that write and read there."""

    def log(self, key: bytes | None = None) -> EventLog:
        """The log there, not open yet. key: what digests are computed under."""
        ...

    def reader(self) -> LogReader:
        """A reader of the log there, which was opened at least once."""
        ...

    def after_crash(self) -> "StorePlace | None":
        """The place as it would be found if the writing process died at this moment, without closing.

        Called while a log is open there. None for a store that dies with its process.
        """
        ...


@asynccontextmanager
async def opened(place: StorePlace, key: bytes | None = None) -> AsyncIterator[EventLog]:
    """The log, open, and closed at the end if the test got there."""
    log = place.log(key)
    await log.open()
    yield log
    await log.close()
