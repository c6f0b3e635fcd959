"""The news of followed sessions: one statement for all followers of a client that ask at the same time.

A follower waits for news in its turn: soon after its last ones, and then after twice as long each time. Those
that wait for as long have their turn together, at the next multiple of it. A notification gives its session
the next turn. The server names only the sessions with news, so followers without any cost no wake-up of
their tasks.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.postgres.tables import Standing

AT_ONCE_S: Final = 0.005  # in which the first questions of many followers are collected
PAUSE_S: Final = 0.02  # before the log is asked again; twice as long each time, up to `PAUSE_S_MAX`
PAUSE_S_MAX: Final = 1.0
CALM_S: Final = 5.0  # the longest pause of a session whose owner sends notifications


@dataclass(slots=True, eq=False)
class _Follower:
    """at: the time of its turn; 0 while the server is asked. is_due: news came while it was."""

    session_id: str
    seq: int
    pause_s: float
    news: asyncio.Future[Standing | None]
    at: float = 0
    is_due: bool = False


class Standings:
    """Asks a log where sessions stand. pause_max_s: says for how long a session may be left unasked."""

    def __init__(
        self, log: PostgresLog, pause_max_s: Callable[[str], float] = lambda name: PAUSE_S_MAX
    ) -> None:
        self._log, self._pause_max_s = log, pause_max_s
        self._turns: dict[float, list[_Follower]] = {}
        self._waiting: defaultdict[str, set[_Follower]] = defaultdict(set)
        self._tasks: set[asyncio.Task[None]] = set()

    async def other_than(self, session_id: str, seq: int, pause_s: float = AT_ONCE_S) -> Standing | None:
        """Wait until a session ends at another event than this one, or is closed, and return where it stands.

        None for a session without a first event. pause_s: before the first question. Raises StoreError.
        """
        news: asyncio.Future[Standing | None] = asyncio.get_running_loop().create_future()
        follower = _Follower(session_id, seq, pause_s, news)
        self._waiting[session_id].add(follower)
        self._wait(follower)
        try:
            return await news
        finally:
            self._waiting[session_id].discard(follower)
            if not self._waiting[session_id]:
                del self._waiting[session_id]

    def wake(self, session_id: str) -> None:
        """Ask about a session at once, because it may have news."""
        for one in self._waiting.get(session_id, ()):
            one.is_due = True
            if one.at:
                self._wait(one)

    def _wait(self, follower: _Follower) -> None:
        loop = asyncio.get_running_loop()
        pause_s = AT_ONCE_S if follower.is_due else follower.pause_s
        follower.is_due = False
        at = follower.at = (loop.time() // pause_s + 1) * pause_s
        if at not in self._turns:
            self._turns[at] = []
            loop.call_at(at, self._begin, at)
        self._turns[at].append(follower)

    def _begin(self, at: float) -> None:
        # Those that were woken have had another turn.
        turn = dict.fromkeys(self._turns.pop(at))
        followers = [one for one in turn if one.at == at and not one.news.done()]
        for one in followers:
            one.at = 0
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
                one.pause_s = longer(one.pause_s, self._pause_max_s(one.session_id))
                self._wait(one)


def longer(pause_s: float, pause_max_s: float) -> float:
    """Return the pause after one without news."""
    return max(PAUSE_S, min(2 * pause_s, pause_max_s))
