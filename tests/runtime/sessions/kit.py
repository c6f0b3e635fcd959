"""Sessions on a log in memory, each of which must verify."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from callboard.actors.protocol.limits import Limits
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import ScriptedModel
from callboard.runtime.runtime import Runtime


def run(
    body: Callable[[Runtime], Awaitable[None]],
    model: ScriptedModel,
    limits: Limits | None = None,
    **settings: Any,
) -> MemoryLog:
    """Run a test's body in a runtime on a memory log; every session in it must verify."""
    log = MemoryLog()

    async def inside() -> None:
        async with Runtime(log, model=model, limits=limits, **settings) as runtime:
            await body(runtime)

    asyncio.run(inside())
    reader = MemoryReader(log)
    for row in reader.sessions():
        found = Recording.open(reader, row.session_id).verify()
        assert found.is_ok, "\n".join(found.lines())
    return log
