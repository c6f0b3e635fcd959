"""Polite ends of the program, after some milliseconds. Nothing kills it: it leaves its runtime.

polite: ctrl-c               SIGINT, as `asyncio.run` handles it
polite: sigterm              SIGTERM, with a handler that cancels the program's main task
polite: uvicorn              SIGTERM, as uvicorn handles it; the lifespan of its app holds the runtime
polite: a task group fails   a task beside the asks raises
polite: the loop ends        the main function returns while the sessions run in another task
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from types import FrameType
from typing import Final, NoReturn

CTRL_C: Final = "polite: ctrl-c"
SIGTERM: Final = "polite: sigterm"
UVICORN: Final = "polite: uvicorn"
TASK_GROUP: Final = "polite: a task group fails"
LOOP_END: Final = "polite: the loop ends"
POLITE: Final = (CTRL_C, SIGTERM, UVICORN, TASK_GROUP, LOOP_END)

SERVED: Final = "tests.crash.served"
"""The module with the server. It is imported when it is used: a new interpreter needs 0.3 s for it."""

Program = Callable[[], AbstractAsyncContextManager[Awaitable[object]]]
"""Opens the runtime and begins the work of the sessions. Its end leaves the runtime."""


class Fails(Exception):
    """The failure of a task."""


class _Left(Exception):
    """The program has left before its sessions ended."""


def run(program: Program, point: str, after_s: float) -> bool:
    """Run a program to its end, or leave it at its point. Return True if it was left."""
    is_left = False
    try:
        asyncio.run(_ENDS.get(point, _to_its_end)(program, after_s))
    except* (KeyboardInterrupt, asyncio.CancelledError, Fails, _Left):
        is_left = True
    return is_left


async def _to_its_end(program: Program, after_s: float) -> None:
    async with program() as work:
        await work


async def _interrupted(program: Program, after_s: float) -> None:
    asyncio.get_running_loop().call_later(after_s, os.kill, os.getpid(), signal.SIGINT)
    await _to_its_end(program, after_s)


async def _terminated(program: Program, after_s: float) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    loop.call_later(after_s, os.kill, os.getpid(), signal.SIGTERM)
    try:
        await _to_its_end(program, after_s)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def _served(program: Program, after_s: float) -> None:
    signal.signal(signal.SIGTERM, _leave)  # the server raises the signal again after its own end
    await import_module(SERVED).Served(program, after_s).serve()


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    raise _Left


async def _beside_a_failure(program: Program, after_s: float) -> None:
    async with program() as work, asyncio.TaskGroup() as group:
        failing = group.create_task(_fail(after_s))
        await work
        failing.cancel()


async def _fail(after_s: float) -> None:
    await asyncio.sleep(after_s)
    raise Fails


async def _ends_early(program: Program, after_s: float) -> None:
    task = asyncio.ensure_future(_to_its_end(program, after_s))
    await asyncio.wait([task], timeout=after_s)
    if not task.done():
        raise _Left
    await task


_ENDS: Final = {
    CTRL_C: _interrupted,
    SIGTERM: _terminated,
    UVICORN: _served,
    TASK_GROUP: _beside_a_failure,
    LOOP_END: _ends_early,
}
