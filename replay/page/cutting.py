"""Long texts of a large session, cut: a page is one file, and a browser holds no text of more than 512 MB.

The first bodies are in the page whole. Behind them, texts of more than 4,096 characters are cut, and say so.
"""

import re
from typing import Final

import msgspec

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
