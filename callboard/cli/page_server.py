"""The server of `callboard ui --follow`, `--sessions` and `--act`: pages on loopback, by their address.

    GET   (nothing)   the page of the session that is shown, or that of all sessions
    GET   session     the page of a session: log, session, beside
    GET   more        what such a page lacks: lines, events
    GET   rows        the sessions of a log; `findings` of some of them, and those `holding` a text
    GET   waiting     the calls of a session that wait for a person
    GET   cost        the cost of a fork before it runs; `variants` of a session
    POST  act         an act of a person; only with `--act`

Only POST changes anything. `page_guard` says who may ask, `page_views` reads, `page_acts` acts.
"""

import asyncio
import contextlib
import functools
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import parse_qsl

import uvicorn

from callboard.actors.protocol.errors import CallboardError, CorruptLog, MisuseError
from callboard.cli.output import talk
from callboard.cli.page_acts import ACT_BYTES_MAX, Acts
from callboard.cli.page_guard import HOST, NOT_FOUND, Guard
from callboard.cli.page_views import Asked, PageViews
from callboard.runtime.control.wire import ShownApproval

TOKEN_BYTES: Final = 32
_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"content-security-policy", b"frame-ancestors 'none'"),
)
_GONE: Final = 410
_BROKEN: Final = 409
_MISUSED: Final = 422
_TOO_LONG: Final = 413
_HTML: Final = b"text/html; charset=utf-8"
_TEXT: Final = b"text/plain; charset=utf-8"
_JSON: Final = b"application/json"

T = TypeVar("T")
Message: TypeAlias = dict[str, Any]
"""The scope of a request, or a message of one, as ASGI has them."""

Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Read: TypeAlias = Callable[[PageViews, Asked], bytes]

_READS: Final[Mapping[str, tuple[Read, bytes]]] = {
    "": (PageViews.page, _HTML),
    "session": (PageViews.page, _HTML),
    "more": (PageViews.more, _TEXT),
    "rows": (PageViews.rows, _JSON),
    "findings": (PageViews.findings, _JSON),
    "holding": (PageViews.holding, _JSON),
    "cost": (PageViews.cost, _JSON),
    "variants": (PageViews.variants, _JSON),
}


class PageServer:
    """An ASGI app. views: used in one thread of its own. acts: None for pages that only show."""

    def __init__(self, guard: Guard, views: PageViews, acts: Acts | None = None) -> None:
        self._guard = guard
        self._views = views
        self._acts = acts
        self._is_told = False
        self._reading = ThreadPoolExecutor(1, "callboard-page")

    def close(self) -> None:
        """Close the logs."""
        self._reading.submit(self._views.close)
        self._reading.shutdown()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request; the server has no others than those of HTTP."""
        headers = list(scope["headers"])
        name = self._guard.name(scope["path"].encode())
        status = self._guard.refusal(scope["method"], headers) or (NOT_FOUND if name is None else 0)
        if status or name is None:
            await _answer(send, status)
        elif scope["method"] == "POST":
            await self._act(name, headers, receive, send)
        else:
            await self._show(name, scope["query_string"], send)

    async def _show(self, name: str, query: bytes, send: Send) -> None:
        """Answer a GET."""
        try:
            asked = dict(parse_qsl(query.decode("ascii", "replace"), keep_blank_values=True))
            found, kind = await self._found(name, asked)
        except CorruptLog as error:
            self._tell(error)
            await _answer(send, _BROKEN, str(error).encode(), _TEXT)
        except MisuseError as error:
            await _answer(send, _MISUSED, str(error).encode(), _TEXT)
        except (CallboardError, ValueError) as error:
            await _answer(send, _GONE, str(error).encode("utf-8", "replace"), _TEXT)
        else:
            status = NOT_FOUND if found is None else 200 if found else 204
            await _answer(send, status, found or b"", kind)

    async def _found(self, name: str, asked: Asked) -> tuple[bytes | None, bytes]:
        """Return the answer to a question and its kind; None for an unknown one."""
        if name == "waiting" and self._acts is not None:
            place = self._views.place(asked)

            async def recorded() -> list[ShownApproval]:
                return await self._read(functools.partial(self._views.recorded_questions, place))

            return await self._acts.questions(place.log, place.session, recorded), _JSON
        if name not in _READS:
            return None, _TEXT
        read, kind = _READS[name]
        return await self._read(functools.partial(read, self._views, asked)), kind

    async def _read(self, read: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reading, read)

    async def _act(self, name: str, headers: list[tuple[bytes, bytes]], receive: Receive, send: Send) -> None:
        """Answer a POST."""
        status = self._guard.refusal_of_act(headers)
        if status or name != "act" or self._acts is None:
            await _answer(send, status or NOT_FOUND)
            return
        body = await _body(receive)
        if body is None:
            await _answer(send, _TOO_LONG)
            return
        result = await self._acts.answer(body)
        await _answer(send, result.status, result.body, _JSON)

    def _tell(self, error: CorruptLog) -> None:
        """Say once, where the server was started, that the log is damaged."""
        if not self._is_told:
            self._is_told = True
            talk(f"the page shows no further events: {error}")


async def _body(receive: Receive) -> bytes | None:
    """Return the body of a request; None for one that is too long or was cut off."""
    parts: list[bytes] = []
    left = ACT_BYTES_MAX
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        part = message.get("body", b"")
        left -= len(part)
        if left < 0:
            return None
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


async def _answer(send: Send, status: int, body: bytes = b"", kind: bytes = b"text/plain") -> None:
    headers = [*_HEADERS, (b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Server(uvicorn.Server):
    """A server that ends at a signal and raises none again: sessions are detached behind it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at the first Ctrl-C or SIGTERM."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, other threads
                loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in numbers:
                with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # as above
                    loop.remove_signal_handler(number)


@contextlib.contextmanager
def listening(port: int) -> Iterator[tuple[socket.socket, int]]:
    """Yield a socket on loopback and its port. port: 0 for a free one. Raises OSError."""
    with socket.create_server((HOST, port)) as held:
        yield held, held.getsockname()[1]


async def serve(app: PageServer, held: socket.socket) -> None:
    """Serve pages until Ctrl-C."""
    config = uvicorn.Config(
        app,
        log_level="error",
        ws="none",
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    try:
        await _Server(config).serve(sockets=[held])
    finally:
        app.close()


def new_token() -> str:
    """Return a random token, for an address or for acts."""
    return secrets.token_urlsafe(TOKEN_BYTES)
