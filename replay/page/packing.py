"""Lines as a page holds them: deflated, and in base64, so that no text can end its block."""

import binascii
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

_CHUNK_BYTES: Final = 65_536
"""The size of a piece that is deflated. In base64 only a multiple of three bytes needs no padding."""

_LEVEL: Final = 6


def packed(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines as pieces of one base64 text. A browser's `DecompressionStream("deflate")` reads it."""
    deflate = zlib.compressobj(_LEVEL)
    given, waiting = bytearray(), bytearray()
    for line in lines:
        given += line
        given += b"\n"
        if len(given) < _CHUNK_BYTES:
            continue
        waiting += deflate.compress(given)
        given.clear()
        cut = len(waiting) - len(waiting) % 3
        yield binascii.b2a_base64(waiting[:cut], newline=False)
        del waiting[:cut]
    waiting += deflate.compress(given) + deflate.flush()
    yield binascii.b2a_base64(waiting, newline=False)


def unpacked(text: bytes) -> list[bytes]:
    """Return the lines of a page's data."""
    return zlib.decompress(binascii.a2b_base64(text)).removesuffix(b"\n").split(b"\n")
