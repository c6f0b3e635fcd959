"""Text files: their encoding and line ends, so that an edit keeps both."""

import codecs
from typing import Final, Literal, NamedTuple, TypeAlias

from callboard.actors.protocol.errors import FileError
from callboard.runtime.files.opening import shown

_BINARY_IF_IN: Final = 8_192  # bytes in which a NUL means that a file is not text
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
LineEnd: TypeAlias = Literal["\n", "\r\n"]
"""The end of every line of a file. A file with both has `\\n`, and `\\r` at the ends of some lines."""


class Text(NamedTuple):
    """The text of a file. bom: the mark at its beginning. is_exact: False if U+FFFD replaced bytes."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""
    line_end: LineEnd = "\n"
    is_exact: bool = True

    def encoded(self, text: str) -> bytes:
        """Return another text as bytes, with the encoding and line ends of this one."""
        if self.line_end == "\r\n":
            text = text.replace("\n", "\r\n")
        return self.bom + text.encode(self.encoding)


def decoded(data: bytes, path: str) -> Text:
    """Decode the bytes of a text file; its lines end with `\\n`. Raises FileError for a binary one."""
    bom, encoding = _mark(data)
    if not encoding.startswith("utf-16") and b"\0" in data[:_BINARY_IF_IN]:
        raise FileError(f"{shown(path)}: it is binary, {len(data):,} bytes", "binary")
    text, is_exact = _text_in(data[len(bom) :] if bom else data, encoding)
    found = Text(text, encoding, bom, "\n", is_exact)
    return _with_line_ends(found) if "\r" in text else found


def _text_in(raw: bytes, encoding: str) -> tuple[str, bool]:
    """Return the text, and True if every byte of it could be decoded."""
    try:
        return raw.decode(encoding), True
    except UnicodeDecodeError:
        return raw.decode(encoding, "replace"), False


def _mark(data: bytes) -> tuple[bytes, str]:
    """Return the mark at the beginning of a text, and the encoding that it stands for."""
    return next(((bom, name) for bom, name in _BOMS if data.startswith(bom)), (b"", "utf-8"))


def _with_line_ends(found: Text) -> Text:
    """Return the text with `\\n` alone where every line ends with `\\r\\n`."""
    pairs = found.text.count("\r\n")
    if pairs == found.text.count("\n") == found.text.count("\r"):
        return found._replace(text=found.text.replace("\r\n", "\n"), line_end="\r\n")
    return found
