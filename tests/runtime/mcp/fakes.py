"""A server whose bytes a test writes, over both transports, without a process and without a port."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anyio
import httpx2
import pytest
from mcp.shared.message import SessionMessage

from callboard import MCPServer, ToolContext
from callboard.actors.protocol.errors import ToolInterrupted
from callboard.actors.protocol.immutable import Json
from callboard.errors import ToolError
from callboard.runtime.mcp import connection, http, stdio
from callboard.runtime.mcp.live import LiveServer
from callboard.runtime.tools.sources import Scope

TOOL = {"name": "find", "inputSchema": {"type": "object"}}

Answer = Callable[[int], bytes]
"""Returns the bytes that answer the call of this id."""


class Peer:
    """A server that answers all but calls as it should. calls: how many it got.

    page: of its list. ends: it ends after the answer to a call.
    """

    def __init__(self, answer: Answer, *, page: Any = None, ends: bool = False) -> None:
        self.answer = answer
        self.page = {"tools": [TOOL]} if page is None else page
        self.ends = ends
        self.calls = 0

    def says(self, message: dict[str, Any]) -> bytes:
        """Return the bytes for a message; empty for one that has no answer."""
        if "id" not in message:
            return b""
        if message["method"] == "tools/call":
            self.calls += 1
            return self.answer(message["id"])
        result: Any = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "raw", "version": "1"}
        if message["method"] == "tools/list":
            result = self.page
        if message["method"] == "server/discover":
            return line({"id": message["id"], "error": {"code": -32601, "message": "no"}})
        return line({"id": message["id"], "result": result})


def line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


class _Pipe:
    """The stdin of a server: each line there is answered at once on its stdout."""

    def __init__(self, peer: Peer, reader: asyncio.StreamReader) -> None:
        self._peer = peer
        self._reader = reader
        self._is_closing = False

    def is_closing(self) -> bool:
        return self._is_closing

    def write(self, data: bytes) -> None:
        known = self._peer.calls
        self._reader.feed_data(self._peer.says(json.loads(data)))
        if self._peer.ends and self._peer.calls > known:
            self._is_closing = True
            self._reader.feed_eof()

    async def drain(self) -> None:
        await asyncio.sleep(0)

    def close(self) -> None:
        self._is_closing = True


@contextlib.contextmanager
def over_stdio(peer: Peer) -> Iterator[list[str]]:
    """Let a command be this peer."""

    @contextlib.asynccontextmanager
    async def child(*given: Any) -> AsyncIterator[Any]:
        *_, output, wire = given
        reader = asyncio.StreamReader(limit=2**26)
        pipe: Any = _Pipe(peer, reader)
        send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](64)
        reading = asyncio.create_task(stdio._read_messages(reader, send, output, wire))
        try:
            yield receive, stdio.Writer(pipe, wire), reading
        finally:
            reading.cancel()
            receive.close()
            await asyncio.wait([reading])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "child_process", child)
        yield ["a-command"]


class Reply:
    """An HTTP answer. is_cut: the connection fails after its body."""

    def __init__(self, body: bytes, kind: str = "application/json", status: int = 200, **more: Any) -> None:
        self.body, self.kind, self.status = body, kind, status
        self.is_cut: bool = more.get("is_cut", False)
        self.piece: int = more.get("piece", 0) or len(body) or 1


class _Body(httpx2.AsyncByteStream):
    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body, piece = self._reply.body, self._reply.piece
        for begin in range(0, len(body), piece):
            yield body[begin : begin + piece]
        if self._reply.is_cut:
            raise httpx2.ReadError("cut")


@contextlib.contextmanager
def over_http(peer: Peer, reply: Callable[[bytes], Reply], rest: int = 405) -> Iterator[str]:
    """Let an address be this peer. reply: makes the HTTP answer to a call from the peer's bytes.

    rest: the status for the rest of a stream that broke off; 0 for a server that is gone by then.
    """

    def handle(request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            if not rest and "last-event-id" in request.headers:
                raise httpx2.ConnectError("refused")
            return httpx2.Response(rest or 405)
        message = json.loads(request.content)
        said = peer.says(message)
        if not said and "id" not in message:
            return httpx2.Response(202)
        made = reply(said) if message["method"] == "tools/call" else Reply(said)
        headers = {"content-type": made.kind, "transfer-encoding": "chunked"}
        return httpx2.Response(made.status, headers=headers, stream=_Body(made))

    def client(headers: Any, wire: Any, auth: Any = None) -> httpx2.AsyncClient:
        return http._Client(wire, transport=httpx2.MockTransport(handle))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http, "http_client", client)
        yield "http://127.0.0.1:9/mcp"


class _Stream(httpx2.AsyncByteStream):
    """The stream of answers of a server of the old transport. It ends at False, and is cut at True."""

    def __init__(self, pieces: "asyncio.Queue[bytes | bool]") -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"event: endpoint\ndata: /messages?id=1\n\n"
        while not isinstance(piece := await self._pieces.get(), bool):
            yield piece
        if piece:
            raise httpx2.ReadError("cut")


@contextlib.contextmanager
def over_sse(peer: Peer, status: int = 202, *, is_cut: bool = False) -> Iterator[str]:
    """Let an address of the old transport be this peer. status: of the request of a call."""
    streams: list[asyncio.Queue[bytes | bool]] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            streams.append(asyncio.Queue())
            kind = {"content-type": "text/event-stream"}
            return httpx2.Response(200, headers=kind, stream=_Stream(streams[-1]))
        message = json.loads(request.content)
        if message["method"] == "tools/call" and status >= 300:
            peer.calls += 1
            return httpx2.Response(status, stream=_Body(Reply(b"no")))
        said = peer.says(message)
        ends = peer.ends and message["method"] == "tools/call"
        if said:
            streams[-1].put_nowait(b"data: " + (said if ends else said.strip() + b"\n\n"))
        if ends:
            streams[-1].put_nowait(is_cut)
        return httpx2.Response(202, stream=_Body(Reply(b"{}")))  # it is no answer

    def client(headers: Any, wire: Any, auth: Any, on_failure: Any) -> httpx2.AsyncClient:
        return http._Client(wire, on_failure, transport=httpx2.MockTransport(handle))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http, "http_client", client)
        yield "http://127.0.0.1:9/sse"


def came_to(server: Any, effect: str = "write", **options: Any) -> tuple[str, str]:
    """Return what a call of `find` came to: ok, error or interrupted, and its text."""

    async def main() -> tuple[str, str]:
        live = LiveServer(MCPServer(server, effects={"find": effect}, **options))  # type: ignore[dict-item]  # a word of the test's
        try:
            (tool,) = await live.listed(Scope())
            bound: Any = tool.bind(Json(b"{}"), ToolContext())
            async with asyncio.timeout(5):
                return "ok", str(await bound())
        except ToolInterrupted as error:
            return "interrupted", str(error)
        except ToolError as error:
            return "error", str(error)
        finally:
            await live.aclose()

    return asyncio.run(main())
