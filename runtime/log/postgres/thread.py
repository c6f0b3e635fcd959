"""A thread that runs the functions of one connection, one after the other.

A caller that is cancelled stops no function that was given to the thread: it runs whole.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, TypeVar

from callboard.runtime.log.thread_calls import answer

T = TypeVar("T")
LEAVE_TIMEOUT_S: Final = 10.0


class Worker:
    """The thread. It is a daemon, so that a program that forgets `close` ends."""

    def __init__(self, name: str) -> None:
        self._queue: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread = threading.Thread(target=_work, args=(self._queue,), name=name, daemon=True)
        self._thread.start()

    async def run(self, function: Callable[[], T]) -> T:
        """Run a function after all that were queued before, and return its result."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self.put(lambda: answer(loop, future, function))
        return await future

    def put(self, function: Callable[[], object]) -> None:
        """Queue a function that raises nothing. Does not wait."""
        self._queue.put(function)

    def stop(self, last: Callable[[], object]) -> None:
        """Queue the end: a last function, then the end of the thread. Does not wait."""
        self._queue.put(last)
        self._queue.put(None)

    def join(self) -> None:
        """Wait for the thread's end; on the thread itself, return at once."""
        if self._thread is not threading.current_thread():
            self._thread.join(LEAVE_TIMEOUT_S)


def _work(queue: "SimpleQueue[Callable[[], object] | None]") -> None:
    while (function := queue.get()) is not None:
        function()
        del function  # it may hold the log, which is to be collected while this thread waits
