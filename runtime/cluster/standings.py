"""The news of followed sessions: one statement for all followers of a client that ask at the same time.

A follower waits for news in its turn: soon after its last ones, and then after twice as long each time. Those
that wait for as long have their turn together, at the next multiple of it. The server names only the sessions
with news, so followers without any cost no wake-up of their tasks.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.postgres.tables import Standing

AT_ONCE_S: Final = 0.005  # in which the first questions of many followers are collected
PAUSE_S: Final = 0.02  # before the log is asked again; twice as long each time, up to `PAUSE_S_MAX`
PAUSE_S_MAX: Final = 1.0


@dataclass(slots=True)
class _Follower:
    session_id: str
    seq: int
    pause_s: float
    news: asyncio.Future[Standing | None]


class Standings:
    """Asks a log where sessions stand."""

    def __init__(self, log: PostgresLog) -> None:
        self._log = log
        self._turns: dict[float, list[_Follower]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def other_than(self, session_id: str, seq: int, pause_s: float = AT_ONCE_S) -> Standing | None:
        """Wait until a session ends at another event than this one, or is closed, and return where it stands.

        None for a session without a first event. pause_s: before the first question. Raises StoreError.
        """
        news: asyncio.Future[Standing | None] = asyncio.get_running_loop().create_future()
        self._wait(_Follower(session_id, seq, pause_s, news))
        return await news

    def _wait(self, follower: _Follower) -> None:
        loop = asyncio.get_running_loop()
        at = (loop.time() // follower.pause_s + 1) * follower.pause_s
        if at not in self._turns:
            self._turns[at] = []
            loop.call_at(at, self._begin, at)
        self._turns[at].append(follower)

    def _begin(self, at: float) -> None:
        followers = [one for one in self._turns.pop(at) if not one.news.done()]
        if followers:
            task = asyncio.get_running_loop().create_task(self._ask(followers))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _ask(self, followers: list[_Follower]) -> None:
        try:
            found = await self._log.standings({(one.session_id, one.seq) for one in followers})
        except Exception as error:
            for one in followers:
                if not one.news.done():
                    one.news.set_exception(error)
            return
        for one in followers:
            if one.news.done():  # cancelled meanwhile
                continue
            if one.session_id in found:
                one.news.set_result(found[one.session_id])
            else:
                one.pause_s = longer(one.pause_s)
                self._wait(one)


def longer(pause_s: float) -> float:
    """Return the pause after one without news."""
    return max(PAUSE_S, min(2 * pause_s, PAUSE_S_MAX))
