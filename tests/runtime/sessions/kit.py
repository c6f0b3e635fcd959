"""Sessions on a log in memory and a virtual clock, each of which must verify."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from callboard.actors.protocol.limits import Limits
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import ScriptedModel
from callboard.runtime.runtime import Runtime
from tests.virtual_clock import run_virtually


def run(
    body: Callable[[Runtime], Awaitable[None]],
    model: ScriptedModel,
    limits: Limits | None = None,
    *,
    loop: Callable[[Coroutine[Any, Any, None]], object] = run_virtually,
    **settings: Any,
) -> MemoryLog:
    """Run a test's body in a runtime on a memory log; every session in it must verify.

    loop: runs it. Use `asyncio.run` where a process answers, for which the virtual clock does not wait.
    """
    log = MemoryLog()

    async def inside() -> None:
        async with Runtime(log, model=model, limits=limits, **settings) as runtime:
            await body(runtime)

    loop(inside())
    reader = MemoryReader(log)
    for row in reader.sessions():
        found = Recording.open(reader, row.session_id).verify()
        assert found.is_ok, "\n".join(found.lines())
    return log
