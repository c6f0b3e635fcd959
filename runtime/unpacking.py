"""The bytes of an answer without their compression, while the event loop goes on.

A compressed body can be a thousand times as large as it was on its way. A body of several layers could be so
at each of them, also where nothing is left of it at the end that could be counted: it is refused.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

import httpx2

STEP_BYTES: Final = 2**20  # that are unpacked before other tasks run


async def unpacked(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a body. Raises DecodingError for a body of several layers, or a broken one."""
    stated: str = response.headers.get("content-encoding", "")
    layers = [layer for layer in stated.lower().split(",") if layer.strip() not in ("", "identity")]
    if len(layers) > 1:
        raise httpx2.DecodingError(f"the body is compressed {len(layers)} times", request=response.request)
    size = 0
    async for piece in response.aiter_bytes():
        yield piece
        size += len(piece)
        if size >= STEP_BYTES:
            size = 0
            await asyncio.sleep(0)
