"""Act as soon as the process is told to stop, before the server does: it waits for its open streams."""

import signal
from collections.abc import Callable
from types import FrameType


def at_signals(act: Callable[[], None]) -> None:
    """Call `act` at SIGTERM and Ctrl-C, and then the handlers that are there now, which are the server's."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _first(act, signal.getsignal(number)))


def _first(act: Callable[[], None], then: object) -> Callable[[int, FrameType | None], None]:
    def stop(number: int, frame: FrameType | None) -> None:
        act()
        if callable(then):
            then(number, frame)

    return stop
