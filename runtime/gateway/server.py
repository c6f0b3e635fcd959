"""The gateway's server: HTTP/1.1 on loopback, in front of the services that the program would ask.

    /anthropic/...   goes on to the Messages API's address
    /openai/...      goes on to the address of Chat Completions and Responses

Rules
  - A request of one of the three APIs is recorded. Any other, such as `count_tokens`, goes on as it is and is
    counted by its path.
  - A request of which no session can be made goes on, too, unless the recording has a limit.
  - The answer of the service goes to the program byte by byte, while it is read.
  - A request that may not be made is answered by a 403 that says why, with `x-should-retry: false`. A body
    that is no JSON is answered by a 400, and one without an answer of the service by a 502.
  - A request with an `Origin` is refused: no page of a browser may use the gateway.
  - The program's headers go on, so its keys do. They are never kept.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from callboard.actors.protocol.errors import CallboardError
from callboard.runtime.gateway.conversation import Failed, Refused
from callboard.runtime.gateway.dialects import PATHS, Answered, Asked, Dialect, answered, asked, refusal
from callboard.runtime.gateway.recorder import Recorder, Unrecordable
from callboard.runtime.gateway.streams import StreamedAnswer
from callboard.runtime.models.failures import CallFailed

if TYPE_CHECKING:
    import httpx2

HOST: Final = "127.0.0.1"
HEAD_BYTES_MAX: Final = 65_536
BODY_BYTES_MAX: Final = 64 * 2**20
_HOPS: Final = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "keep-alive", "te",
     "proxy-authorization", "upgrade", "expect"}
)  # fmt: skip
_BACK: Final = frozenset(
    {"connection", "content-length", "transfer-encoding", "content-encoding", "keep-alive"}
)
_WORDS: Final = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 502: "Bad Gateway"}


class Request(NamedTuple):
    """A request of the program."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes


class LoopbackServer(ABC):
    """An HTTP/1.1 server on loopback that answers the requests of each connection in their order."""

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        """Listen on a free port of loopback, and return the address."""
        self._server = await asyncio.start_server(self._connected, HOST, 0, limit=HEAD_BYTES_MAX)
        return f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}"

    async def aclose(self) -> None:
        """Close all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while (request := await read_request(reader)) is not None:
                await self._serve(request, Answering(writer))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # the program has gone, or writes no HTTP: there is no one to tell
        except asyncio.CancelledError:  # by `aclose`; the loop would report it as an error of the server
            pass
        finally:
            self._tasks.discard(task)
            with suppress(ConnectionError):
                writer.close()

    @abstractmethod
    async def _serve(self, request: Request, answer: "Answering") -> None:
        """Answer a request."""


class Gateway(LoopbackServer):
    """Serves one program. upstreams: the address of each service, by the first part of the path."""

    def __init__(
        self, recorder: Recorder, upstreams: Mapping[str, str], client: "httpx2.AsyncClient"
    ) -> None:
        super().__init__()
        self._recorder, self._upstreams, self._client = recorder, dict(upstreams), client

    async def _serve(self, request: Request, answer: "Answering") -> None:
        if any(name.lower() == "origin" for name, _ in request.headers):
            why = "the gateway is for a program, not for a page of a browser"
            await answer.whole(403, refusal(None, "forbidden", why))
            return
        name, _, rest = request.path.lstrip("/").partition("/")
        base = self._upstreams.get(name)
        if base is None:
            await answer.whole(404, refusal(None, "not_found", f"the gateway has no {request.path}"))
            return
        path = f"/{rest}"
        dialect = PATHS.get(urlsplit(path).path) if request.method == "POST" else None
        url = base.rstrip("/") + (path.removeprefix("/v1") if base.rstrip("/").endswith("/v1") else path)
        if dialect is None:
            self._count(f"{request.method} {urlsplit(path).path}")
            await self._pass(request, url, answer)
            return
        await self._record(request, url, dialect, answer)

    def _count(self, what: str) -> None:
        passed = self._recorder.counts.passed
        passed[what] = passed.get(what, 0) + 1

    async def _record(self, request: Request, url: str, dialect: Dialect, answer: "Answering") -> None:
        wish = asked(dialect, request.body)
        if wish is None:
            self._recorder.counts.unread += 1
            why = "the body is not a JSON object with messages; it was not sent on"
            await answer.whole(400, refusal(dialect, "invalid_request_error", why))
            return
        try:
            await self._recorder.handle(wish, lambda: self._ask(request, url, wish, answer))
        except Unrecordable as error:
            self._count(f"{request.method} {urlsplit(url).path} ({error})"[:300])
            await self._pass(request, url, answer)
        except Refused as error:
            why = f"callboard record refused this request: {error}"
            body = refusal(dialect, "permission_error", why)
            await answer.whole(403, body, [("x-should-retry", "false")])
        except Failed as error:
            self._recorder.counts.failed += 1
            if not answer.has_begun:
                await answer.whole(502, refusal(dialect, "api_error", str(error)))
            elif not answer.is_whole:
                answer.break_off()
        except CallboardError as error:
            if not answer.has_begun:
                await answer.whole(502, refusal(dialect, "api_error", f"callboard record: {error}"))

    async def _ask(self, request: Request, url: str, wish: Asked, answer: "Answering") -> Answered:
        """Send a request to the service, and its answer to the program. Raises Failed."""
        try:
            async with self._sent(request, url) as response:
                await answer.begin(response.status_code, _kept(response))
                if response.status_code >= 400:
                    body = b"".join([part async for part in _to(answer, response)])
                    await answer.end()
                    raise Failed(f"{response.status_code}: {body[:500].decode(errors='replace')}")
                return await _answer_of(wish.dialect, response, answer)
        except CallFailed as error:
            raise Failed(error.failure.message or error.failure.code) from error
        except Failed:
            raise
        except Exception as error:
            raise Failed(f"{type(error).__name__}: {error}") from error

    def _sent(self, request: Request, url: str) -> "AbstractAsyncContextManager[httpx2.Response]":
        headers = [(name, value) for name, value in request.headers if name.lower() not in _HOPS]
        return self._client.stream(request.method, url, headers=headers, content=request.body)

    async def _pass(self, request: Request, url: str, answer: "Answering") -> None:
        """Let a request through, and its answer."""
        try:
            async with self._sent(request, url) as response:
                await answer.begin(response.status_code, _kept(response))
                async for _ in _to(answer, response):
                    pass
                await answer.end()
        except Exception as error:
            if answer.has_begun:
                answer.break_off()
            else:
                await answer.whole(502, refusal(None, "api_error", f"{type(error).__name__}: {error}"))


async def _answer_of(dialect: Dialect, response: "httpx2.Response", answer: "Answering") -> Answered:
    """Read an answer while it goes to the program."""
    import msgspec

    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    stream, body = StreamedAnswer(dialect), bytearray()
    async for part in _to(answer, response):
        if is_stream:
            stream.feed(part)
        else:
            body += part
    await answer.end()
    if is_stream:
        return stream.answer()
    try:
        return answered(dialect, msgspec.json.decode(bytes(body)))
    except msgspec.DecodeError as error:
        raise Failed(f"the answer is not JSON: {error}") from None


async def _to(answer: "Answering", response: "httpx2.Response") -> AsyncIterator[bytes]:
    """Yield the parts of an answer, each once it has gone to the program."""
    async for part in response.aiter_bytes():
        await answer.part(part)
        yield part


def _kept(response: "httpx2.Response") -> list[tuple[str, str]]:
    return [(name, value) for name, value in response.headers.multi_items() if name.lower() not in _BACK]


class Answering:
    """The answer to one request, in chunks."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.has_begun = False
        self.is_whole = False

    async def begin(self, status: int, headers: list[tuple[str, str]]) -> None:
        """Write the status and the headers."""
        self.has_begun = True
        self._head(status, [*headers, ("transfer-encoding", "chunked")])
        await self._drain()

    def _head(self, status: int, headers: list[tuple[str, str]]) -> None:
        lines = [f"HTTP/1.1 {status} {_WORDS.get(status, 'Status')}"]
        lines += [f"{name}: {value}" for name, value in headers]
        self._writer.write("\r\n".join([*lines, "", ""]).encode("latin-1", "replace"))

    async def part(self, data: bytes) -> None:
        """Write a part of the body. The service is read to its end also where the program has left."""
        if data:
            self._writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            await self._drain()

    async def end(self) -> None:
        """End the body."""
        self.is_whole = True
        self._writer.write(b"0\r\n\r\n")
        await self._drain()

    async def whole(self, status: int, body: bytes, headers: list[tuple[str, str]] | None = None) -> None:
        """Write an answer of the gateway's own."""
        self.has_begun = self.is_whole = True
        told = [("content-type", "application/json"), ("content-length", str(len(body))), *(headers or [])]
        self._head(status, told)
        self._writer.write(body)
        await self._drain()

    def break_off(self) -> None:
        """Close the connection in the middle of the body, as the service did."""
        self._writer.transport.abort()

    async def _drain(self) -> None:
        with suppress(ConnectionError):
            await self._writer.drain()


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """Read a request; None at the end of the connection. Raises ValueError for one that is none."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, path, _ = first.split(" ")
    headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    told = {name.lower(): value for name, value in headers}
    if "chunked" in told.get("transfer-encoding", "").lower():
        return Request(method, path, headers, await _chunks(reader))
    length = int(told.get("content-length", "0"))
    if not 0 <= length <= BODY_BYTES_MAX:
        raise ValueError("the body is too large")
    return Request(method, path, headers, await reader.readexactly(length))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readline()).split(b";")[0], 16):
        if len(body) + size > BODY_BYTES_MAX:
            raise ValueError("the body is too large")
        body += await reader.readexactly(size)
        await reader.readline()
    while (await reader.readline()).strip():
        pass
    return bytes(body)
