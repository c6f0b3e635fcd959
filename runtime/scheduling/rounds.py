"""Functions that are called every so often, all after the same time, from one timer.

None is set while there are no functions.
"""

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Final

_TOGETHER: Final = 60  # calls that are due within this part of the interval share a wake-up of the loop


class Rounds:
    """The functions of a loop that are called every `every_s` seconds, in the order in which they are due."""

    def __init__(self, loop: AbstractEventLoop, every_s: float) -> None:
        self._loop = loop
        self._every_s = every_s
        self._due: dict[Callable[[], None], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, function: Callable[[], None]) -> None:
        """Call this function every `every_s` from now on."""
        self._due.pop(function, None)
        self._due[function] = self._loop.time() + self._every_s
        if self._timer is None:
            self._timer = self._loop.call_at(self._due[function], self._fire)

    def remove(self, function: Callable[[], None]) -> None:
        """Call this function no more."""
        self._due.pop(function, None)
        if not self._due and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._due:
            function, at = next(iter(self._due.items()))
            if at > now + self._every_s / _TOGETHER:
                break
            del self._due[function]
            self._due[function] = now + self._every_s  # all have the same interval, so the order holds
            function()
        self._set_timer()

    def _set_timer(self) -> None:
        """Set the timer to the first function that is due. One may have been added meanwhile."""
        if self._timer is not None:
            self._timer.cancel()
        first = next(iter(self._due.values()), None)
        self._timer = None if first is None else self._loop.call_at(first, self._fire)
