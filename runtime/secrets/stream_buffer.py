"""A buffer for live text, which arrives in pieces: text that could be the start of a secret waits.

The waiting text is short: an end that is the start of a known value, or that looks like a part of a key
(letters, digits and a few signs without a space), or, for a user's own patterns, the unfinished line. Of a
value that goes on in the next line of base64, the whole line waits. A pattern that is longer than `MAX_CHARS`
is not found in live text, but in the log, which gets text whole.

A long waiting text is searched again once it has grown by an eighth, or a run of it has ended: a search for
each piece would be quadratic.
"""

import re
import string
from collections.abc import Callable
from typing import AnyStr, Final

from callboard.runtime.sanitize import clean_text
from callboard.runtime.secrets.redactor import PATTERN_CHARS, Redactor
from callboard.runtime.secrets.unescaping import GROWTH_MAX, Plain, has_escapes, has_lines

MAX_CHARS: Final = 4 * PATTERN_CHARS  # that wait for a pattern; a known value waits to its end
_OF_KEYS: Final = string.ascii_letters + string.digits + "_.+/=:~-%&#;'\\"  # and of their escapes
_BLOCK_BEGINS: Final = "-----BEGIN "
_BLOCK_ENDS: Final = re.compile(r"-----END [A-Z0-9 ]++-----")
# The beginning of an escape at the end of a text.
_CUT: Final = re.compile(
    rb"(?:\\+(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?)?|%[0-9a-fA-F]?|&(?:#?[0-9a-zA-Z]{0,7})|\\+u[dD][89abAB][0-9a-fA-F]{2}"
    rb"(?:\\+(?:u[0-9a-fA-F]{0,3})?)?)\Z"
)
_CUT_BYTES: Final = 40
_SHORT: Final = 256  # characters that are searched for each piece


class StreamBuffer:
    """The buffer of one stream of text. show: gets the safe text. by_line: keep the unfinished line."""

    # One for each model call in flight.
    __slots__ = ("_by_line", "_due", "_redactor", "_run", "_show", "_waiting")

    def __init__(self, redactor: Redactor, show: Callable[[str], object], *, by_line: bool = False) -> None:
        self._redactor = redactor
        self._show = show
        self._by_line = by_line
        self._waiting = ""
        self._due = 0  # characters from which the waiting text is searched again
        self._run = False  # it waits since it may be a part of a key

    def take(self, piece: str) -> None:
        """Add a piece, and show the text that is safe."""
        text = self._waiting + piece
        # Half of a surrogate pair waits: its other half may come with the next piece.
        half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        text = text[: len(text) - len(half)]
        if len(text) < self._due and not (self._run and self._tail(piece)):
            self._waiting = text + half
            return
        text = clean_text(text)
        at = len(text) if self._redactor.is_idle else self._safe(text)
        self._waiting = text[at:] + half
        left = len(text) - at
        self._due = left + left // 8 if left > _SHORT else 0
        self._show_clean(text[:at])

    def end(self) -> None:
        """Show the rest."""
        # The start of a value that never came whole is not a secret.
        text, self._waiting = self._waiting, ""
        self._show_clean(text)

    def _show_clean(self, text: str) -> None:
        if text:
            self._show(self._redactor.text(text))

    def _tail(self, text: str) -> int:
        """Return the place from which on a text may be a part of a key, or of a line that has not ended."""
        return text.rfind("\n") + 1 if self._by_line else len(text.rstrip(_OF_KEYS))

    def _safe(self, text: str) -> int:
        """Return the place up to which no secret can be incomplete."""
        first = max(0, len(text) - MAX_CHARS)
        at = self._tail(text)
        self._run = at < len(text)
        if (begin := _open_block(text, first)) < at:
            at, self._run = begin, False
        if len(text) - at >= MAX_CHARS:
            at = len(text)
        at = min([at, *(_start_of(literal, text) for literal in self._redactor.literals)])
        at = min(at, self._escaped(text))
        if not self._redactor.finds(text):
            return at
        data = text.encode()
        for span in reversed(self._redactor.spans(data)):
            if span.start < len(text[:at].encode()) < span.end:
                at = _line_start(text, len(data[: span.start].decode()))
        return at

    def _escaped(self, text: str) -> int:
        """Return the start of a value that has escapes or is in lines and may go on, else the length."""
        values = self._redactor.plain_values
        first = max(0, len(text) - GROWTH_MAX * max(map(len, values), default=0))
        tail = text[first:].encode()
        if not values or not (has_escapes(tail) or has_lines(tail)):
            return len(text)
        cut = _CUT.search(tail, max(0, len(tail) - _CUT_BYTES))
        end = cut.start() if cut else len(tail)
        plain = Plain(tail[:end])
        for level, data in enumerate((tail[:end], *plain.levels), -1):  # -1 is the text as it came
            start = min(_start_of(value, data) for value in values)
            if start < len(data):
                end = min(end, plain.came_from(level, start, start + 1)[0])
        at = first + len(tail[:end].decode())
        return at if at == len(text) else _line_start(text, at)


def _line_start(text: str, at: int) -> int:
    """Return the start of the run of characters of keys that goes on at a place.

    A line is known as one of base64 by its length, so it waits whole.
    """
    first = max(0, at - MAX_CHARS)
    return first + len(text[first:at].rstrip(_OF_KEYS))


def _open_block(text: str, first: int) -> int:
    """Return the place of the first block that has begun and not ended, else the text's length."""
    for end in _BLOCK_ENDS.finditer(text, first):
        first = end.end()
    begin = text.find(_BLOCK_BEGINS, first)
    return begin if begin >= 0 else len(text)


def _start_of(literal: AnyStr, text: AnyStr) -> int:
    """Return the place where the text's end is the start of the literal, else the text's length."""
    first = literal[:1]
    at = text.find(first, max(0, len(text) - len(literal) + 1))
    while at >= 0:
        if literal.startswith(text[at:]):
            return at
        at = text.find(first, at + 1)
    return len(text)
