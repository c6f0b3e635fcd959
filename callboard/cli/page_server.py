"""The server of `callboard ui --follow`: one page on loopback, opened by its address and token.

The address holds a random token. A request with another Host or Origin is refused, so a page of another site
cannot read this one, also if its name leads to 127.0.0.1. The only method is GET, and nothing is changed.
"""

import asyncio
import contextlib
import hmac
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final
from urllib.parse import parse_qs

import uvicorn

from callboard.actors.protocol.errors import CallboardError, CorruptLog
from callboard.actors.session.place_names import is_number
from callboard.cli.output import talk
from callboard.replay.page.building import LivePage

HOST: Final = "127.0.0.1"
_TOKEN_BYTES: Final = 32
_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"content-security-policy", b"frame-ancestors 'none'"),
)
_NOT_FOUND: Final = 404
_FORBIDDEN: Final = 403
_NO_METHOD: Final = 405
_GONE: Final = 410
_BROKEN: Final = 409

Send = Callable[[Any], Awaitable[None]]


class PageServer:
    """An ASGI app with two addresses: the page, and `more` below it. port: that it listens on."""

    def __init__(self, page: LivePage, port: int, token: str) -> None:
        self._page = page
        self._path = f"/{token}/".encode()
        self._is_told = False
        self._hosts = {f"{name}:{port}".encode() for name in (HOST, "localhost")}

    async def __call__(self, scope: Any, receive: Any, send: Send) -> None:
        """Answer a request; the server has no others than those of HTTP."""
        name = self._name(scope["path"].encode())
        status = self._refusal(scope["method"], list(scope["headers"])) or (_NOT_FOUND if name is None else 0)
        if status or name is None:
            await _answer(send, status)
            return
        try:
            await self._give(send, name, scope["query_string"])
        except CorruptLog as error:
            self._tell(error)
            await _answer(send, _BROKEN, str(error).encode(), b"text/plain; charset=utf-8")
        except (CallboardError, ValueError):
            await _answer(send, _GONE)

    def _tell(self, error: CorruptLog) -> None:
        """Say once, where the server was started, that the log is damaged."""
        if not self._is_told:
            self._is_told = True
            talk(f"the page shows no further events: {error}")

    def _refusal(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> int:
        """Return the status with which a request is refused; 0 for none."""
        if method != "GET":
            return _NO_METHOD
        given = [(name.lower(), value) for name, value in headers]
        named = [value for name, value in given if name == b"host"]
        is_here = len(named) == 1 and named[0] in self._hosts
        return 0 if is_here and all(self._is_own(*one) for one in given) else _FORBIDDEN

    def _is_own(self, name: bytes, value: bytes) -> bool:
        """Return False for a header that tells of another site."""
        if name == b"origin":
            return value in {b"http://" + host for host in self._hosts}
        return name != b"sec-fetch-site" or value in (b"same-origin", b"none")

    def _name(self, path: bytes) -> str | None:
        """Return the name below the token; None for another path."""
        head, name = path[: len(self._path)], path[len(self._path) :]
        is_known = hmac.compare_digest(head, self._path) and name in (b"", b"more")
        return name.decode() if is_known else None

    async def _give(self, send: Send, name: str, query: bytes) -> None:
        if not name:
            page = b"".join(self._page.page())
            await _answer(send, 200, page, b"text/html; charset=utf-8")
            return
        asked = parse_qs(query.decode("ascii", "replace"))
        more = self._page.more(_number(asked, "lines"), _number(asked, "events"))
        await _answer(send, 200 if more else 204, more, b"text/plain; charset=utf-8")


def _number(asked: dict[str, list[str]], name: str) -> int:
    text = (asked.get(name) or [""])[0]
    if not is_number(text):
        raise ValueError(f"{name} is not a number")
    return int(text)


async def _answer(send: Send, status: int, body: bytes = b"", kind: bytes = b"text/plain") -> None:
    headers = [*_HEADERS, (b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def serve_page(page: LivePage, port: int, opened: Callable[[str], object]) -> None:
    """Serve a page on loopback until Ctrl-C. port: 0 for a free one. opened: is given the address."""
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    with socket.create_server((HOST, port)) as held, contextlib.suppress(KeyboardInterrupt):
        number = held.getsockname()[1]
        app = PageServer(page, number, token)
        config = uvicorn.Config(
            app,
            log_level="error",
            ws="none",
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        opened(f"http://{HOST}:{number}/{token}/")
        asyncio.run(uvicorn.Server(config).serve(sockets=[held]))
