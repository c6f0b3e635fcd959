"""Outcomes that are read from the log: of a session that is closed, or runs in another process."""

from collections.abc import AsyncIterator
from typing import TypeAlias

from callboard.runtime.log.protocol import EventLog, event_of
from callboard.runtime.sessions.ended_asks import AskReader, EndedAsk
from callboard.runtime.sessions.outcome import Outcome, outcome_of
from callboard.runtime.sessions.resuming import pages_from
from callboard.runtime.sessions.session_types import SessionTypes

Ended: TypeAlias = tuple[EndedAsk, tuple[int, str]]


async def past_outcome(
    log: EventLog, session_id: str, request_id: str | None, types: SessionTypes
) -> Outcome | None:
    """Return the outcome of an ask that has ended; None if none has ended with this id.

    request_id: None for the latest ask that ended. Raises SessionNotFound, CorruptLog, MissingType.
    """
    found: Ended | None = None
    async for ended in _ended(log, session_id):
        if request_id is None:
            found = ended
        elif ended[0].end.request_id == request_id:
            found = ended
            break  # the first end of an id counts
    return outcome_of(session_id, *found, types) if found else None


async def _ended(log: EventLog, session_id: str) -> AsyncIterator[Ended]:
    """Yield the asks that ended, each with the head of the log there."""
    reader = AskReader()
    async for page in pages_from(log, session_id, 1):
        for row in page:
            ask = reader.read(event_of(session_id, row))
            if ask is not None:
                yield ask, (row.seq, row.digest.hex())
