"""Changes of a server's list of tools, told to the sessions that use it: each at most once in 10 seconds."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from callboard.actors.protocol.profiles import ToolSpec
from callboard.runtime.mcp.calls import Place
from callboard.runtime.tools.sources import Scope, ToolSource

TOLD_EVERY_S: Final = 10.0


class _Told:
    """The list as a session knows it.

    names: of the tools that the server listed for it last. not_before: time of the loop before which it is
    told of no other list. task: tells it; None if none is to be told.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)
        self.not_before = 0.0
        self.task: asyncio.Task[None] | None = None


class ListChanges:
    """The sessions of one source. read: returns the tools that a server lists now; None without an answer."""

    def __init__(
        self, source: ToolSource, read: Callable[[Place], Awaitable[Sequence[ToolSpec] | None]]
    ) -> None:
        self._source = source
        self._read = read
        self._told: WeakKeyDictionary[Scope, _Told] = WeakKeyDictionary()

    def know(self, scope: Scope, specs: Iterable[ToolSpec]) -> None:
        """Note the tools that a session has of the source."""
        names = {spec.name for spec in specs}
        told = self._told.setdefault(scope, _Told(()))
        told.names |= names

    def changed(self, place: Place) -> None:
        """Tell the sessions of a place soon that the list has changed."""
        for scope in [place[0]] if place[0] else list(self._told):
            told = self._told.get(scope)
            if told is not None and told.task is None and scope.tell is not None:
                told.task = asyncio.get_running_loop().create_task(self._tell(scope, told, place))

    def drop(self, scope: Scope) -> None:
        """Tell a session nothing more, until its source is used again."""
        told = self._told.get(scope)
        if told is not None and told.task is not None:
            told.task.cancel()
            told.task = None

    def close(self) -> None:
        """Tell nothing more to any session."""
        for scope in list(self._told):
            self.drop(scope)

    async def _tell(self, scope: Scope, told: _Told, place: Place) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, told.not_before - loop.time()))
        told.not_before = loop.time() + TOLD_EVERY_S
        told.task = None  # a change that comes while the list is read is told later
        now = await self._read(place)
        if now is not None and scope.tell is not None:
            scope.tell(self._source, told.names, now)
            told.names = frozenset(spec.name for spec in now)
