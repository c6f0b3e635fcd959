"""Bytes of files as text: what is text at all, and in which encoding."""

import codecs
from typing import Final

from callboard.demo.names import printable

_HEAD_BYTES: Final = 8_192
_CONTROLS: Final = bytes(set(range(32)) - set(b"\t\n\f\r\x1b")) + b"\x7f"
_CONTROLS_SHARE: Final = 0.1
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def is_binary(data: bytes) -> bool:
    """Whether these bytes are no text: they begin with zero bytes or many controls, and name no encoding."""
    head = data[:_HEAD_BYTES]
    if _marked(data) is not None:
        return False
    return b"\0" in head or len(head) - len(head.translate(None, _CONTROLS)) > len(head) * _CONTROLS_SHARE


def decoded(data: bytes) -> str:
    """The text; what is no UTF-8 becomes a replacement character, never an error."""
    return data.decode(_marked(data) or "utf-8", errors="replace")


def as_utf8(data: bytes) -> bytes:
    """The bytes as patterns expect them: UTF-8, no mark before the first line, lines that end in one way."""
    if _marked(data) is not None:
        data = decoded(data).encode("utf-8", "replace")
    return data.replace(b"\r\n", b"\n") if b"\r" in data else data


def safe_text(data: bytes) -> str:
    """The text with line ends and tabs, but without other control characters."""
    return printable(decoded(data).replace("\r\n", "\n"), keep="\n\t")


def lines_in(data: bytes) -> int:
    """How many lines there are; a last one without an end counts."""
    return data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))


def first_sentence(text: str) -> str:
    """The first sentence of a docstring or paragraph, on one line."""
    paragraph = " ".join(printable(text.strip(), keep="\n").split("\n\n", 1)[0].split())
    end = paragraph.find(". ")
    return paragraph if end < 0 else paragraph[: end + 1]


def _marked(data: bytes) -> str | None:
    return next((encoding for mark, encoding in _BOMS if data.startswith(mark)), None)
