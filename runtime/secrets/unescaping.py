r"""Text without the escapes that encoders write, and the way back to the places in the text as it came.

Encoders differ in the characters that they escape, and in how: Go writes `\u003c`, .NET `\u002B`, Rust
`\u{2b}`, shells `\+` or `\053`, browsers `%2B`, forms `+`, templates `&#34;` or `&quot;`. So the searched
text loses its escapes, instead of the value being written in all forms. JSON inside of JSON loses them in
two rounds; a value is looked for after each.
Base64 in lines loses its line breaks.

The places of secrets in a text, and the placeholders that are put there.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from typing import Final, NamedTuple

from callboard.runtime.sanitize import clean_text

ROUNDS_MAX: Final = 3  # escapes inside of escapes: a URL in JSON in a page
GROWTH_MAX: Final = 16  # bytes that an escape has for each byte that it stands for
_ESCAPE: Final = re.compile(
    rb"\\(?:u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|u(?P<unit>[0-9a-fA-F]{4})|x(?P<byte>[0-9a-fA-F]{2})|(?P<octal>[0-3][0-7]{2})"
    rb"|(?:U|u\{)(?P<long>(?<=U)[0-9a-fA-F]{8}|(?<=\{)[0-9a-fA-F]{1,6}(?=\}))\}?"
    rb"|(?P<mark>[nrtbf !-/:-@\[-`{-~]))"
    rb"|(?P<percents>%[0-7][0-9a-fA-F]|%[cCdD][0-9a-fA-F]%[89abAB][0-9a-fA-F]"
    rb"|%[eE][0-9a-fA-F](?:%[89abAB][0-9a-fA-F]){2}|%[fF][0-7](?:%[89abAB][0-9a-fA-F]){3})"
    rb"|&(?:#[xX](?P<hex>[0-9a-fA-F]{1,6})|#(?P<decimal>[0-9]{1,7})|(?P<name>quot|amp|lt|gt|apos));"
)
_BASES: Final = {"decimal": 10, "octal": 8}
MARKS: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}
NAMES: Final = {b"quot": b'"', b"amp": b"&", b"lt": b"<", b"gt": b">", b"apos": b"'"}
# Behind a line of base64: encoders write at least 60 characters on it. The next line may be still to come.
_BREAK: Final = re.compile(
    rb"(?:\r\n(?<=[A-Za-z0-9+/_-]{60}\r\n)|\n(?<=[A-Za-z0-9+/_-]{60}\n)|\r(?<=[A-Za-z0-9+/_-]{60}\r)(?=\Z))"
    rb"[ \t]*+(?=[A-Za-z0-9+/_=-]|\Z)"
)
_NUL: Final = clean_text("\0").encode()  # as the log has it
_SIGNS: Final = (b"\\", b"%", b"&")
_STEPS: Final = (*_SIGNS, b"\n")


class Plain:
    """A text without escapes. levels: its bytes after each round, none for a text that has no escapes."""

    def __init__(self, data: bytes) -> None:
        self.levels: list[bytes] = []
        self._rounds: list[_Round] = []
        for _ in range(ROUNDS_MAX):
            if has_escapes(data):
                data = self._without(data, _ESCAPE)
        if has_lines(data):
            self._without(data, _BREAK)

    def _without(self, data: bytes, pattern: "re.Pattern[bytes]") -> bytes:
        """Return data without what a pattern finds; a level of its own if that is something."""
        done = _Round(data, pattern)
        if done.data != data:
            self._rounds.append(done)
            self.levels.append(done.data)
        return done.data

    def came_from(self, level: int, start: int, end: int) -> tuple[int, int]:
        """Return the place in the text as it came. start, end: of one byte or more of a level."""
        for done in reversed(self._rounds[: level + 1]):
            start, end = done.came_from(start)[0], done.came_from(end - 1)[1]
        return start, end


class _Round:
    """One replacement."""

    def __init__(self, old: bytes, pattern: "re.Pattern[bytes]") -> None:
        self._old = old
        self._pattern = pattern
        self._known: dict[bytes, bytes] = {}
        self.data = pattern.sub(self._new if pattern is _ESCAPE else b"", old)

    def _new(self, found: "re.Match[bytes]") -> bytes:
        """Return the bytes in place of an escape, or of a break."""
        written = found[0]
        new = self._known.get(written)
        if new is None:
            new = self._known[written] = _meant(found) if self._pattern is _ESCAPE else b""
        return new

    @cached_property
    def _places(self) -> tuple[list[int], list[tuple[int, int, int]]]:
        """Return the starts of the escapes in the new data; their starts and ends in the old, and sizes."""
        # Few texts need them: those with a secret.
        starts, olds = [], []
        saved = 0
        for found in self._pattern.finditer(self._old):
            start, end = found.span()
            size = len(self._new(found))
            starts.append(start - saved)
            olds.append((start, end, size))
            saved += end - start - size
        return starts, olds

    def came_from(self, place: int) -> tuple[int, int]:
        """Return start and end of the byte, or of the escape, at a place."""
        starts, olds = self._places
        number = bisect_right(starts, place) - 1
        if number < 0:
            return place, place + 1
        start, end, size = olds[number]
        inside = place - starts[number]
        return (start, end) if inside < size else (end + inside - size, end + inside - size + 1)


def _meant(found: "re.Match[bytes]") -> bytes:
    """Return the bytes that an escape stands for, as UTF-8."""
    kind, text = found.lastgroup, found[found.lastgroup or 0]
    if kind == "mark":
        return MARKS.get(text, text)
    if kind == "percents":
        return (
            bytes.fromhex(text.replace(b"%", b"").decode())
            .decode("utf-8", "replace")
            .encode()
            .replace(b"\0", _NUL)
        )
    if kind == "name":
        return NAMES[text]
    if kind == "low":
        return _utf8(0x10000 + ((int(found["high"], 16) & 0x3FF) << 10) + (int(text, 16) & 0x3FF))
    return _utf8(int(text, _BASES.get(kind or "", 16)))


def _utf8(code: int) -> bytes:
    return clean_text(chr(code)).encode() if code < 0x110000 else b"?"


def has_escapes(data: bytes) -> bool:
    """Return False for data that certainly has no escapes."""
    return any(data.find(sign) >= 0 for sign in _SIGNS)


def has_lines(data: bytes) -> bool:
    """Return True for data with a line end that base64 may have."""
    return _BREAK.search(data) is not None


def steps_of(data: bytes) -> int:
    """Return about how many steps of Python it takes to read the escapes of data."""
    return sum(map(data.count, _STEPS))


class Found(NamedTuple):
    """The place of a secret. is_rest: it stands for all of the text from there on, which was not searched."""

    start: int
    end: int
    name: str
    is_rest: bool = False


def placeholder(name: str) -> str:
    """Return the text that replaces a secret."""
    return f"[secret:{name}]"


def merged(places: Iterable[Found]) -> list[Found]:
    """Return places in order. Those that overlap are one, named after the first."""
    found: list[Found] = []
    for each in sorted(places, key=lambda each: (each.start, -each.end)):
        if found and each.start < found[-1].end:
            last = found[-1]
            found[-1] = last._replace(end=max(last.end, each.end), is_rest=last.is_rest or each.is_rest)
        else:
            found.append(each)
    return found


def with_placeholders(data: bytes, end: int, places: Iterable[Found]) -> bytes:
    """Return the data up to an end, with placeholders. A secret at the end is replaced whole."""
    parts, at = [], 0
    for found in places:
        if found.start < end:
            parts += [data[at : found.start], placeholder(found.name).encode()]
            at = found.end
    return b"".join([*parts, data[at:end]])
