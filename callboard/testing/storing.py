"""Events as a log: in memory for the tools of `callboard.replay`, or in a file."""

import asyncio
from collections.abc import Sequence

from callboard.actors.protocol.events import Event
from callboard.replay.recording import Recording
from callboard.replay.testing.sessions.scenario import START_MS
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Append, EventLog


def recording_of(events: Sequence[Event], session_id: str, title: str = "") -> Recording:
    """Return a recording of these events, in memory."""
    log = MemoryLog()
    store(log, events, session_id, title)
    return Recording.open(MemoryReader(log), session_id)


def store(log: EventLog, events: Sequence[Event], session_id: str, title: str = "") -> None:
    """Write a session to a log, which is opened and closed. Raises StoreError."""
    asyncio.run(_store(log, events, session_id, title))


async def _store(log: EventLog, events: Sequence[Event], session_id: str, title: str) -> None:
    await log.open()
    try:
        at = events[0].at if events else START_MS
        epoch = await log.create(session_id, at, title)
        (answer,) = await log.append([Append(session_id, 0, epoch, events)])
        if isinstance(answer, Exception):
            raise answer
    finally:
        await log.close()
