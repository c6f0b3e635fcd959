"""Work for port requests that usually waits: one task for each request.

Most calls have the same time limit, so they expire in the order in which they began. One timer for each
limit, set for its first call, is enough: ten thousand calls in flight need one timer.

A task that is cancelled before its first step runs no line of its coroutine and cannot answer. Its request
has certainly not started. `cancel` returns False for it, and its caller answers instead.
"""

import asyncio
import inspect
import logging
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple

GRACE_S: Final = 5.0
"""Seconds that cancelled work has to end when its session closes."""

logger = logging.getLogger("callboard.ports")


class _Entry(NamedTuple):
    task: asyncio.Task[None]
    work: Coroutine[Any, Any, None]
    inner: Awaitable[Any]


class Tasks:
    """Tasks by the seq of their request.

    lost: gets the seq and the exception of work that gave no answer. expired: gets the seq and the limit in
    seconds of work whose time is over, before the work is cancelled. It answers in place of the work, which
    may ignore its cancellation.
    """

    def __init__(
        self,
        lost: Callable[[int, BaseException], None],
        expired: Callable[[int, float], None] | None = None,
    ) -> None:
        self._lost = lost
        self._expired = expired
        self._entries: dict[int, _Entry] = {}
        self._lines: dict[float, deque[tuple[float, int]]] = {}
        self._timers: dict[float, asyncio.TimerHandle] = {}

    def spawn(
        self,
        seq: int,
        work: Coroutine[Any, Any, None],
        inner: Awaitable[Any],
        limit_s: float | None = None,
    ) -> None:
        """Run the work for a request; from Python 3.12 on, at once up to its first wait.

        inner: the awaitable inside the work, closed if the work never starts. limit_s: seconds it may take.
        """
        loop = asyncio.get_running_loop()
        if sys.version_info >= (3, 12):
            task = asyncio.Task(work, loop=loop, eager_start=True)
        else:
            task = loop.create_task(work)
        if task.done():
            self._ended(seq, task)
            return
        self._entries[seq] = _Entry(task, work, inner)
        task.add_done_callback(partial(self._ended, seq))
        if limit_s is not None:
            self._queue(seq, limit_s, loop)

    def _ended(self, seq: int, task: "asyncio.Task[None]") -> None:
        self._entries.pop(seq, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._lost(seq, error)

    def _queue(self, seq: int, limit_s: float, loop: asyncio.AbstractEventLoop) -> None:
        line = self._lines.setdefault(limit_s, deque())
        line.append((loop.time() + limit_s, seq))
        if limit_s not in self._timers:
            self._timers[limit_s] = loop.call_at(line[0][0], self._expire, limit_s)
        elif len(line) > 64 + 2 * len(self._entries):  # mostly calls that ended long ago
            self._lines[limit_s] = deque(item for item in line if item[1] in self._entries)

    def _expire(self, limit_s: float) -> None:
        """Cancel the calls whose time is over and wait for the next."""
        loop, line = asyncio.get_running_loop(), self._lines[limit_s]
        del self._timers[limit_s]
        while line and (line[0][1] not in self._entries or line[0][0] <= loop.time()):
            seq = line.popleft()[1]
            entry = self._entries.get(seq)
            if entry is not None:
                if self._expired is not None:
                    self._expired(seq, limit_s)
                entry.task.cancel()
        if line:
            self._timers[limit_s] = loop.call_at(line[0][0], self._expire, limit_s)

    def cancel(self, seq: int) -> bool:
        """Cancel the work for a request. Return False for work that is missing or has not begun."""
        entry = self._entries.get(seq)
        return entry is not None and _cancelled(entry)

    async def aclose(self) -> None:
        """Cancel all work and wait for its end. Work that ignores the cancellation is left after a grace."""
        for timer in self._timers.values():
            timer.cancel()
        entries = list(self._entries.values())
        for entry in entries:
            _cancelled(entry)
        if entries:
            _, left = await asyncio.wait([entry.task for entry in entries], timeout=GRACE_S)
            for task in left:
                logger.warning("%r ignores that it was cancelled, and is left behind", task)


def _cancelled(entry: _Entry) -> bool:
    has_begun = inspect.getcoroutinestate(entry.work) != inspect.CORO_CREATED
    entry.task.cancel()
    if not has_begun:
        close_unawaited(entry.inner)
    return has_begun


def close_unawaited(work: Awaitable[Any]) -> None:
    """Close work that will never be awaited, if it can be closed, so that Python gives no warning."""
    close = getattr(work, "close", None)
    if callable(close):
        close()
