"""Work under way for port requests: one task for each, so that it can be given up.

A task that is cancelled before its first step never runs a line of its coroutine, so it could not even
answer. Such a request has certainly not started: `cancel` says so, and whoever asked answers instead.
"""

import asyncio
import inspect
import sys
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

    def spawn(self, seq: int, work: Coroutine[Any, Any, None], inner: Awaitable[Any]) -> None:
        """Run the work for a request; from Python 3.12 on, at once up to its first wait.

        inner: what the work awaits, to be closed if the work never starts.
        """
        loop = asyncio.get_running_loop()
        if sys.version_info >= (3, 12):
            task = asyncio.Task(work, loop=loop, eager_start=True)
        else:
            task = loop.create_task(work)
        if not task.done():
            self._entries[seq] = _Entry(task, work, inner)
            task.add_done_callback(lambda done: self._entries.pop(seq, None))

    def cancel(self, seq: int) -> bool:
        """Give up what runs for a request; False if nothing does, or if it has not begun."""
        entry = self._entries.get(seq)
        return entry is not None and _cancelled(entry)

    async def aclose(self) -> None:
        """Give up all, and wait until it is over."""
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
