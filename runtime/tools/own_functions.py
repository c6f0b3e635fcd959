"""Functions of the user that a session calls, such as those that make a context or a summary.

A plain function runs on a daemon thread, so that one that never returns holds up neither the session nor the
end of the program. An async one runs on the loop: it must not block it.
"""

import asyncio
import contextvars
import inspect
import types
from collections.abc import Callable
from typing import Final, TypeVar

from callboard.runtime.tools.execution import driven
from callboard.runtime.tools.threads import Job, Threads
from callboard.runtime.tools.tool import is_async

GRACE_S: Final = 1.0
"""Seconds that an async function has to end after it was cancelled."""

MAX_THREADS: Final = 8
"""Plain functions that run at a time; others wait, and their time runs."""

View = TypeVar("View")


class OwnFunctions:
    """Runs functions of one argument. name: of their threads."""

    def __init__(self, name: str) -> None:
        self._threads = Threads(MAX_THREADS, name)

    async def value(self, function: Callable[[View], object], view: View) -> object:
        """Call a function and return its value. Raises its exceptions."""
        return await (_on_loop if is_async(function) else self._on_thread)(function, view)

    def close(self) -> None:
        """End the threads once no function waits. Running functions go on."""
        self._threads.close()

    async def _on_thread(self, function: Callable[[View], object], view: View) -> object:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[object] = loop.create_future()
        context = contextvars.copy_context()

        def run() -> None:
            try:
                value: object = context.run(function, view)
            except BaseException as error:  # a SystemExit would end the thread without an answer
                raised = error if isinstance(error, Exception) else RuntimeError(repr(error))
                loop.call_soon_threadsafe(_fail, done, raised)
            else:
                loop.call_soon_threadsafe(_settle, done, value)  # nobody hears of a loop that is closed

        job = Job(run)
        self._threads.submit(job)
        try:
            return await done
        except asyncio.CancelledError:
            self._threads.give_up(job)
            raise


async def _on_loop(function: Callable[[View], object], view: View) -> object:
    """Run an async function. One that swallows its cancellation is closed after a grace."""
    value = function(view)
    if not isinstance(value, types.CoroutineType):
        return await value if inspect.isawaitable(value) else value
    try:
        waiting = value.send(None)
    except StopIteration as end:
        return end.value
    return await driven(value, waiting, lambda is_taken_back: None, GRACE_S)


def _settle(done: "asyncio.Future[object]", value: object) -> None:
    if not done.done():
        done.set_result(value)


def _fail(done: "asyncio.Future[object]", error: Exception) -> None:
    if not done.done():
        done.set_exception(error)
