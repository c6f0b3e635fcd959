"""A session with edits of files and images, as coding agents record them."""

import asyncio
import base64
import struct
import zlib
from functools import cache
from typing import Any

from callboard import Agent, Runtime, ScriptedModel, call, calls, say, tool
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import Step

BEFORE = """def total(orders):
    result = 0
    for order in orders:
        result += order.price
    return result
"""
AFTER = BEFORE.replace("order.price", "order.cents").replace("total(orders)", "total_cents(orders)")
PATCH = """*** Begin Patch
*** Update File: tests/test_shop.py
@@ def test_total():
-    assert total([]) == 0
+    assert total_cents([]) == 0
*** End Patch"""


def png(width: int, height: int) -> bytes:
    """Make a small picture: a gradient."""
    rows = b"".join(
        b"\0" + b"".join(bytes((x * 255 // width, y * 255 // height, 140)) for x in range(width))
        for y in range(height)
    )
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def image(data: bytes, media_type: str = "image/png") -> dict[str, Any]:
    """Return a block with an image."""
    source = {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}
    return {"type": "image", "source": source}


@tool(effect="read")
def screenshot(page: str) -> list[dict[str, Any]]:
    """Take a picture of a page."""
    return [{"type": "text", "text": f"{page}, 160 x 90"}, image(png(160, 90))]


@tool(effect="idempotent")
def edit_file(path: str, old_text: str, new_text: str) -> str:
    """Replace a text in a file."""
    return f"edited {path}: 1 place"


@tool(effect="idempotent")
def apply_patch(patch: str) -> str:
    """Apply a patch."""
    return "Done."


def _policy(request: ModelRequest) -> Step:
    if request.turn == 1:
        return calls(
            call("edit_file", path="shop.py", old_text=BEFORE, new_text=AFTER),
            call("apply_patch", patch=PATCH),
            text="The name says nothing of the **unit**. I rename it, and its test.",
        )
    return call("screenshot", page="/orders") if request.turn == 2 else say("The sum is in cents now.")


@cache
def workshop() -> Recording:
    """Record an agent that edits two files and looks at a page; its prompt has an image, too."""
    host = Agent("editor", tools=[edit_file, apply_patch, screenshot])
    model = ScriptedModel(_policy, usage=Usage(input_tokens=900, output_tokens=60))

    async def main() -> MemoryLog:
        log = MemoryLog()
        async with Runtime(log, model=model) as runtime:
            prompt = [{"type": "text", "text": "The sum on this page is wrong."}, image(png(240, 60))]
            await runtime.run(host, prompt, session_id="workshop")
        return log

    return Recording.open(MemoryReader(asyncio.run(main())), "workshop")
