"""Where followed sessions stand: asked for together, and each follower gets its own answer."""

import asyncio
from collections.abc import Collection, Mapping

import pytest

from callboard.actors.protocol.errors import StoreFailed
from callboard.runtime.cluster.standings import Standings
from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.postgres.tables import Standing
from tests.runtime.cluster.kit import run
from tests.runtime.log.postgres.places import OnServer


class Answering(PostgresLog):
    """A log whose answers a test gives."""

    def __init__(self) -> None:
        super().__init__("postgresql://app@db/agents")
        self.asked: list[set[tuple[str, int]]] = []
        self.was_asked = asyncio.Event()
        self.news: Mapping[str, Standing | None] = {}
        self.error: Exception | None = None

    async def standings(self, known: Collection[tuple[str, int]]) -> dict[str, Standing | None]:
        self.asked.append(set(known))
        self.was_asked.set()
        if self.error is not None:
            raise self.error
        return {name: self.news[name] for name, _ in known if name in self.news}


def test_all_that_have_their_turn_are_one_statement_and_only_news_wake_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene() -> None:
        log = Answering()
        standings = Standings(log)
        loop = asyncio.get_running_loop()
        with monkeypatch.context() as frozen:  # so that all have the same turn
            now = loop.time()
            frozen.setattr(loop, "time", lambda: now)
            waiting = [asyncio.create_task(standings.other_than(name, 3)) for name in ("a", "bb", "a", "no")]
            await asyncio.sleep(0)
        await log.was_asked.wait()
        assert log.asked[0] == {("a", 3), ("bb", 3), ("no", 3)}
        assert not any(one.done() for one in waiting)
        waiting[0].cancel()  # ends no other follower
        log.news = {"a": Standing(4, is_closed=False, epoch=1), "no": None}
        assert await waiting[2] == Standing(4, is_closed=False, epoch=1)
        assert await waiting[3] is None
        log.was_asked.clear()
        await log.was_asked.wait()
        assert log.asked[-1] == {("bb", 3)}
        assert not waiting[1].done()
        waiting[1].cancel()
        asked = len(log.asked)
        while standings._turns:  # noqa: ASYNC110  # it tells no one
            await asyncio.sleep(0.005)
        assert len(log.asked) == asked  # for readers that have left, nothing is asked

    run(scene)


def test_an_error_is_for_those_that_asked_and_not_for_the_next() -> None:
    async def scene() -> None:
        log = Answering()
        standings = Standings(log)
        log.error = StoreFailed("gone")
        both = (standings.other_than(name, 0) for name in ("a", "b"))
        for answer in await asyncio.gather(*both, return_exceptions=True):
            assert isinstance(answer, StoreFailed)
        log.error, log.news = None, {"a": Standing(1, is_closed=False, epoch=1)}
        assert await standings.other_than("a", 0) == Standing(1, is_closed=False, epoch=1)

    run(scene)


def test_the_server_names_only_the_sessions_with_news(place: OnServer) -> None:
    async def scene() -> None:
        log = place.log()
        await log.open()
        for name in ("a", "b"):
            await log.create(name, 1, "")
        asked = [("a", 0), ("b", 7), ("b", 1 << 70), ("unknown", 0), ("\0", 0)]
        new = Standing(0, is_closed=False, epoch=1)
        assert await log.standings(asked) == {"b": new, "unknown": None, "\0": None}
        assert await log.standings([]) == {}
        await log.close()

    asyncio.run(scene())
