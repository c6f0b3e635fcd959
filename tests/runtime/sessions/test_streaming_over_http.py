"""A stream through uvicorn and Starlette, over a real socket, to clients that come, go and come back."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from callboard import Agent, Runtime
from callboard.actors.protocol.request import ModelRequest
from callboard.errors import MisuseError
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.sessions import stream_reader
from callboard.runtime.sessions.session import Session
from tests.runtime.sessions.streaming_kit import BUSY, Typed, TypingModel


@asynccontextmanager
async def served(session: Session) -> AsyncIterator[int]:
    """Serve the stream of a session on a free port."""

    async def events(request: Request) -> Response:
        last = request.headers.get("last-event-id")
        try:
            stream = session.stream(after=int(last) if last else None)
        except (ValueError, MisuseError) as error:
            return PlainTextResponse(str(error), 400)
        return StreamingResponse(stream.sse(), media_type="text/event-stream")

    app = Starlette(routes=[Route("/events", events)])
    config = uvicorn.Config(app, port=0, log_level="error", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  # uvicorn tells of its start by this flag only
        await asyncio.sleep(0.005)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await serving


class Browser:
    """An EventSource: it keeps the last id and sends it when it comes back."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.last = ""
        self.status = 0
        self.seen: list[tuple[str, str, dict[str, object]]] = []
        self.comments = 0

    async def connect(self) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        back = f"Last-Event-ID: {self.last}\r\n" if self.last else ""
        self.writer.write(f"GET /events HTTP/1.1\r\nHost: x\r\n{back}\r\n".encode())
        head = await self.reader.readuntil(b"\r\n\r\n")
        self.status = int(head.split()[1])
        self.rest = b""

    async def read(self, kind: str = "", count: int = 1) -> None:
        """Read up to an item of this kind, the `count`th; without a kind to the end."""
        while not kind or count:
            frame = await self._frame()
            if frame is None:
                assert not kind, f"no {kind} came"
                return
            if frame.startswith(":"):
                self.comments += 1
                found = "comment"
            else:
                parts = dict(line.split(": ", 1) for line in frame.split("\n"))
                self.last = parts.get("id", self.last)
                found = parts["event"]
                self.seen.append((found, parts.get("id", ""), json.loads(parts["data"])))
            count -= found == kind

    async def _frame(self) -> str | None:
        while b"\n\n" not in self.rest:
            size = int(await self.reader.readline(), 16)
            chunk = await self.reader.readexactly(size + 2)
            if not size:
                return None
            self.rest += chunk[:-2]
        frame, self.rest = self.rest.split(b"\n\n", 1)
        return frame.decode()

    async def leave(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


def reply(request: ModelRequest) -> Typed:
    if request.attempt == 1:
        return Typed(["Wrong ", "start "], failure=BUSY)
    return Typed(["Right ", "answer. "])


async def no_readers(session: Session) -> None:
    for _ in range(400):
        if not session._hub._readers:
            return
        await asyncio.sleep(0.005)
    raise AssertionError("a reader was left behind")


@pytest.mark.slow
def test_a_browser_sees_the_session_through_uvicorn_leaves_in_mid_stream_and_comes_back() -> None:
    async def main() -> None:
        async with Runtime(MemoryLog(), model=TypingModel(reply)) as runtime:
            session = await runtime.open(Agent("host"))
            async with served(session) as port:
                browser, other = Browser(port), Browser(port)
                await browser.connect()
                await other.connect()
                await browser.read("snapshot")
                asking = asyncio.create_task(session.ask("hi"))
                await browser.read("reset")
                await browser.leave()
                await asking
                await browser.connect()
                await session.ask("again")
                head = await session.close()
                await browser.read()
                await other.read()
                await browser.leave()
                await other.leave()
                await no_readers(session)
        ids = [int(id) for _, id, _ in browser.seen if id]
        assert ids == list(range(ids[0], head.seq + 1))
        kinds = [kind for kind, _, _ in other.seen]
        assert kinds[0] == "snapshot"
        assert kinds.count("reset") == 2
        texts = [data["text"] for kind, _, data in other.seen if kind == "text" and data["attempt"] == 2]
        assert "".join(map(str, texts)) == "Right answer. " * 2

    asyncio.run(main())


@pytest.mark.slow
def test_a_quiet_connection_gets_comments_and_an_id_that_is_none_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_reader, "KEEP_ALIVE_S", 0.3)

    async def main() -> None:
        async with Runtime(MemoryLog(), model=TypingModel(reply)) as runtime:
            session = await runtime.open(Agent("host"))
            async with served(session) as port:
                browser = Browser(port)
                await browser.connect()
                await browser.read("comment", 3)
                assert [kind for kind, _, _ in browser.seen] == ["snapshot"]
                await browser.leave()
                await no_readers(session)
                for last in ("99", "-1", "nonsense"):
                    browser.last = last
                    await browser.connect()
                    assert browser.status == 400
                    await browser.leave()
                await session.close()
        assert not stream_reader.keep_alive_of(asyncio.get_running_loop())._due

    asyncio.run(main())
