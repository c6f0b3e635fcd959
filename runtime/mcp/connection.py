"""One connection to a server, owned by one task, as the SDK's scopes need it. Calls come from any task.

Only the session of the SDK is used: one call sends one request. Its `call_tool` may list the tools again,
and checks results against the server's output schema without a limit of time, so a call is sent with
`send_request`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import mcp.types as types
from mcp import Client
from mcp.client.session import ClientSession, IncomingMessage
from pydantic import TypeAdapter

from callboard.runtime.mcp.http import http_server
from callboard.runtime.mcp.options import ServerOptions
from callboard.runtime.mcp.sending import CURRENT, Sending
from callboard.runtime.mcp.stdio import ServerOutput, child_process
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.output import describe

LIST_FRESH_S: Final = 10.0  # seconds after which a call looks at the list of tools again
TOOLS_LISTED_MAX: Final = 20_000
_END_S: Final = 8.0  # seconds: a child process has three times two to end
_RESULT: Final[TypeAdapter[types.CallToolResult | types.InputRequiredResult]] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)


class NotConnected(Exception):
    """A server that does not come, or does not list its tools; its text says why."""


class Connection:
    """A connection to a server. tools: as it listed them last, by name; a name listed twice is left out.

    in_flight: the calls that wait for an answer.
    """

    def __init__(self, server: ServerOptions) -> None:
        self._server = server
        self._output = ServerOutput()
        self._start = Sending()  # of the requests that no call makes
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[ClientSession] = self._loop.create_future()
        self._listing: asyncio.Task[None] | None = None
        self._listed_at = 0.0
        self._is_changed = False
        self._is_unwanted = False
        self.tools: dict[str, types.Tool] = {}
        self.listed: list[types.Tool] = []
        self.in_flight = 0
        self.owner = self._loop.create_task(self._own(), name=f"mcp {server.label}")

    @property
    def is_over(self) -> bool:
        """Return whether no call can be sent any more."""
        return self._closing.is_set() or self.owner.done()

    async def ready(self) -> None:
        """Wait until the server is there and has listed its tools. Raises NotConnected."""
        limit_s = self._server.start_timeout_s
        done, _ = await asyncio.wait([self._ready], timeout=limit_s)
        if not done:
            self.close()
            self.owner.cancel()
            raise NotConnected(f"it did not answer within {limit_s:g} s{self._output.told()}")
        error = self._ready.exception()
        if error is not None:
            raise NotConnected(f"{self._start.failure or describe(error)}{self._output.told()}") from error

    def close(self) -> None:
        """Begin to end the connection: at once, or when its last call is answered."""
        self._is_unwanted = True
        if not self.in_flight:
            self._closing.set()

    async def ended(self) -> None:
        """Wait until the connection has ended."""
        self._closing.set()
        _, left = await asyncio.wait([self.owner], timeout=_END_S)
        for task in left:
            task.cancel()
            await asyncio.wait([task])

    def told(self) -> str:
        """Return what an error says of the server's output."""
        return self._output.told()

    # --- calls --------------------------------------------------------------------

    async def call(
        self, name: str, arguments: dict[str, Any], ctx: ToolContext, sending: Sending
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Send one call and return its answer. Raises MCPError and what else the SDK raises."""

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            of = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
            ctx.progress(f"{message} ({of})" if message else of)

        session = self._ready.result()
        params = types.CallToolRequestParams(name=name, arguments=arguments)
        self.in_flight += 1
        token = CURRENT.set(sending)
        try:
            sending.has_left = self._is_in_process
            return await session.send_request(
                types.CallToolRequest(params=params), _RESULT, progress_callback=on_progress
            )
        finally:
            CURRENT.reset(token)
            self.in_flight -= 1
            if self._is_unwanted:
                self.close()

    async def current(self, name: str) -> types.Tool | None:
        """Return the tool as the server lists it now; None if it does not. Raises NotConnected."""
        if self._is_changed or self._loop.time() > self._listed_at + LIST_FRESH_S:
            if self._listing is None:
                self._listing = self._loop.create_task(self._list(self._ready.result()))
            listing = self._listing
            try:
                await asyncio.shield(listing)
            except Exception as error:
                raise NotConnected(f"it does not list its tools: {describe(error)}{self.told()}") from error
            finally:
                if listing.done():
                    self._listing = None
        return self.tools.get(name)

    @property
    def _is_in_process(self) -> bool:
        return not isinstance(self._server.server, str | tuple)

    # --- the task that owns it ----------------------------------------------------

    async def _own(self) -> None:
        CURRENT.set(self._start)
        try:
            async with Client(self._transport(), cache=None, message_handler=self._on_message) as client:
                await self._list(client.session)
                self._ready.set_result(client.session)
                await self._closing.wait()
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(_innermost(error))
                self._ready.exception()  # marks it as seen: its waiter may have left
            if not isinstance(error, Exception | asyncio.CancelledError):
                raise
        finally:
            self._closing.set()

    def _transport(self) -> Any:
        server = self._server
        match server.server:
            case str(url):
                return http_server(url, server.headers)
            case tuple(command):
                return self._until_its_end(child_process(command, server.env, server.cwd, self._output))
            case in_process:
                return in_process

    @contextlib.asynccontextmanager
    async def _until_its_end(self, child: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        """Yield the streams of a child process, and end the connection when it ends by itself."""
        async with child as (receive, write, ended):
            ended.add_done_callback(lambda _: self._closing.set())
            yield receive, write

    async def _list(self, session: ClientSession) -> None:
        """Take the list of tools, page by page."""
        self._is_changed = False
        found: list[types.Tool] = []
        cursors: set[str | None] = {None}
        cursor: str | None = None
        while True:
            page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            found += page.tools
            cursor = page.next_cursor
            if len(found) > TOOLS_LISTED_MAX or (cursor and cursor in cursors):
                why = (
                    f"more than {TOOLS_LISTED_MAX:,} tools"
                    if len(found) > TOOLS_LISTED_MAX
                    else "a page twice"
                )
                raise ValueError(f"its list of tools does not end: it has {why}")
            if not cursor:
                break
            cursors.add(cursor)
        self._listed_at = self._loop.time()
        self.listed = found
        self.tools = _by_name(found)

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._is_changed = True


def _by_name(tools: list[types.Tool]) -> dict[str, types.Tool]:
    found: dict[str, types.Tool] = {}
    twice: set[str] = set()
    for tool in tools:
        if found.setdefault(tool.name, tool) != tool:
            twice.add(tool.name)
    return {name: tool for name, tool in found.items() if name not in twice}


def _innermost(error: BaseException) -> Exception:
    """Return the first error of a group; a cancellation as an error."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, Exception) else NotConnected("the connection was ended")
