"""Where followed sessions stand: one statement for all followers of a client that ask at a time.

Followers that wait for the same time wake together, because they wait for the next multiple of it. While a
statement is under way, the questions for the next one are collected.
"""

import asyncio

from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.postgres.tables import Standing


class Standings:
    """Asks a log where sessions stand."""

    def __init__(self, log: PostgresLog) -> None:
        self._log = log
        self._turn = asyncio.Lock()
        self._asked: set[str] = set()
        self._answer: asyncio.Task[dict[str, Standing]] | None = None

    async def of(self, session_id: str) -> Standing | None:
        """Return where a session stands; None for one without a first event. Raises StoreError."""
        self._asked.add(session_id)
        if self._answer is None:
            self._answer = asyncio.create_task(self._ask())
        return (await asyncio.shield(self._answer)).get(session_id)

    async def _ask(self) -> dict[str, Standing]:
        async with self._turn:
            asked, self._asked, self._answer = self._asked, set(), None
            return await self._log.standings(asked)


async def next_turn(pause_s: float) -> None:
    """Wait for the next multiple of so many seconds on the clock of the loop."""
    await asyncio.sleep(pause_s - asyncio.get_running_loop().time() % pause_s)
