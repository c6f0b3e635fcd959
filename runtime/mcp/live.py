"""An MCP server in one runtime: its connections, started when they are needed, and its tools.

Changes of a server's list of tools, told to the sessions that use it: each at most once in 10 seconds.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.profiles import ToolSpec
from callboard.runtime.mcp.calls import Caller, Place
from callboard.runtime.mcp.connection import Connection, NotConnected
from callboard.runtime.mcp.options import Credentials, ServerOptions
from callboard.runtime.mcp.specs import again, logger, specs_now, specs_of
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.output import describe
from callboard.runtime.tools.sources import LiveSource, Scope, ToolSource
from callboard.runtime.tools.tool import Tool

_DELAYS_S: Final = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)  # before the next start, after so many failures
_WAIT_S: Final = 2.0  # seconds that a call waits for such a start
TOLD_EVERY_S: Final = 10.0


class _Line:
    """The connections of one place, one after the other.

    failures: in a row. not_before: time of the loop before which no other starts.
    """

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.failures = 0
        self.not_before = 0.0


class LiveServer(LiveSource):
    """The connections and tools of one server in one runtime."""

    def __init__(self, server: ServerOptions) -> None:
        self.server = server
        self.label = server.label
        self.elicits = server.elicits
        self._lines: dict[Place, _Line] = {}
        self._leaving: set[Connection] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._changes = ListChanges(server, self._list_now)

    async def listed(self, scope: Scope) -> Sequence[Tool]:
        """Take the list of tools for a new session. Raises InvalidAgent."""
        server = self.server
        place = self._place(scope, "")
        try:
            connection = await self.connection(place, scope.deps())
            await connection.current("")
        except NotConnected as error:
            if server.is_optional:
                logger.warning("MCP server %r is left out: %s", server.label, error)
                return ()
            raise InvalidAgent(
                f"MCP server {server.label!r} cannot be used: {error}; "
                "start it, or correct it; optional=True opens sessions without its tools"
            ) from error
        specs = specs_of(server, connection.listed)
        if server.share == "agent":  # each agent gets its own
            self._end([place])
        return self._tools(specs, scope)

    def recorded(self, specs: Sequence[ToolSpec], scope: Scope) -> Sequence[Tool]:
        """Return the tools of a recorded list. The server starts with their first call."""
        return self._tools(again(self.server, specs), scope)

    def _tools(self, specs: Iterable[ToolSpec], scope: Scope) -> list[Tool]:
        specs = list(specs)
        self._changes.know(scope, specs)
        return [self._tool(spec, scope) for spec in specs]

    def _tool(self, spec: ToolSpec, scope: Scope) -> Tool:
        assert spec.origin is not None
        caller = Caller(self, spec, scope)

        async def call(arguments: dict[str, object], ctx: ToolContext) -> object:
            return await caller.call(arguments, ctx)

        return Tool(
            spec.name,
            spec.description,
            spec.input_schema,
            call,
            spec.effect,
            timeout_s=self.server.timeout_s,
            approval=spec.approval,
            origin=spec.origin,
            capabilities=spec.capabilities,
            labels=spec.labels,
        )

    # --- connections --------------------------------------------------------------

    def place_of(self, scope: Scope, ctx: ToolContext) -> Place:
        """Return the place whose connection a call uses."""
        return self._place(scope, ctx.address)

    def _place(self, scope: Scope, address: str) -> Place:
        share = self.server.share
        return (None if share == "runtime" else scope, address if share == "agent" else "")

    async def connection(self, place: Place, deps: object) -> Connection:
        """Return the connection of a place, and start it if necessary. Raises NotConnected."""
        line = self._lines.setdefault(place, _Line())
        credentials = self._credentials(place, deps)
        if not _serves(line.connection, credentials):
            await self._may_start(line)
        if not _serves(line.connection, credentials):  # another call may have started it meanwhile
            self._forget(line)
            line.connection = Connection(self.server, credentials, partial(self.changed, place))
        connection = line.connection
        assert connection is not None
        try:
            await connection.ready()
        except NotConnected:
            self.failed(place, connection)
            raise
        return connection

    def _credentials(self, place: Place, deps: object) -> Credentials:
        """Return the headers and variables for these deps, which are secrets. Raises NotConnected."""
        server, scope = self.server, place[0]
        try:
            found = server.credentials(deps)
            if scope is not None and server.is_of_deps:
                scope.learn(found.secrets())
        except Exception as error:
            raise NotConnected(f"its headers or env cannot be made: {describe(error)}") from error
        return found

    async def _may_start(self, line: _Line) -> None:
        left_s = line.not_before - asyncio.get_running_loop().time()
        if left_s > _WAIT_S:
            raise NotConnected(
                f"it failed {line.failures} times in a row and is tried again in {left_s:.0f} s"
            )
        if left_s > 0:
            await asyncio.sleep(left_s)

    def answered(self, place: Place) -> None:
        """Note that the server of a place works."""
        if line := self._lines.get(place):
            line.failures, line.not_before = 0, 0.0

    def failed(self, place: Place, connection: Connection) -> None:
        """Give a connection up. The next call of its place starts another, some time later."""
        line = self._lines.get(place)
        if line is None or line.connection is not connection:
            return
        self._forget(line)
        delay_s = _DELAYS_S[min(line.failures, len(_DELAYS_S) - 1)]
        line.failures += 1
        line.not_before = asyncio.get_running_loop().time() + delay_s

    def _forget(self, line: _Line) -> None:
        """Begin to end the connection of a line, when its calls are answered."""
        connection, line.connection = line.connection, None
        if connection is not None:
            connection.close()
            self._leaving.add(connection)
            connection.owner.add_done_callback(lambda _: self._leaving.discard(connection))

    def changed(self, place: Place) -> None:
        """Tell the sessions of a place of the tools that its server lists now."""
        self._changes.changed(place)

    async def _list_now(self, place: Place) -> Sequence[ToolSpec] | None:
        """Return the tools that the server of a place lists; None if there is no usable list."""
        line = self._lines.get(place)
        connection = line.connection if line else None
        if connection is None or connection.is_over:
            return None
        try:
            await connection.refresh()
            return specs_now(self.server, connection.listed)
        except (NotConnected, InvalidAgent) as error:
            logger.warning("the changed list of MCP server %r is not used: %s", self.label, error)
            return None

    def release(self, scope: Scope) -> None:
        """Begin to end the connections of a session."""
        self._changes.drop(scope)
        self._end([place for place in self._lines if place[0] is scope])

    def _end(self, places: Iterable[Place]) -> None:
        for place in list(places):
            line = self._lines.pop(place, None)  # two agents may list one source at the same time
            if line is not None and line.connection is not None:
                self._end_one(line.connection)

    def _end_one(self, connection: Connection) -> None:
        task = asyncio.get_running_loop().create_task(connection.ended())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def aclose(self) -> None:
        """End all connections, and wait for that."""
        self._changes.close()
        self._end(self._lines)
        for connection in list(self._leaving):
            self._end_one(connection)
        if self._ending:
            await asyncio.wait(self._ending)


def _serves(connection: Connection | None, credentials: Credentials) -> bool:
    """Return whether a connection goes on and has these headers and variables."""
    return connection is not None and not connection.is_over and connection.credentials == credentials


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
