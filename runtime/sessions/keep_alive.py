"""Signs of life for readers that hear nothing: proxies close connections that are silent for long.

One timer for all readers of a loop, and none while there are no readers.
"""

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Final

KEEP_ALIVE_S: Final = 15.0  # seconds between two signs; the usual proxy waits 60
_TOGETHER_S: Final = 0.25  # signs that are due within this time share a wake-up of the loop

_known: dict[AbstractEventLoop, "KeepAlive"] = {}


class KeepAlive:
    """The readers of a loop, by their function that gives a sign, in the order in which they are due."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._due: dict[Callable[[], None], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, sign: Callable[[], None]) -> None:
        """Call this function every `KEEP_ALIVE_S` from now on."""
        self._due[sign] = self._loop.time() + KEEP_ALIVE_S
        if self._timer is None:
            self._timer = self._loop.call_at(self._due[sign], self._fire)

    def remove(self, sign: Callable[[], None]) -> None:
        """Call this function no more."""
        self._due.pop(sign, None)
        if not self._due and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._due:
            sign, at = next(iter(self._due.items()))
            if at > now + _TOGETHER_S:
                self._timer = self._loop.call_at(at, self._fire)
                return
            del self._due[sign]
            self._due[sign] = now + KEEP_ALIVE_S  # all have the same interval, so the order holds
            sign()


def keep_alive_of(loop: AbstractEventLoop) -> KeepAlive:
    """Return the one timer of a loop."""
    found = _known.get(loop)
    if found is None:
        for closed in [known for known in _known if known.is_closed()]:
            del _known[closed]
        found = _known[loop] = KeepAlive(loop)
    return found
