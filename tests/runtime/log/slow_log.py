"""A log whose commits wait for the test, and a writer of it that must leave nothing behind."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Sequence
from unittest.mock import patch

from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.protocol import Append, Head
from callboard.runtime.log.writer import UNDURABLE_MAX, GroupWriter
from tests.runtime.log.kit import run


class SlowLog(MemoryLog):
    """A log whose commits take place when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[tuple[str, list[int]]]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None

    async def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        self.batches.append([(part.session_id, [one.seq for one in part.events]) for part in batch])
        await self.gate.wait()
        error, self.error = self.error, None
        if error is not None:
            raise error
        return await super().append(batch)


def with_writer(
    work: Callable[[GroupWriter, SlowLog], Awaitable[None]], undurable_max: int = UNDURABLE_MAX
) -> None:
    """Run a test on a writer of a slow log with sessions a, b and c; nothing may be left over."""

    async def prepared() -> None:
        loop = asyncio.get_running_loop()
        complaints: list[object] = []
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        log = SlowLog()
        await log.open()
        for name in "abc":
            await log.create(name, 1, "")
        writer = GroupWriter(log)
        with patch("callboard.runtime.log.writer.UNDURABLE_MAX", undurable_max):
            await work(writer, log)
        log.gate.set()
        await writer.aclose()
        assert writer.undurable == 0
        assert len(asyncio.all_tasks()) == 1
        gc.collect(1)
        await asyncio.sleep(0)
        assert not complaints

    run(prepared)


async def room_in(writer: GroupWriter) -> None:
    """Wait until the writer has room."""
    has_room = asyncio.Event()
    writer.when_room(has_room.set)
    await has_room.wait()


async def passes(count: int = 1) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
