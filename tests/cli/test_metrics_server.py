"""The page of a worker's metrics."""

import asyncio
import socket

import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.cli.errors import Failure
from callboard.cli.metrics_server import address_of, serving
from tests.tables import table


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:9464", ("0.0.0.0", 9464)),
        ("[::1]:9464", ("::1", 9464)),
        ("node-1.example:0", ("node-1.example", 0)),
    ],
)
def test_an_address_is_a_port_or_a_host_with_a_port(text: str, address: tuple[str, int]) -> None:
    assert address_of(text) == address


@table("text", ["", "x", "host:", ":9464", "host:70000", "a b:1", "::1:9", "http://a:1", "٣"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(Failure, match="write PORT") as failure:
        address_of(text)
    assert failure.value.exit_code == 2


def asked(*requests: bytes, text: str = "callboard_sessions 1\n") -> list[bytes]:
    """Return the answers to requests, each on a connection of its own."""

    async def scene() -> list[bytes]:
        def metrics() -> str:
            if not text:
                raise MisuseError("the runtime is not open")
            return text

        async with serving(metrics, "127.0.0.1", 0) as url:
            port = int(url.removeprefix("http://127.0.0.1:").removesuffix("/metrics"))
            found = []
            for request in requests:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(request)
                writer.write_eof()
                found.append(await reader.read())
                writer.close()
            return found

    return asyncio.run(scene())


def test_the_page_is_the_text_and_every_other_request_is_refused() -> None:
    right, query, missing, posted, cut, long = asked(
        b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /metrics?name=x HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\n\r\n",
        b"GET /metrics",
        b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    )
    assert right.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4")
    assert right.endswith(b"\r\nContent-Length: 21\r\nConnection: close\r\n\r\ncallboard_sessions 1\n")
    assert query == right
    assert missing.startswith(b"HTTP/1.1 404 ")
    assert posted.startswith(b"HTTP/1.1 405 ")
    assert cut == long == b""


def test_a_runtime_that_is_closed_has_no_metrics() -> None:
    assert asked(b"GET /metrics HTTP/1.1\r\n\r\n", text="")[0].startswith(b"HTTP/1.1 503 ")


def test_a_port_that_is_taken_is_named() -> None:
    async def scene(port: int) -> None:
        async with serving(lambda: "", "127.0.0.1", port):
            pytest.fail("two servers on one port")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Failure, match=f"cannot serve metrics on 127.0.0.1:{port}: .*in use"):
            asyncio.run(scene(port))
