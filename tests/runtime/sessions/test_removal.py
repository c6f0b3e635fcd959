"""The remover beside live sessions: it rests, stops when told, and outlives a failure."""

import asyncio
import logging

import pytest

from callboard.actors.protocol.errors import StoreFailed
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.sessions import removal
from callboard.runtime.sessions.removal import Remover


class Steps(MemoryLog):
    """A log with so many steps left to remove and so many pages to give back."""

    def __init__(self, steps: int, pages: int = 0, fails_at: int = -1) -> None:
        super().__init__()
        self.steps = steps
        self.pages = pages
        self.fails_at = fails_at
        self.asked: list[int | None] = []

    async def purge(self) -> bool:
        await asyncio.sleep(0)
        self.steps -= 1
        if self.steps == self.fails_at:
            raise StoreFailed("the disk is full")
        return self.steps > 0

    async def vacuum(self, pages: int | None) -> int:
        assert self.steps <= 0
        assert pages
        self.asked.append(pages)
        self.pages = max(0, self.pages - pages)
        return self.pages

    def size_bytes(self) -> int:
        return 8_192 * self.pages


def test_it_goes_on_until_nothing_is_left_and_begins_again() -> None:
    async def scene() -> None:
        log = Steps(5)
        remover = Remover(log)
        await remover.finished()
        for steps in (5, 3):
            log.steps = steps
            remover.start()
            remover.start()
            await remover.finished()
            assert log.steps == 0
        await remover.aclose()
        await remover.aclose()

    asyncio.run(scene())


def test_it_stops_after_the_present_step() -> None:
    async def scene() -> None:
        log = Steps(1_000)
        remover = Remover(log)
        remover.start()
        await asyncio.sleep(0.02)
        task = remover._task
        assert task is not None
        await remover.aclose()
        assert task.cancelled()
        assert task.get_name() == "callboard remover"
        assert remover._task is None
        left = log.steps
        assert 0 < left < 1_000
        await asyncio.sleep(0.01)
        assert log.steps == left

    asyncio.run(scene())


def test_a_failure_is_logged_and_the_next_start_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        log = Steps(5, fails_at=3)
        remover = Remover(log)
        remover.start()
        await remover.finished()
        assert log.steps == 3
        remover.start()
        await remover.finished()
        assert log.steps == 0

    with caplog.at_level(logging.ERROR, "callboard.removal"):
        asyncio.run(scene())
    assert "the disk is full" in caplog.text


def test_space_is_given_back_in_steps_once_all_is_removed() -> None:
    async def scene() -> int:
        return await Remover(Steps(3, pages=200)).vacuum()

    assert asyncio.run(scene()) == 200 * 8_192


def test_pages_that_a_reader_holds_do_not_keep_it_busy() -> None:
    class Held(Steps):
        async def vacuum(self, pages: int | None) -> int:
            return self.pages

    async def scene() -> int:
        return await asyncio.wait_for(Remover(Held(0, pages=9)).vacuum(), 5)

    assert asyncio.run(scene()) == 0


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the rests that are made from now on, in seconds; each takes one pass of the loop."""
    made: list[float] = []
    sleep = asyncio.sleep

    async def rest(delay: float) -> None:
        if delay:
            made.append(delay)
        await sleep(0)

    monkeypatch.setattr("callboard.runtime.sessions.removal.asyncio.sleep", rest)
    return made


def test_it_rests_as_long_as_the_step_took_but_never_less_than_two_milliseconds(
    rests: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0, 7, 100, 101, 200])
    monkeypatch.setattr(removal, "monotonic_ms", lambda: next(times))

    async def scene() -> None:
        remover = Remover(Steps(3))
        remover.start()
        await remover.finished()

    asyncio.run(scene())
    assert rests == [0.007, 0.002]


def test_pages_are_given_back_half_a_mebibyte_at_a_time_with_a_rest_between(rests: list[float]) -> None:
    log = Steps(0, pages=200)
    assert asyncio.run(Remover(log).vacuum()) == 200 * 8_192
    assert log.asked == [64] * 4
    assert rests == [0.002] * 3


def test_a_log_that_grew_meanwhile_got_smaller_by_nothing() -> None:
    class Growing(Steps):
        def size_bytes(self) -> int:
            return 100 + len(self.asked)

    assert asyncio.run(Remover(Growing(0)).vacuum()) == 0
