"""Signs of life for readers that hear nothing: proxies close connections that are silent for long."""

from asyncio import AbstractEventLoop
from typing import Final

from callboard.runtime.scheduling.rounds import Rounds

KEEP_ALIVE_S: Final = 15.0  # seconds between two signs; the usual proxy waits 60

_known: dict[AbstractEventLoop, Rounds] = {}


def keep_alive_of(loop: AbstractEventLoop) -> Rounds:
    """Return the one timer for all readers of a loop."""
    found = _known.get(loop)
    if found is None:
        for closed in [known for known in _known if known.is_closed()]:
            del _known[closed]
        found = _known[loop] = Rounds(loop, KEEP_ALIVE_S)
    return found
