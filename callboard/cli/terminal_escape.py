"""Text from models, tools, agents and logs, made safe to show on a terminal.

Whoever writes that text is not to be trusted with the reader's terminal: escape sequences clear screens,
retitle windows, fill clipboards (OSC 52) and hide text; carriage returns and line breaks forge lines that
look like ours; bidirectional controls show text in another order than it has. The log keeps the text as it
came; here, on its way to people, it loses these powers and nothing else:

  - colours (SGR sequences) are dropped: tools that print in colour are common, and mean no harm;
  - every other control character is shown as a picture of itself (`␛`), so that what was hidden is seen;
  - what has no picture (C1, bidirectional overrides, invisible tags, lone surrogates) becomes U+FFFD;
  - JSON gets `\\uXXXX` escapes instead, which mean the same value.

The order matters: colours first, then single characters, so that what is left after dropping a sequence
cannot be a sequence.
"""

import re
from typing import Final

_COLOUR: Final = re.compile(r"(?:\x1b\[|\x9b)[0-9;:]*m")
_MARKS: Final = re.compile("[\u061c\u200e\u200f]")
"""Left-to-right and right-to-left marks: right in Hebrew and Arabic text, and too weak to be shown."""

_BREAKS: Final = re.compile("\r\n|[\u2028\u2029]")
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)
_UNSAFE_IN_JSON: Final = re.compile(
    "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
_SPACE: Final = re.compile(r"\s+")
_ELLIPSIS: Final = "…"


def safe_text(text: str) -> str:
    """The text with its line breaks and tabs, and without power over the terminal.

    >>> safe_text("a\\x1b[31mred\\x1b[0m \\x1b[2Jb")
    'ared ␛[2Jb'
    """
    if text.isascii() and text.isprintable():
        return text
    text = _COLOUR.sub("", _BREAKS.sub("\n", text))
    return _UNSAFE.sub(_picture, _MARKS.sub("", text))


def safe_line(text: str, longest: int = 0) -> str:
    """The same on one line, runs of space as one; cut to so many characters (0: not cut).

    >>> safe_line("done\\r\\n[callboard] all is well", 12)
    'done [callb…'
    """
    if longest:
        text = text[: 4 * longest]  # no work on what is not shown
    line = _SPACE.sub(" ", safe_text(text)).strip()
    return line if not longest or len(line) <= longest else line[: longest - 1] + _ELLIPSIS


def safe_json(data: bytes) -> bytes:
    """JSON text of the same value in which no character has power over a terminal."""
    text = data.decode("utf-8", "replace")
    return _UNSAFE_IN_JSON.sub(_escape, text).encode()


def indented(text: str, margin: str = "  | ") -> str:
    """Foreign text of several lines, each behind a margin, so that none of them passes for ours."""
    return "\n".join(margin + line for line in safe_text(text).split("\n"))


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))
