"""Lines as a page holds them: deflated, and in base64, so that no text can end its block.

Long texts of a large session, cut: a page is one file, and a browser holds no text of more than 512 MB.

The first bodies are in the page whole. Behind them, texts of more than 4,096 characters are cut, and say so.
"""

import binascii
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

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


WHOLE_BYTES: Final = 64 << 20
"""The bytes of the bodies that are in a page whole."""

TEXT_CHARS_MAX: Final = 4_096  # of a text behind them
_KEPT_CHARS: Final = 1_024
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_decode: Final = msgspec.json.Decoder(str).decode
_encode: Final = msgspec.json.Encoder().encode


class Cutting:
    """Cuts the bodies of a session. room: the bytes that it leaves whole. cut: how many texts it has cut."""

    def __init__(self, room: int = WHOLE_BYTES) -> None:
        self.cut = 0
        self._room = room

    @property
    def is_over(self) -> bool:
        """Return whether the room is used up, so that long texts are cut."""
        return self._room <= 0

    def body(self, seq: int, body: bytes) -> bytes:
        """Return a body as it is in the page."""
        self._room -= len(body)
        return self.short(seq, body) if self.is_over and len(body) > TEXT_CHARS_MAX else body

    def short(self, seq: int, value: bytes) -> bytes:
        """Return JSON with its long texts cut. seq: of the event that holds them."""
        return _STRING.sub(lambda found: self._text(seq, found[0]), value)

    def _text(self, seq: int, written: bytes) -> bytes:
        if len(written) <= TEXT_CHARS_MAX:
            return written
        text = _decode(written)
        if len(text) <= TEXT_CHARS_MAX:
            return written
        self.cut += 1
        left = len(text) - _KEPT_CHARS
        return _encode(
            f"{text[:_KEPT_CHARS]}… [{left:,} more characters are not in this page: event {seq} has them]"
        )
