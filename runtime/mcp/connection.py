"""One connection to a server, owned by one task, as the SDK's scopes need it. Calls come from any task.

Only the session of the SDK is used: one call sends one request. Its `call_tool` may list the tools again,
and checks results against the server's output schema without a limit of time, so a call is sent with
`send_request`.
"""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import mcp.types as types
from mcp import Client, MCPError
from mcp.client.session import ClientSession, IncomingMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from callboard.runtime.mcp.content import refuse_request
from callboard.runtime.mcp.foreign_json import CURRENT, Answer, Sending
from callboard.runtime.mcp.http import http_server, sse_server
from callboard.runtime.mcp.options import Credentials, ServerOptions
from callboard.runtime.mcp.specs import ToolLists
from callboard.runtime.mcp.stdio import ServerOutput, child_process
from callboard.runtime.mcp.wire import Wire
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.output import describe

LIST_FRESH_S: Final = 10.0  # seconds after which a call looks at the list of tools again
TOOLS_LISTED_MAX: Final = 20_000
PAGES_MAX: Final = 1_000  # of a list; a page takes a millisecond or more
_END_S: Final = 8.0  # seconds: a child process has three times two to end
_RESULT: Final[TypeAdapter[types.CallToolResult | types.InputRequiredResult]] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)


class NotConnected(Exception):
    """A server that does not come, or does not list its tools; its text says why."""


class Connection:
    """A connection to a server. tools: as it listed them last, by name; a name listed twice is left out.

    credentials: the headers or variables that it was made with. in_flight: the calls that wait for an answer.
    on_change: called when the list has changed, or the server says so.
    """

    def __init__(
        self,
        server: ServerOptions,
        credentials: Credentials,
        on_change: Callable[[], object] = lambda: None,
    ) -> None:
        self._server = server
        self._on_change = on_change
        self.credentials = credentials
        self._output = ServerOutput()
        self._wire = Wire(ToolLists(server.label))
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
            start = self._start
            status = f"it answered with HTTP status {start.status}: " if start.status >= 400 else ""
            why = start.failure or f"{status}{describe(error)}"
            raise NotConnected(f"{why}{self._output.told()}") from error

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

    async def call(self, params: types.CallToolRequestParams, ctx: ToolContext, sending: Sending) -> Answer:
        """Send one call and return the server's answer. Raises what the SDK raises if none came."""

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            of = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
            ctx.progress(f"{message} ({of})" if message else of)

        session = self._ready.result()
        self.in_flight += 1
        token = CURRENT.set(sending)
        sending.has_left, sending.answer = self._is_in_process, None
        try:
            request = types.CallToolRequest(params=params)
            result = await session.send_request(request, _RESULT, progress_callback=on_progress)
        except Exception as error:
            return sending.answer or self._answer_of(error)
        else:
            return sending.answer or self._answer_in_process(result)
        finally:
            CURRENT.reset(token)
            self._wire.forget(sending)
            self.in_flight -= 1
            if self._is_unwanted:
                self.close()

    def _answer_of(self, error: Exception) -> Answer:
        """Return the answer of a server in this process that the SDK raised; raise any other error."""
        if not self._is_in_process or self.is_over:
            raise error
        if isinstance(error, MCPError):
            return Answer("error", error.error.model_dump(exclude_none=True))
        return Answer("unreadable", describe(error))

    def _answer_in_process(self, result: types.CallToolResult | types.InputRequiredResult) -> Answer:
        if not self._is_in_process:  # the SDK took the answer to another request for this one's
            raise ValueError("its answer came for another request")
        return Answer("result", result.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def current(self, name: str) -> types.Tool | None:
        """Return the tool as the server lists it now; None if it does not. Raises NotConnected."""
        await self.refresh(LIST_FRESH_S)
        return self.tools.get(name)

    async def refresh(self, after_s: float = math.inf) -> None:
        """List the tools again if the server says that they have changed, or after this time.

        Raises NotConnected.
        """
        if not self._is_changed and self._loop.time() <= self._listed_at + after_s:
            return
        listing = self._listing = self._listing or self._loop.create_task(self._list(self._ready.result()))
        try:
            await asyncio.shield(listing)
        except Exception as error:
            raise NotConnected(f"it does not list its tools: {describe(error)}{self.told()}") from error
        finally:
            if listing.done():
                self._listing = None

    @property
    def _is_in_process(self) -> bool:
        return not isinstance(self._server.server, str | tuple)

    # --- the task that owns it ----------------------------------------------------

    async def _own(self) -> None:
        CURRENT.set(self._start)
        try:
            callback = refuse_request if self._server.elicits else None  # given, it announces the capability
            async with Client(
                self._transport(),
                cache=None,
                message_handler=self._on_message,
                elicitation_callback=callback,
            ) as client:
                await self._list(client.session)
                self._ready.set_result(client.session)
                listening = self._loop.create_task(self._listen(client))
                try:
                    await self._closing.wait()
                finally:
                    listening.cancel()
                    await asyncio.wait([listening])
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
            case str(url) if server.transport == "sse":
                headers = self.credentials.headers
                return sse_server(url, headers, self._wire, server.auth, self._closing.set)
            case str(url):
                return http_server(url, self.credentials.headers, self._wire, server.auth)
            case tuple(command):
                child = child_process(command, self.credentials.env, server.cwd, self._output, self._wire)
                return self._until_its_end(child)
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
            if not cursor:
                break
            _refuse_endless(found, cursors, cursor)
            cursors.add(cursor)
        is_other = self._ready.done() and found != self.listed
        self._listed_at = self._loop.time()
        self.listed = found
        self.tools = _by_name(found)
        if is_other:
            self._on_change()

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._note_change()

    async def _listen(self, client: Client) -> None:
        """Hear of changes of the list, where the protocol has them as a stream."""
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        # Calls look at the list too, so a server without this stream, or one that is cut, is not a failure.
        with contextlib.suppress(Exception):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._note_change()

    def _note_change(self) -> None:
        self._is_changed = True
        self._on_change()


def _refuse_endless(found: list[types.Tool], seen: set[str | None], cursor: str) -> None:
    """Refuse a list whose next page is one too many. Raises ValueError."""
    if cursor in seen:
        raise ValueError("its list of tools does not end: it returned the same page twice")
    if len(found) > TOOLS_LISTED_MAX or len(seen) >= PAGES_MAX:
        most = f"{TOOLS_LISTED_MAX:,} tools or {PAGES_MAX:,} pages"
        raise ValueError(f"its list of tools does not end: it has more than {most}")


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
