"""Text from models, tools, agents and logs, made safe for a terminal.

Such text may attack the reader's terminal. Escape sequences clear screens, retitle windows, fill clipboards
(OSC 52) and hide text. Carriage returns and line breaks forge lines that look like ours. Bidirectional
controls change the order of the text. The log keeps the text unchanged; here it loses these powers only:

  - colours (SGR sequences) are dropped, because tools often print in colour;
  - other control characters are shown as their pictures (`␛`), so that hidden text is seen;
  - characters without a picture (C1, bidirectional overrides, invisible tags, lone surrogates) become U+FFFD;
  - JSON gets `\\uXXXX` escapes instead, which mean the same value.
"""

import re
from typing import Final

_COLOUR: Final = re.compile(r"(?:\x1b\[|\x9b)[0-9;:]*m")
_MARKS: Final = re.compile("[\u061c\u200e\u200f]")
"""Left-to-right and right-to-left marks: normal in Hebrew and Arabic text, so they are dropped, not shown."""

_BREAKS: Final = re.compile("\r\n|[\u2028\u2029]")
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)
_UNSAFE_IN_JSON: Final = re.compile(
    "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
_SPACE: Final = re.compile(r"\s+")


def safe_text(text: str) -> str:
    """Make a text safe for a terminal; line breaks and tabs stay.

    >>> safe_text("a\\x1b[31mred\\x1b[0m \\x1b[2Jb")
    'ared ␛[2Jb'
    """
    if text.isascii() and text.isprintable():
        return text
    # Colours go first: the text that is left after a sequence is dropped may form another sequence.
    text = _COLOUR.sub("", _BREAKS.sub("\n", text))
    return _UNSAFE.sub(_picture, _MARKS.sub("", text))


def safe_line(text: str, longest: int = 0) -> str:
    """Make a text safe on one line, each run of white space as one space.

    longest: cut it to this many characters; 0 does not cut.

    >>> safe_line("done\\r\\n[callboard] all is well", 12)
    'done [callb…'
    """
    if longest:
        text = text[: 4 * longest]  # bounds the work: at most `longest` characters are shown
    line = _SPACE.sub(" ", safe_text(text)).strip()
    return line if not longest or len(line) <= longest else line[: longest - 1] + "…"


def safe_json(data: bytes) -> bytes:
    """Escape a JSON text so that it is safe for a terminal; its value stays the same."""
    text = data.decode("utf-8", "replace")
    return _UNSAFE_IN_JSON.sub(_escape, text).encode()


def indented(text: str, margin: str = "  | ") -> str:
    """Put each line of a foreign text behind a margin, so that none can pass for ours."""
    return "\n".join(margin + line for line in safe_text(text).split("\n"))


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))
