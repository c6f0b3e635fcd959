"""The event loop of `Runtime.run_sync` and of the command line: uvloop where it is installed.

`pip install callboard[uvloop]` installs it, `CALLBOARD_UVLOOP=0` turns it off. Programs that run a loop of
their own keep it: nothing here changes asyncio's policy.
"""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Final, TypeAlias, TypeVar

from callboard.actors.protocol.errors import InsideLoop

T = TypeVar("T")
LoopFactory: TypeAlias = Callable[[], asyncio.AbstractEventLoop]

SWITCH: Final = "CALLBOARD_UVLOOP"


def run(work: Coroutine[object, object, T]) -> T:
    """Run a coroutine to its end on a loop of its own, as `asyncio.run` does."""
    with runner() as own:
        return own.run(work)


def run_until_signal(work: Coroutine[object, object, T]) -> T:
    """Run a coroutine to its end, or cancel it at Ctrl-C (KeyboardInterrupt) or SIGTERM (SystemExit).

    A handler that the program has installed for SIGTERM stays.
    """
    is_mine = threading.current_thread() is threading.main_thread() and not _has_handler()
    came: list[int] = []

    async def guarded() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop() -> None:
            came.append(signal.SIGTERM)
            task.cancel()

        with contextlib.ExitStack() as stack:
            if is_mine:
                # Windows has no signals on the event loop.
                with contextlib.suppress(NotImplementedError):
                    loop.add_signal_handler(signal.SIGTERM, stop)
                    stack.callback(loop.remove_signal_handler, signal.SIGTERM)
            return await work

    try:
        return run(guarded())
    except asyncio.CancelledError:
        if came:
            raise SystemExit(128 + came[0]) from None
        raise


def _has_handler() -> bool:
    return signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL


def runner() -> asyncio.Runner:
    """Return a runner for several coroutines on one loop."""
    return asyncio.Runner(loop_factory=loop_factory())


def loop_factory() -> LoopFactory | None:
    """Return the factory of uvloop's loops; None, asyncio's own, if it is not installed or turned off."""
    if os.environ.get(SWITCH) == "0":
        return None
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    return new_event_loop


def refuse_inside_loop() -> None:
    """Refuse to block the thread of a running event loop. Raises InsideLoop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise InsideLoop("run_sync would block the running event loop; use `await runtime.run(...)` here")
