"""The sessions of a runtime's log as a whole: listed, deleted, pruned.

The removal of deleted sessions while others run: a step, then a rest, so that commits go in between.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from callboard.actors.protocol.errors import HasForks, MisuseError, SessionBusy, SessionNotFound
from callboard.runtime.clock import monotonic_ms, now_ms
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.log.session_rows import (
    EVERY_SESSION,
    ForksChoice,
    SessionQuery,
    SessionRow,
    SessionStatus,
    whole_trees,
    with_forks,
)
from callboard.runtime.sessions.labels import checked_tag
from callboard.runtime.sessions.live_sessions import LiveSessions, refuse_owned

# A commit waits for the step before it. With a rest as long as the step, a session of 200,000 events takes
# twice as long to remove, and half of all commits wait for no step at all.
REST_S_MIN: Final = 0.002
PAGES_PER_STEP: Final = 64  # half a mebibyte

logger = logging.getLogger("callboard.removal")


class Remover:
    """Removes deleted sessions of one log, in a task that ends when nothing is left."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, unless it is at work. Errors are logged: the next owner of the log goes on."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._remove(), name="callboard remover")

    async def finished(self) -> None:
        """Wait until nothing is left, or the removal has failed."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    async def aclose(self) -> None:
        """Stop after the present step. The rest is removed when the log is opened again."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def vacuum(self) -> int:
        """Give free pages back in steps. Return the number of bytes by which the log got smaller."""
        self.start()
        await self.finished()
        before, left = self._log.size_bytes(), -1
        while (now := await self._log.vacuum(PAGES_PER_STEP)) not in (
            0,
            left,
        ):  # a reader may hold pages back
            left = now
            await asyncio.sleep(REST_S_MIN)
        return max(0, before - self._log.size_bytes())

    async def _remove(self) -> None:
        try:
            while True:
                begun = monotonic_ms()
                if not await self._log.purge():
                    return
                await asyncio.sleep(max(REST_S_MIN, (monotonic_ms() - begun) / 1_000))
        except Exception:
            logger.exception("removing deleted sessions failed; the next start continues")


PAGE: Final = 500


class SessionCatalog:
    """The sessions of one log. live: those that run in this process."""

    def __init__(self, log: EventLog, live: LiveSessions) -> None:
        self._log = log
        self._live = live
        self.remover = Remover(log)

    async def rows(self, query: SessionQuery) -> AsyncIterator[SessionRow]:
        """Yield the sessions of a query, newest first, page by page."""
        left, after = math.inf if query.limit is None else query.limit, query.after
        while left > 0:
            size = int(min(left, PAGE))
            page = await self._log.sessions(
                SessionQuery(query.status, query.tag, query.since_ms, after, size)
            )
            for row in page:
                yield row
            if len(page) < size:
                return
            left, after = left - size, page[-1].cursor

    async def elsewhere(self, status: SessionStatus) -> AsyncIterator[SessionRow]:
        """Yield the sessions of a status that do not run here."""
        async for row in self.rows(SessionQuery(status)):
            if row.session_id not in self._live:
                yield row

    async def delete(self, session_id: str, *, forks: ForksChoice = "refuse") -> int:
        """Delete a session that does not run here. Return the number of its events."""
        names = [session_id]
        if forks == "delete":
            names = with_forks(await self._log.sessions(), session_id)
        for name in names:  # all of them first, so that nothing is deleted if one runs
            self._refuse_live(name)
            await refuse_owned(self._log, name)
        return sum([await self._delete(name, keep_forks=forks == "keep") for name in names])

    def _refuse_live(self, session_id: str) -> None:
        if session_id in self._live:
            raise SessionBusy(
                f"session {session_id} runs here and is not deleted; end it first: `await session.close()`"
            )

    async def _delete(self, session_id: str, *, keep_forks: bool) -> int:
        with self._live.claim(session_id, steal=False) as failed:  # else a resume could write meanwhile
            if failed is not None:
                await failed.close()
            count = await self._log.delete(session_id, keep_forks=keep_forks)
        self._live.waiting.pop(session_id, None)
        self.remover.start()
        return count

    async def prune(
        self,
        older_than: timedelta,
        status: SessionStatus | Collection[SessionStatus] | None,
        tag: str | None,
    ) -> int:
        """Delete the sessions without an event since then, trees of forks as a whole. Return their number."""
        if not isinstance(older_than, timedelta):
            raise MisuseError(f"older_than={older_than!r}: use a timedelta, such as timedelta(days=30)")
        before_ms, count = time_ms(older_than), 0
        wanted = queries_of(status, None if tag is None else checked_tag(tag))

        def is_old(row: SessionRow) -> bool:
            is_wanted = any(query.has(row) for query in wanted)
            return is_wanted and last_use_ms(row) < before_ms and row.session_id not in self._live

        rows = [row async for row in self.rows(EVERY_SESSION)]
        for row in whole_trees(rows, is_old):
            with suppress(SessionNotFound, HasForks, SessionBusy):  # by another task or process meanwhile
                await self.delete(row.session_id)
                count += 1
        return count


def queries_of(
    status: SessionStatus | Collection[SessionStatus] | None, tag: str | None
) -> list[SessionQuery]:
    """Return a query for each status. Raises MisuseError for an unknown one."""
    several = [status] if status is None or isinstance(status, str) else status
    return [SessionQuery(one, tag) for one in several]


def last_use_ms(row: SessionRow) -> int:
    """Return the time of a session's last event, or of its creation."""
    return max(row.last_ms, row.created_ms)


def time_ms(when: datetime | timedelta) -> int:
    """Return a time in milliseconds since 1970 UTC. when: a time, or how long ago. Raises MisuseError."""
    if isinstance(when, timedelta):
        return now_ms() - round(when.total_seconds() * 1_000)
    if isinstance(when, datetime) and when.tzinfo is not None:
        return round(when.timestamp() * 1_000)
    raise MisuseError(f"{when!r}: use a timedelta (so long ago), or a datetime with its time zone")
