"""Wait in tests for something that other tasks, threads or processes do. The limit is for faults only."""

import asyncio
import time
from collections.abc import Callable

LIMIT_S = 60.0
STEP_S = 0.002


async def until(is_so: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Let other tasks run until it is so."""
    ends_at = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > ends_at:
            raise TimeoutError(f"it was not so within {limit_s} s")
        await asyncio.sleep(STEP_S)


def block_until(is_so: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Hold this thread until it is so."""
    ends_at = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > ends_at:
            raise TimeoutError(f"it was not so within {limit_s} s")
        time.sleep(STEP_S)
