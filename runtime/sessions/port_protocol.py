"""Ports as the board of a live session sees them."""

import asyncio
from typing import Protocol

from callboard.actors.protocol.events import Event


class Port(Protocol):
    """An edge to the world: acts on requests and answers each once, through `Board.answer`."""

    def start(self, request: Event) -> None:
        """Act on a request. The log is as durable as the request needs."""

    def abort(self, request: Event) -> bool:
        """Give up the work for a request; its answer still comes. Return False if it never started."""

    def detach(self) -> None:
        """Post the answers that a polite end of the process owes; other requests stay open."""

    @property
    def running(self) -> "set[asyncio.Task[object]]":
        """Return the tasks that work on requests and may answer by themselves."""

    async def aclose(self) -> None:
        """Give up everything, without answers."""


class TimerPort:
    """The clock port. This base class never fires a timer, so its methods have nothing to do."""

    def arm(self, timer: int, request: int, at: int, after_ms: int) -> None:
        """Fire a timer `after_ms` after `at`. Here, do nothing: no timer ever fires."""

    def disarm(self, timer: int) -> None:
        """Forget a timer. Here, do nothing: none was kept."""

    def close(self) -> None:
        """Forget all timers. Here, do nothing: none was kept."""
