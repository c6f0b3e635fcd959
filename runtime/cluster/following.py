"""A log as a client follows it: the events of sessions that other processes write, and the results in them.

The truth is the log: it is asked for the events behind the last one, soon after the last ones and then less
often.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

from callboard.actors.protocol.client_messages import Ask, AskEnded, SessionClosed, TellEnded
from callboard.actors.protocol.errors import SessionNotFound, TellRefused
from callboard.actors.protocol.events import Event
from callboard.runtime.log.protocol import EventLog, Stored, event_of
from callboard.runtime.sessions.outcome import Outcome
from callboard.runtime.sessions.past_outcomes import past_outcome
from callboard.runtime.sessions.session_pages import PAGE

PAUSE_S: Final = 0.02  # before the log is asked again; twice as long each time, up to `PAUSE_S_MAX`
PAUSE_S_MAX: Final = 1.0


class FollowedLog:
    """Reads what others write. is_shared: says of a session without events whether one may still begin."""

    def __init__(self, log: EventLog, is_shared: Callable[[str], Awaitable[bool]]) -> None:
        self._log = log
        self._is_shared = is_shared

    async def events(self, session_id: str, start: int = 1) -> AsyncIterator[Event]:
        """Yield all events from a seq on, new ones as they are stored, until the session is closed.

        Waits for the first event of a session that no worker has opened yet. Raises SessionNotFound.
        """
        pause, is_closed = PAUSE_S, False
        while True:
            page = await self.page(session_id, start)
            for row in page:
                event = event_of(session_id, row)
                is_closed = isinstance(event.body, SessionClosed)
                start = event.seq + 1
                yield event
            if len(page) == PAGE:
                continue
            if is_closed:
                return
            pause = PAUSE_S if page else min(2 * pause, PAUSE_S_MAX)
            await asyncio.sleep(pause)

    async def page(self, session_id: str, start: int, limit: int = PAGE) -> Sequence[Stored]:
        """Return some events from a seq on; none of a session that waits for the worker that opens it."""
        try:
            return await self._log.read(session_id, start, limit)
        except SessionNotFound:
            if await self._is_shared(session_id):
                return ()
            raise

    async def heard(self, session_id: str, seq: int, name: str) -> int:
        """Wait until an agent reads words, and return its turn. Raises TellRefused."""
        async for event in self.events(session_id, seq):
            body = event.body
            if isinstance(body, TellEnded) and body.request_id == name:
                if body.status == "refused":
                    raise TellRefused(f"the message was not read: {body.detail}")
                return body.turn
        raise TellRefused(f"the message was not read: session {session_id} has ended")

    async def running_at(self, session_id: str, seq: int) -> str:
        """Return the request id of the ask that ran at an event; empty if none did."""
        running, start = "", 1
        while start <= seq and (page := await self.page(session_id, start, min(PAGE, seq + 1 - start))):
            for row in page:
                body = event_of(session_id, row).body
                if isinstance(body, Ask | AskEnded):
                    running = body.request_id if isinstance(body, Ask) else ""
            start += len(page)
        return running

    async def ended(self, session_id: str, seq: int, request_id: str) -> Outcome[Any]:
        """Wait for the end of an ask, which is behind this event."""
        async for event in self.events(session_id, max(1, seq)):
            body = event.body
            if isinstance(body, AskEnded) and body.request_id == request_id:
                found = await past_outcome(self._log, session_id, request_id, None)
                assert found is not None
                return found
        raise SessionNotFound(f"session {session_id} has ended without an outcome of {request_id!r:.100}")
