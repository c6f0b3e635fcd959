"""The clock port: it fires timers, by the loop's monotonic clock."""

import asyncio

from callboard.actors.protocol.addresses import CLOCK, SUPERVISOR
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.port_messages import TimerFired
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.port_protocol import TimerPort


class ClockPort(TimerPort):
    """The timers of one session."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._handles: dict[int, asyncio.TimerHandle] = {}

    def arm(self, timer: int, request: int, at: int, after_ms: int) -> None:
        """Fire a timer `after_ms` after `at`, at once if that time is over."""
        self.disarm(timer)
        left = max(0, at + after_ms - self._board.now_ms)
        loop = asyncio.get_running_loop()
        self._handles[timer] = loop.call_later(left / 1_000, self._fire, timer, request)

    def disarm(self, timer: int) -> None:
        """Forget a timer."""
        handle = self._handles.pop(timer, None)
        if handle is not None:
            handle.cancel()

    def close(self) -> None:
        """Forget all timers."""
        for timer in list(self._handles):
            self.disarm(timer)

    def _fire(self, timer: int, request: int) -> None:
        self._handles.pop(timer, None)
        self._board.submit(CLOCK, request, (Post(SUPERVISOR, TimerFired(timer)),))
