"""Lines as a page holds them: deflated, and in base64, so that no text can end its block."""

import binascii
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

_CHUNK_BYTES: Final = 3 * 16_384
"""Base64 stands in one piece: only a multiple of three bytes needs no padding."""

_LEVEL: Final = 6


def packed(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines as pieces of one base64 text. A browser's `DecompressionStream("deflate")` reads it."""
    deflate = zlib.compressobj(_LEVEL)
    waiting = bytearray()
    for line in lines:
        waiting += deflate.compress(line + b"\n")
        if len(waiting) >= _CHUNK_BYTES:
            cut = len(waiting) - len(waiting) % 3
            yield binascii.b2a_base64(waiting[:cut], newline=False)
            del waiting[:cut]
    waiting += deflate.flush()
    yield binascii.b2a_base64(waiting, newline=False)


def unpacked(text: bytes) -> list[bytes]:
    """Return the lines of a page's data."""
    return zlib.decompress(binascii.a2b_base64(text)).removesuffix(b"\n").split(b"\n")
