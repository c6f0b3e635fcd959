"""The metrics of a process for Prometheus: one page of text, over HTTP, for `callboard worker --metrics`.

It answers GET /metrics and nothing else. A request that is not read in time, or too long, is dropped.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from callboard.actors.protocol.errors import CallboardError
from callboard.cli.errors import FAILED, Failure, misused

_ADDRESS: Final = re.compile(r"(?:(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):)?(\d{1,5})", re.ASCII)
_REQUEST_S: Final = 5.0
_REQUEST_BYTES_MAX: Final = 8_192
_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def address_of(text: str) -> tuple[str, int]:
    """Return the host and port of `PORT` or `HOST:PORT`. Raises Failure."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[2]) > 65_535:
        raise misused(
            f"--metrics {text!r:.60} is not an address; write PORT, which is on 127.0.0.1, or HOST:PORT"
        )
    return (found[1] or "127.0.0.1").strip("[]"), int(found[2])


@asynccontextmanager
async def serving(metrics: Callable[[], str], host: str, port: int) -> AsyncIterator[str]:
    """Serve the text of a function. Yield the address of the page. Raises Failure if it cannot listen."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_answer(head, metrics))
                await writer.drain()
        writer.close()

    try:
        server = await asyncio.start_server(answer, host, port, limit=_REQUEST_BYTES_MAX)
    except OSError as error:
        raise Failure(f"cannot serve metrics on {host}:{port}: {error.strerror}", FAILED) from None
    async with server:
        where, number, *_ = server.sockets[0].getsockname()
        yield f"http://{f'[{where}]' if ':' in where else where}:{number}/metrics"


def _answer(head: bytes, metrics: Callable[[], str]) -> bytes:
    """Return the answer to a request, of which the body, if there is one, is not read."""
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    status, text = "200 OK", ""
    if path != b"/metrics":
        status = "404 Not Found"
    elif method != b"GET":
        status = "405 Method Not Allowed"
    else:
        try:
            text = metrics()
        except CallboardError:  # the runtime is being closed
            status = "503 Service Unavailable"
    body = text.encode()
    lines = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {_TYPE}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + body
