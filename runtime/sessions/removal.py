"""The removal of deleted sessions while others run: a step, then a rest, so that commits go in between."""

import asyncio
import logging
from typing import Final

from callboard.runtime.clock import monotonic_ms
from callboard.runtime.log.protocol import EventLog

# A commit waits for the step before it. With a rest as long as the step, a session of 200,000 events takes
# twice as long to remove, and half of all commits wait for no step at all.
REST_S_MIN: Final = 0.002
PAGES_PER_STEP: Final = 64  # half a mebibyte

logger = logging.getLogger("callboard.removal")


class Remover:
    """Removes deleted sessions of one log, in a task that ends when nothing is left."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, unless it is at work. Errors are logged: the next owner of the log goes on."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._remove(), name="callboard remover")

    async def finished(self) -> None:
        """Wait until nothing is left, or the removal has failed."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    async def aclose(self) -> None:
        """Stop after the present step. The rest is removed when the log is opened again."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def vacuum(self) -> int:
        """Give free pages back in steps. Return the number of bytes by which the log got smaller."""
        self.start()
        await self.finished()
        before, left = self._log.size_bytes(), -1
        while (now := await self._log.vacuum(PAGES_PER_STEP)) not in (
            0,
            left,
        ):  # a reader may hold pages back
            left = now
            await asyncio.sleep(REST_S_MIN)
        return max(0, before - self._log.size_bytes())

    async def _remove(self) -> None:
        try:
            while True:
                begun = monotonic_ms()
                if not await self._log.purge():
                    return
                await asyncio.sleep(max(REST_S_MIN, (monotonic_ms() - begun) / 1_000))
        except Exception:
            logger.exception("removing deleted sessions failed; the next start continues")
