"""Sessions that a command began or resumed: no caller holds them, so each is closed after its last ask."""

import asyncio
import contextlib

from callboard.actors.protocol.errors import CallboardError
from callboard.runtime.sessions.session import Session


class AttendedSessions:
    """The tasks that wait for the ends of such sessions. A task ends with its session, or its detach."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself keeps no task alive

    def attend(self, session: Session) -> None:
        """Close a session once none of its asks is left."""
        task = asyncio.get_running_loop().create_task(_closed_after(session))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _closed_after(session: Session) -> None:
    # The session reports its own failures, and a detached one goes on in the next process.
    with contextlib.suppress(CallboardError):
        await session.outcome
        while session._has_asks:
            await session.outcome
        await session.close()
