"""Work under way for port requests: one task for each, so that it can be given up."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any


class Tasks:
    """Tasks by the seq of their request."""

    def __init__(self) -> None:
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def spawn(self, seq: int, work: Coroutine[Any, Any, None]) -> None:
        """Run the work for a request; from Python 3.12 on, at once up to its first wait."""
        loop = asyncio.get_running_loop()
        if sys.version_info >= (3, 12):
            task = asyncio.Task(work, loop=loop, eager_start=True)
        else:
            task = loop.create_task(work)
        if not task.done():
            self._tasks[seq] = task
            task.add_done_callback(lambda done: self._tasks.pop(seq, None))

    def cancel(self, seq: int) -> bool:
        """Give up what runs for a request; False if nothing does."""
        task = self._tasks.get(seq)
        return task is not None and task.cancel()

    async def aclose(self) -> None:
        """Give up all, and wait until it is over."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
