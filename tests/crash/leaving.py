"""Polite ends of the program, after some milliseconds. Nothing kills it: it leaves its runtime.

polite: ctrl-c               SIGINT, as `asyncio.run` handles it
polite: sigterm              SIGTERM, with a handler that cancels the program's main task
polite: a task group fails   a task beside the asks raises
polite: the loop ends        the main function returns while the sessions run in another task
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

CTRL_C: Final = "polite: ctrl-c"
SIGTERM: Final = "polite: sigterm"
TASK_GROUP: Final = "polite: a task group fails"
LOOP_END: Final = "polite: the loop ends"
POLITE: Final = (CTRL_C, SIGTERM, TASK_GROUP, LOOP_END)

Main = Callable[[], Coroutine[Any, Any, None]]


class Fails(Exception):
    """The failure of a task."""


def run(main: Main, point: str, after_s: float) -> bool:
    """Run a program to its end, or leave it at its point. Return True if it was left."""
    is_left = False
    try:
        asyncio.run(_ENDS.get(point, _to_its_end)(main, after_s))
    except* (KeyboardInterrupt, asyncio.CancelledError, Fails, _Left):
        is_left = True
    return is_left


class _Left(Exception):
    """The main function has returned before the sessions ended."""


async def _to_its_end(main: Main, after_s: float) -> None:
    await main()


async def _interrupted(main: Main, after_s: float) -> None:
    asyncio.get_running_loop().call_later(after_s, os.kill, os.getpid(), signal.SIGINT)
    await main()


async def _terminated(main: Main, after_s: float) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    loop.call_later(after_s, os.kill, os.getpid(), signal.SIGTERM)
    try:
        await main()
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def _ends_early(main: Main, after_s: float) -> None:
    task = asyncio.ensure_future(main())
    await asyncio.wait([task], timeout=after_s)
    if not task.done():
        raise _Left
    await task


_ENDS: Final = {CTRL_C: _interrupted, SIGTERM: _terminated, LOOP_END: _ends_early}


async def beside(work: Awaitable[object], point: str, after_s: float) -> None:
    """Await the work; if the point says so, beside a task that fails."""
    if point != TASK_GROUP:
        await work
        return
    async with asyncio.TaskGroup() as group:
        failing = group.create_task(_fail(after_s))
        await work
        failing.cancel()


async def _fail(after_s: float) -> None:
    await asyncio.sleep(after_s)
    raise Fails
