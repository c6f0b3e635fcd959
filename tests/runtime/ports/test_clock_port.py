"""Timers of a session, on a loop and a board whose clocks the test moves."""

import asyncio
from typing import Any, cast

import pytest

from callboard.actors.protocol.addresses import CLOCK, SUPERVISOR
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.port_messages import TimerFired
from callboard.runtime.ports.clock_port import ClockPort
from callboard.runtime.sessions.board import Board


class Handle:
    def __init__(self, after_s: float, call: tuple[Any, ...]) -> None:
        self.after_s, self.call, self.is_cancelled = after_s, call, False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """An event loop whose timers fire by hand. An alarm that was cancelled does not fire, as in asyncio."""

    def __init__(self) -> None:
        self.handles: list[Handle] = []

    def call_later(self, after_s: float, *call: Any) -> Handle:
        self.handles.append(Handle(after_s, call))
        return self.handles[-1]

    def fire(self, number: int = -1) -> None:
        handle = self.handles[number]
        if not handle.is_cancelled:
            handle.call[0](*handle.call[1:])


class Posts:
    now_ms = 10_000

    def __init__(self) -> None:
        self.made: list[tuple[str, int, tuple[Post, ...]]] = []

    def submit(self, sender: str, cause: int, posts: tuple[Post, ...]) -> None:
        self.made.append((sender, cause, posts))


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    made = Loop()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: made)
    return made


def port_on(board: Posts) -> ClockPort:
    return ClockPort(cast("Board", board))


@pytest.mark.parametrize(
    ("at", "after_ms", "left_s"), [(10_000, 500, 0.5), (9_800, 500, 0.3), (9_000, 500, 0.0), (10_200, 0, 0.2)]
)
def test_a_timer_has_the_time_that_is_left_from_its_event(
    loop: Loop, at: int, after_ms: int, left_s: float
) -> None:
    port_on(Posts()).arm(3, 7, at, after_ms)
    assert [one.after_s for one in loop.handles] == [left_s]


def test_a_timer_fires_once_in_the_name_of_its_request(loop: Loop) -> None:
    board = Posts()
    port = port_on(board)
    port.arm(3, 7, 10_000, 500)
    loop.fire()
    assert board.made == [(CLOCK, 7, (Post(SUPERVISOR, TimerFired(3)),))]
    port.disarm(3)
    assert not loop.handles[0].is_cancelled  # it was let go of when it fired


def test_a_timer_that_is_set_again_while_it_fires_can_be_forgotten(loop: Loop) -> None:
    board = Posts()
    port = port_on(board)
    board.submit = lambda *made: port.arm(3, 9, 10_000, 500)  # type: ignore[method-assign]  # replaced on purpose
    port.arm(3, 7, 10_000, 500)
    loop.fire()
    port.disarm(3)
    assert loop.handles[-1].is_cancelled


def test_a_timer_set_again_takes_the_place_of_the_one_before(loop: Loop) -> None:
    board = Posts()
    port = port_on(board)
    port.arm(3, 7, 10_000, 500)
    port.arm(3, 9, 10_000, 800)
    loop.fire(0)
    assert board.made == []
    loop.fire(1)
    assert [cause for _, cause, _ in board.made] == [9]


def test_a_timer_that_is_forgotten_does_not_fire_and_others_do(loop: Loop) -> None:
    board = Posts()
    port = port_on(board)
    port.arm(1, 7, 10_000, 500)
    port.arm(2, 8, 10_000, 500)
    port.disarm(1)
    port.disarm(99)
    loop.fire(0)
    loop.fire(1)
    assert [cause for _, cause, _ in board.made] == [8]


def test_no_timer_fires_after_the_end(loop: Loop) -> None:
    board = Posts()
    port = port_on(board)
    for timer in (1, 2, 3):
        port.arm(timer, timer, 10_000, 500)
    port.close()
    for number in range(3):
        loop.fire(number)
    assert board.made == []
    port.close()
