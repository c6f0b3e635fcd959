"""Where followed sessions stand: asked for together, and each follower gets its own answer."""

import asyncio
from collections.abc import Iterable

import pytest

from callboard.actors.protocol.errors import StoreFailed
from callboard.runtime.cluster.standings import Standings, next_turn
from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.postgres.tables import Standing


class Answering(PostgresLog):
    """A log whose answers a test lets go."""

    def __init__(self) -> None:
        super().__init__("postgresql://app@db/agents")
        self.asked: list[set[str]] = []
        self.goes = asyncio.Event()
        self.error: Exception | None = None

    async def standings(self, session_ids: Iterable[str]) -> dict[str, Standing]:
        self.asked.append(set(session_ids))
        await self.goes.wait()
        if self.error is not None:
            raise self.error
        return {name: Standing(len(name), is_closed=False) for name in self.asked[-1] if name != "unknown"}


def test_all_that_ask_at_a_time_are_one_statement_and_the_rest_is_the_next() -> None:
    async def scene() -> None:
        log = Answering()
        standings = Standings(log)
        names = ["a", "bb", "a", "unknown"]
        first = [asyncio.create_task(standings.of(name)) for name in names]
        await asyncio.sleep(0.01)
        second = [asyncio.create_task(standings.of(name)) for name in ("a", "ccc")]
        await asyncio.sleep(0.01)
        assert log.asked == [{"a", "bb", "unknown"}]
        first[0].cancel()  # ends no other follower
        log.goes.set()
        assert [one and one.head for one in await asyncio.gather(*first[1:])] == [2, 1, None]
        assert [one and one.head for one in await asyncio.gather(*second)] == [1, 3]
        assert log.asked[1:] == [{"a", "ccc"}]

    asyncio.run(scene())


def test_an_error_is_for_those_that_asked_and_not_for_the_next() -> None:
    async def scene() -> None:
        log = Answering()
        log.goes.set()
        standings = Standings(log)
        log.error = StoreFailed("gone")
        for answer in await asyncio.gather(*map(standings.of, ("a", "b")), return_exceptions=True):
            assert isinstance(answer, StoreFailed)
        log.error = None
        assert await standings.of("a") == Standing(1, is_closed=False)

    asyncio.run(scene())


@pytest.mark.parametrize("pause", [0.02, 0.04])
def test_those_that_wait_for_as_long_wake_together(pause: float) -> None:
    async def woken(delay: float) -> float:
        await asyncio.sleep(delay)
        await next_turn(pause)
        return asyncio.get_running_loop().time() // pause

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time() // pause
        found = await asyncio.gather(*(woken(pause * part / 8) for part in range(4)))
        assert all(turn > begun for turn in found)

    asyncio.run(scene())
