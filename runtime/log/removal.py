"""The removal of sessions from a log that has no other work to do."""

from typing import Final

from callboard.runtime.log.protocol import EventLog

_EVERY_PAGE: Final = 1 << 30  # more free pages than a file can have


async def erase(log: EventLog, *session_ids: str, keep_forks: bool = False) -> int:
    """Delete sessions, remove all of them, and make the file smaller. Return the number of their events."""
    count = 0
    for session_id in session_ids:
        count += await log.delete(session_id, keep_forks=keep_forks)
    await cut(log)
    return count


async def cut(log: EventLog) -> None:
    """Finish the removal of deleted sessions, and give the free space back."""
    while await log.purge():
        pass
    await log.vacuum(_EVERY_PAGE)
