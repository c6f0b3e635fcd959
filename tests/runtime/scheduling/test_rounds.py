"""Functions that are called every so often: one timer for all, none without functions."""

from collections.abc import Callable

import pytest

from callboard.runtime.scheduling.rounds import Rounds

EVERY_S = 15.0


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


def test_every_function_is_called_in_each_interval_from_one_timer(clock: Clock) -> None:
    timer, signs = Rounds(clock, EVERY_S), [0] * 1_000  # type: ignore[arg-type]  # a fake clock

    def sign(place: int) -> None:
        signs[place] += 1

    for place in range(1_000):
        timer.add(lambda place=place: sign(place))  # type: ignore[misc]  # mypy infers no type of a lambda with a default
        clock.go(0.001)
        assert len(clock.timers) == 1
    clock.go(4 * EVERY_S)
    assert set(signs) == {4}
    assert clock.fired < 30
    assert len(clock.timers) == 1


def test_without_functions_no_timer_is_set(clock: Clock) -> None:
    timer, said = Rounds(clock, EVERY_S), []  # type: ignore[arg-type]  # a fake clock
    first, second = (lambda: said.append(1)), (lambda: said.append(2))
    timer.add(first)
    timer.add(second)
    timer.remove(first)
    clock.go(EVERY_S)
    assert said == [2]
    timer.remove(second)
    assert clock.timers == []
    timer.remove(second)
    timer.add(first)
    clock.go(EVERY_S)
    assert said == [2, 1]


def test_a_function_that_is_added_again_waits_the_whole_time_and_may_remove_itself(clock: Clock) -> None:
    rounds, called = Rounds(clock, EVERY_S), []  # type: ignore[arg-type]  # a fake clock

    def once() -> None:
        called.append(clock.now)
        rounds.remove(once)

    rounds.add(once)
    rounds.add(lambda: None)
    clock.go(10)
    rounds.add(once)
    clock.go(60)
    assert called == [25]
    assert len(clock.timers) == 1


def test_a_function_that_is_added_by_another_is_called_in_its_turn(clock: Clock) -> None:
    rounds, called = Rounds(clock, EVERY_S), []  # type: ignore[arg-type]  # a fake clock

    def second() -> None:
        called.append(("second", clock.now))

    def first() -> None:
        called.append(("first", clock.now))
        rounds.remove(first)
        rounds.add(second)

    rounds.add(first)
    clock.go(31)
    assert called == [("first", 15), ("second", 30)]
    assert len(clock.timers) == 1
