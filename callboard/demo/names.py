"""File names and lines of text as printable text, and names back again.

A file name is bytes: it may hold a newline, an escape sequence for the terminal, or bytes that are no
UTF-8. What a model sees, a log stores and a terminal prints is `shown`; `raw` takes it back, so that a file
whose name cannot be printed can still be opened.

    in the name                      shown as
    a backslash                      \\
    newline, tab, carriage return    \n  \t  \r
    another character below 128      \x1b
    a byte that is no UTF-8          \xff      (128 and up: no clash with the line above)
    another unprintable character    \u202e  \U000e0001
"""

import re
from typing import Final

_SHORT: Final = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_LONG: Final = {short: char for char, short in _SHORT.items()}
_ESCAPE: Final = re.compile(r"\\(?:[\\nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")
_UNDECODED: Final = range(0xDC80, 0xDD00)
"""Where `os.fsdecode` puts bytes that are no UTF-8 (PEP 383)."""


def shown(name: str) -> str:
    """The name in printable characters only. `raw` is its inverse."""
    if name.isprintable() and "\\" not in name:
        return name
    return "".join(_SHORT.get(char) or _escaped(char) for char in name)


def raw(name: str) -> str:
    """The name that `shown` has shown; a backslash that starts no escape stands for itself."""
    return _ESCAPE.sub(lambda found: _char(found[0]), name) if "\\" in name else name


def printable(text: str, keep: str = "") -> str:
    """A text without anything that could move a cursor. keep: characters that stay all the same."""
    if text.isprintable():
        return text
    return "".join(" " if char == "\t" and char not in keep else _kept(char, keep) for char in text)


def clipped(text: str, length: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"


def many(count: int, word: str) -> str:
    """A number of things, in words that fit the number."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def _kept(char: str, keep: str) -> str:
    return char if char in keep else _escaped(char)


def _escaped(char: str) -> str:
    code = ord(char)
    if char.isprintable():
        return char
    if code in _UNDECODED:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _char(escape: str) -> str:
    if escape in _LONG:
        return _LONG[escape]
    code = int(escape[2:], 16)
    if escape[1] == "x" and code >= 0x80:
        return chr(0xDC00 + code)
    return chr(code) if code <= 0x10FFFF else escape
