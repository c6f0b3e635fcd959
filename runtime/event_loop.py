"""The event loop of `Runtime.run_sync` and of the command line: uvloop where it is installed.

`pip install callboard[uvloop]` installs it, `CALLBOARD_UVLOOP=0` turns it off. Programs that run a loop of
their own keep it: nothing here changes asyncio's policy.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")
LoopFactory: TypeAlias = Callable[[], asyncio.AbstractEventLoop]

SWITCH: Final = "CALLBOARD_UVLOOP"


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a loop of its own, as `asyncio.run` does."""
    with runner() as own:
        return own.run(work)


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
