"""Calls that an event loop gives to the thread of a store."""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import TypeVar

T = TypeVar("T")


def answer(loop: asyncio.AbstractEventLoop, future: "asyncio.Future[T]", function: Callable[[], T]) -> None:
    """Run the function and hand its result or exception to the loop, if that still runs."""
    settle: Callable[[], None]
    try:
        settle = partial(future.set_result, function())
    except BaseException as error:
        settle = partial(future.set_exception, error)
    with contextlib.suppress(RuntimeError):  # the loop is closed: the caller is gone
        loop.call_soon_threadsafe(lambda: None if future.done() else settle())
