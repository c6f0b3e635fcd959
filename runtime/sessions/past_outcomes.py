"""Outcomes that are read from the log: of a session that is closed, or runs in another process."""

from callboard.runtime.log.protocol import EventLog, event_of
from callboard.runtime.sessions.ended_asks import AskReader, EndedAsk
from callboard.runtime.sessions.outcome import Outcome, outcome_of
from callboard.runtime.sessions.resuming import pages_from
from callboard.runtime.sessions.session_types import SessionTypes


async def past_outcome(
    log: EventLog, session_id: str, request_id: str | None, types: SessionTypes
) -> Outcome | None:
    """Return the outcome of an ask that has ended; None if none has ended with this id.

    request_id: None for the latest ask that ended. Raises SessionNotFound, CorruptLog, MissingType.
    """
    reader = AskReader()
    found: tuple[EndedAsk, tuple[int, str]] | None = None
    async for page in pages_from(log, session_id, 1):
        for row in page:
            ask = reader.read(event_of(session_id, row))
            if ask is not None and request_id in (None, ask.end.request_id):
                found = ask, (row.seq, row.digest.hex())
            if found is not None and request_id is not None:  # the first end of an id counts
                return outcome_of(session_id, *found, types)
    return outcome_of(session_id, *found, types) if found is not None else None
