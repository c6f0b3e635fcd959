"""Signs of life: one timer for all, none without readers."""

import asyncio
from collections.abc import Callable

import pytest

from callboard.runtime.sessions.keep_alive import KEEP_ALIVE_S, KeepAlive, keep_alive_of


class Clock:
    """A loop of which only the clock is used. timers: those that are set, as (time, callback)."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.fired = 0

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, callback: Callable[[], None]) -> "Handle":
        self.timers.append((at, callback))
        return Handle(self, (at, callback))

    def go(self, seconds: float) -> None:
        end = self.now + seconds
        while self.timers and self.timers[0][0] <= end:
            at, callback = self.timers.pop(0)
            self.now = at
            self.fired += 1
            callback()
        self.now = end


class Handle:
    """A timer that can be cancelled."""

    def __init__(self, clock: Clock, timer: tuple[float, Callable[[], None]]) -> None:
        self.clock, self.timer = clock, timer

    def cancel(self) -> None:
        self.clock.timers.remove(self.timer)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_every_reader_gets_a_sign_in_each_interval_from_one_timer(clock: Clock) -> None:
    timer, signs = KeepAlive(clock), [0] * 1_000  # type: ignore[arg-type]

    def sign(place: int) -> None:
        signs[place] += 1

    for place in range(1_000):
        timer.add(lambda place=place: sign(place))  # type: ignore[misc]
        clock.go(0.001)
        assert len(clock.timers) == 1
    clock.go(4 * KEEP_ALIVE_S)
    assert set(signs) == {4}
    assert clock.fired < 30
    assert len(clock.timers) == 1


def test_without_readers_no_timer_is_set(clock: Clock) -> None:
    timer, said = KeepAlive(clock), []  # type: ignore[arg-type]
    first, second = (lambda: said.append(1)), (lambda: said.append(2))
    timer.add(first)
    timer.add(second)
    timer.remove(first)
    clock.go(KEEP_ALIVE_S)
    assert said == [2]
    timer.remove(second)
    timer.remove(second)
    assert clock.timers == []
    timer.add(first)
    clock.go(KEEP_ALIVE_S)
    assert said == [2, 1]


def test_a_loop_has_one_timer_and_closed_loops_are_forgotten() -> None:
    async def main() -> KeepAlive:
        loop = asyncio.get_running_loop()
        assert keep_alive_of(loop) is keep_alive_of(loop)
        return keep_alive_of(loop)

    first = asyncio.run(main())
    assert asyncio.run(main()) is not first
