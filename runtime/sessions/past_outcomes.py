"""Outcomes that are read from the log: of a session that is closed, or runs in another process."""

from collections.abc import AsyncIterator
from typing import TypeAlias

from callboard.actors.protocol.errors import UnknownName
from callboard.actors.protocol.near_names import near_names
from callboard.runtime.log.protocol import EventLog, event_of
from callboard.runtime.sessions.ended_asks import AskReader, EndedAsk
from callboard.runtime.sessions.outcome import Outcome, outcome_of
from callboard.runtime.sessions.session_pages import pages_from
from callboard.runtime.sessions.session_types import SessionTypes

Ended: TypeAlias = tuple[EndedAsk, tuple[int, str]]


async def past_outcome(
    log: EventLog, session_id: str, request_id: str | None, types: SessionTypes | None
) -> Outcome | None:
    """Return the outcome of an ask that has ended; None if it has not.

    request_id: None for the latest ask that ended. types: None for plain JSON values. Raises UnknownName for
    an id that no ask of the session has, SessionNotFound, CorruptLog, MissingType.
    """
    found: Ended | None = None
    reader = AskReader()
    async for ended in _ended(log, session_id, reader):
        if request_id is None:
            found = ended
        elif ended[0].end.request_id == request_id:
            found = ended
            break  # the first end of an id counts
    if found is None and request_id is not None and request_id not in reader.request_ids:
        raise UnknownName(
            f"session {session_id} has no ask with the request id {request_id!r:.80}"
            f"{near_names(request_id, reader.request_ids)}"
        )
    return outcome_of(session_id, *found, types) if found else None


async def _ended(log: EventLog, session_id: str, reader: AskReader) -> AsyncIterator[Ended]:
    """Yield the asks that ended, each with the head of the log there."""
    async for page in pages_from(log, session_id, 1):
        for row in page:
            ask = reader.read(event_of(session_id, row))
            if ask is not None:
                yield ask, (row.seq, row.digest.hex())
