"""Work under way for port requests: one task for each, so that it can be given up.

A deadline costs no timer of its own: most calls have the same limit, so they expire in the order in which
they began, and one timer for each limit, set for the first of them, is enough. Ten thousand calls in flight
keep the loop's heap of timers as small as one does.

A task that is cancelled before its first step never runs a line of its coroutine, so it could not even
answer. Such a request has certainly not started: `cancel` says so, and whoever asked answers instead.
"""

import asyncio
import inspect
import sys
from collections import deque
from collections.abc import Awaitable, Coroutine
from typing import Any, NamedTuple


class _Entry(NamedTuple):
    task: asyncio.Task[None]
    work: Coroutine[Any, Any, None]
    inner: Awaitable[Any]


class Tasks:
    """Tasks by the seq of their request."""

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}
        self._lines: dict[float, deque[tuple[float, int]]] = {}
        self._timers: dict[float, asyncio.TimerHandle] = {}
        self._expired: set[int] = set()

    def spawn(
        self, seq: int, work: Coroutine[Any, Any, None], inner: Awaitable[Any], limit_s: float | None = None
    ) -> None:
        """Run the work for a request; from Python 3.12 on, at once up to its first wait.

        inner: what the work awaits, to be closed if the work never starts. limit_s: seconds after which
        the work is cancelled and `has_expired`.
        """
        loop = asyncio.get_running_loop()
        if sys.version_info >= (3, 12):
            task = asyncio.Task(work, loop=loop, eager_start=True)
        else:
            task = loop.create_task(work)
        if not task.done():
            self._entries[seq] = _Entry(task, work, inner)
            task.add_done_callback(lambda done: self._entries.pop(seq, None))
            if limit_s is not None:
                self._queue(seq, limit_s, loop)

    def has_expired(self, seq: int) -> bool:
        """Whether it was cancelled because its time was over. Tells it once."""
        if seq in self._expired:
            self._expired.discard(seq)
            return True
        return False

    def _queue(self, seq: int, limit_s: float, loop: asyncio.AbstractEventLoop) -> None:
        line = self._lines.setdefault(limit_s, deque())
        line.append((loop.time() + limit_s, seq))
        if limit_s not in self._timers:
            self._timers[limit_s] = loop.call_at(line[0][0], self._expire, limit_s)
        elif len(line) > 64 + 2 * len(self._entries):  # mostly calls that ended long ago
            self._lines[limit_s] = deque(item for item in line if item[1] in self._entries)

    def _expire(self, limit_s: float) -> None:
        """Cancel those whose time is over, and wait for the next."""
        loop, line = asyncio.get_running_loop(), self._lines[limit_s]
        del self._timers[limit_s]
        while line and (line[0][1] not in self._entries or line[0][0] <= loop.time()):
            seq = line.popleft()[1]
            if seq in self._entries:
                self._expired.add(seq)
                self._entries[seq].task.cancel()
        if line:
            self._timers[limit_s] = loop.call_at(line[0][0], self._expire, limit_s)

    def cancel(self, seq: int) -> bool:
        """Give up what runs for a request; False if nothing does, or if it has not begun."""
        entry = self._entries.get(seq)
        return entry is not None and _cancelled(entry)

    async def aclose(self) -> None:
        """Give up all, and wait until it is over."""
        for timer in self._timers.values():
            timer.cancel()
        entries = list(self._entries.values())
        for entry in entries:
            _cancelled(entry)
        await asyncio.gather(*(entry.task for entry in entries), return_exceptions=True)


def _cancelled(entry: _Entry) -> bool:
    has_begun = inspect.getcoroutinestate(entry.work) != inspect.CORO_CREATED
    entry.task.cancel()
    if not has_begun and inspect.iscoroutine(entry.inner):
        entry.inner.close()
    return has_begun
