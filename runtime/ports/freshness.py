"""The calls whose results this process may still give again, for reasons that no log shows.

    other deps       a result may depend on the object that its tool was given
    left threads     a tool with an effect that was given up may take it at any time, until its thread ends

Each answer that is given again is in the log, so that a replay needs none of this.
"""

from collections.abc import Callable

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallTool


class Freshness:
    """The first call whose result may be given again, for each call that asks for one."""

    def __init__(self) -> None:
        self._deps: object = None
        self._deps_since = 0
        self._left: list[Callable[[], bool]] = []
        self._left_since = 0

    def add(self, goes_on: Callable[[], bool]) -> None:
        """Add a function with an effect that runs behind its answer. goes_on: False once it has ended."""
        self._left.append(goes_on)

    def since(self, request: Event, deps: object) -> int:
        """Return the seq of the first call whose result may answer this request. deps: as of now."""
        call = request.body
        assert isinstance(call, CallTool)
        if deps is not self._deps:
            self._deps, self._deps_since = deps, request.seq
        if self._left:
            # One that has ended since took its effect after results that were read before now.
            self._left = [goes_on for goes_on in self._left if goes_on()]
            self._left_since = request.seq
        over_writes = call.cache is not None and call.cache.over_writes
        return self._deps_since if over_writes else max(self._deps_since, self._left_since)
