"""An image block that is too large, over each way to a server: the outcome, and the memory that it takes.

Over a process or HTTP the message ends at its limit, and with it the call; a server in this process hands the
image over whole, and a text stands in its place. No byte of it comes into the log.
"""

import json
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import mcp.types as types
import pytest
from mcp.server import MCPServer as SdkServer

from callboard import Agent, MCPServer, Runtime
from callboard.log import MemoryLog
from callboard.runtime.mcp import content, http, stdio
from tests.runtime.mcp.kit import NAME, asking, outputs, played, raw, returned
from tests.runtime.mcp.test_http import Gate, serving

MB = 1_000_000
LARGE = 200 * MB
CAPPED = 2 * MB
HELD = 160 * MB  # a message at its limit of 32 MiB, with the parts that it is joined of and their copies


class ImageGate(Gate):
    """A server that answers a call with an image of so many bytes of base64, in pieces of a megabyte."""

    def __init__(self, size: int, *, is_json: bool) -> None:
        super().__init__(is_json)
        self.size = size
        self._is_json = is_json

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        names = {key.decode(): value.decode() for key, value in scope.get("headers", ())}
        if names.get("mcp-name") != "nap":
            await super().__call__(scope, receive, send)
            return
        asked = json.loads((await receive())["body"])
        kind = "application/json" if self._is_json else "text/event-stream"
        head = [(b"content-type", kind.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        async for piece in self._pieces(asked["id"]):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _pieces(self, request: object) -> AsyncIterator[bytes]:
        block = {"type": "image", "mimeType": "image/png", "data": "?"}
        answer = {"jsonrpc": "2.0", "id": request, "result": {"content": [block]}}
        before, after = json.dumps(answer).split("?")
        yield ("" if self._is_json else "event: message\ndata: ").encode() + before.encode()
        for _ in range(self.size // MB):
            yield b"iVBO" * (MB // 4)
        yield after.encode() + (b"" if self._is_json else b"\n\n")


def over_http(size: int, *, is_json: bool) -> list[tuple[str, Any]]:
    """Return what the call and one after it came to."""
    found: list[tuple[str, Any]] = []
    gate = ImageGate(size, is_json=is_json)

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        async with serving(gate) as port:
            server = MCPServer(f"http://127.0.0.1:{port}/mcp")
            async with runtime.open(Agent("host", tools=[server]), session_id=NAME) as session:
                await session.ask("go")
                found.extend(await returned(log))
            await runtime.aclose()

    played(scene, asking("nap", ("note", {"text": "a"})))
    return found


def in_process(size: int) -> tuple[str, Any]:
    """Return what a call came to whose server is an object of this process."""
    server = SdkServer("pictures")

    @server.tool()
    def paint() -> types.ImageContent:
        """Paint."""
        return types.ImageContent(type="image", data="iVBO" * (size // 4), mime_type="image/png")

    (found,) = outputs(MCPServer(server), "paint")
    return found


def over_stdio(notes: Path, size: int) -> list[tuple[str, Any]]:
    return outputs(raw(notes), ("image", {"size": size}), "echo")


@pytest.fixture
def low_caps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MESSAGE_BYTES_MAX", MB)
    monkeypatch.setattr(stdio, "_END_S", 0.05)  # the server writes to a pipe that nobody reads
    monkeypatch.setattr(http, "ANSWER_BYTES_MAX", MB)
    monkeypatch.setattr(content, "_DATA_BYTES_MAX", MB)


def test_an_image_above_the_limit_of_a_process_ends_the_call_and_not_the_next(
    low_caps: None, tmp_path: Path
) -> None:
    image, after = over_stdio(tmp_path / "notes", CAPPED)
    assert image[0] == "error"  # it came, so its call is neither lost nor sent again
    assert "it is above 1,000,000 bytes" in image[1]
    assert after == ("ok", "{}")


@pytest.mark.parametrize("is_json", [True, False])
def test_an_image_above_the_limit_over_http_ends_the_call_and_not_the_next(
    low_caps: None, is_json: bool
) -> None:
    image, after = over_http(CAPPED, is_json=is_json)
    assert image[0] == "error"
    assert "its answer is above 1,000,000 bytes" in image[1]
    assert after == ("ok", "A")


def test_an_image_in_this_process_is_named_in_words(low_caps: None) -> None:
    assert in_process(CAPPED) == ("ok", "[image left out: it has 1,500,000 bytes, models take 1,000,000]")


def test_an_image_below_all_limits_is_an_image(tmp_path: Path) -> None:
    ((status, (block,)), _) = over_stdio(tmp_path / "notes", 4_000)
    assert (status, block["type"], len(block["source"]["data"])) == ("ok", "image", 4_000)


@pytest.mark.slow
def test_an_image_of_200_mb_from_a_process_is_held_up_to_the_limit_only(tmp_path: Path) -> None:
    image, after = measured(lambda: over_stdio(tmp_path / "notes", LARGE))
    assert image[0] == "error"
    assert "33,554,432 bytes" in image[1]
    assert after == ("ok", "{}")


@pytest.mark.slow
@pytest.mark.parametrize("is_json", [True, False])
def test_an_image_of_200_mb_over_http_is_held_up_to_the_limit_only(is_json: bool) -> None:
    image, after = measured(lambda: over_http(LARGE, is_json=is_json))
    assert image[0] == "error"
    assert "its answer is above 33,554,432 bytes" in image[1]
    assert after == ("ok", "A")


@pytest.mark.slow
def test_an_image_of_200_mb_in_this_process_is_named_in_words() -> None:
    assert in_process(LARGE) == ("ok", "[image left out: it has 150,000,000 bytes, models take 5,000,000]")


def measured(work: Any) -> Any:
    """Return what the work returns. It may hold so many bytes."""
    tracemalloc.start()
    try:
        found = work()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < HELD
    return found
