"""Synchronous functions of a graph that wait for an answer: a node that calls `model.invoke`, or a tool.

The framework runs such a function by `run_in_executor`. Here it runs in a greenlet, in the step: where it
waits, the greenlet is left, and the program goes on with something else. It is entered again with the answer.
So there is one thread, and the order is that of the loop.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import TypeVar

from greenlet import greenlet

from callboard.runtime.brains.common import Latch

T = TypeVar("T")


class Waiting:
    """Runs the functions of one run. loop: of the program."""

    def __init__(self, loop: asyncio.AbstractEventLoop, latch: Latch) -> None:
        self._loop = loop
        self._latch = latch

    def runs_function(self, function: Callable[[], object], future: "asyncio.Future[object]") -> None:
        """Run a function, now as far as it gets without an answer."""

        def main() -> None:
            try:
                found = function()
            except asyncio.CancelledError:
                future.cancel()
            except Exception as error:
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(found)

        one = greenlet(main)
        one.gr_context = contextvars.copy_context()
        self._enter(one, future, None)

    def _enter(
        self, one: greenlet, future: "asyncio.Future[object]", done: "asyncio.Task[object] | None"
    ) -> None:
        work = one.switch(done) if done is not None else one.switch()
        if one.dead:
            return
        task = self._loop.create_task(work, context=one.gr_context.copy())
        future.add_done_callback(lambda given_up: task.cancel() if given_up.cancelled() else None)
        task.add_done_callback(lambda done: self._enter(one, future, done))

    def now(self, work: Coroutine[object, None, T]) -> T:
        """Do asynchronous work in a function that is run here, and return its result.

        Raises MisuseError in an async function, which cannot be left.
        """
        outer = greenlet.getcurrent().parent
        if outer is None:
            work.close()
            raise self._latch.refuse(
                "an async function, or one on a thread, calls a chat model or a tool synchronously: write "
                "`await ....ainvoke(...)`"
            )
        done: asyncio.Task[T] = outer.switch(work)
        return done.result()
