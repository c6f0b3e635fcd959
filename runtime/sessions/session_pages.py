"""The rows of a session, read from its log page by page, checked or as they are."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from callboard.runtime.log.protocol import EventLog, Head, Stored

PAGE: Final = 2_000


async def pages_from(log: EventLog, session_id: str, start: int) -> AsyncIterator[list[Stored]]:
    """Yield the rows of a session from a seq on, in pages. Raises SessionNotFound, CorruptLog, StoreError."""
    while page := await log.read(session_id, start, PAGE):
        yield page
        if len(page) < PAGE:
            return
        start += len(page)


async def checked_rows(log: EventLog, session_id: str) -> list[Stored]:
    """Return all rows of a session, whose digests were recomputed. Raises as `pages_from`."""
    rows: list[Stored] = []
    while page := await log.checked(session_id, head_of(rows), PAGE):
        rows += page
        if len(page) < PAGE:
            break
    return rows


def head_of(rows: Sequence[Stored]) -> Head | None:
    """Return the head behind rows that were read; None without one."""
    return Head(rows[-1].seq, rows[-1].digest) if rows else None
