"""The removal of sessions from a log that has no other work to do."""

from typing import Final

from callboard.runtime.log.protocol import EventLog

_EVERY_PAGE: Final = 1 << 31  # more free pages than a file can have


async def erase(log: EventLog, session_id: str) -> int:
    """Delete a session, remove all of it, and make the file smaller. Return the number of its events."""
    count = await log.delete(session_id)
    while await log.purge():
        pass
    await log.vacuum(_EVERY_PAGE)
    return count
