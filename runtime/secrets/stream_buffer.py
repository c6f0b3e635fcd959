"""A buffer for live text, which arrives in pieces: text that could be the start of a secret waits.

The waiting text is short: an end that is the start of a known value, or that looks like a part of a key
(letters, digits and a few signs without a space), or, for a user's own patterns, the unfinished line. A
pattern that is longer than `MAX_CHARS` is not found in live text, but in the log, which gets text whole.
"""

import re
from collections.abc import Callable
from typing import Final

from callboard.runtime.sanitize import clean_text
from callboard.runtime.secrets.redactor import PATTERN_CHARS, Redactor

MAX_CHARS: Final = 4 * PATTERN_CHARS  # that wait for a pattern; a known value waits to its end
_KEY_TAIL: Final = re.compile(r"[A-Za-z0-9_.+/=:~-]*+\Z")
_LINE_TAIL: Final = re.compile(r"[^\n]*+\Z")
_OPEN_BLOCK: Final = re.compile(r"-----BEGIN (?![\s\S]*-----END [A-Z0-9 ]+-----)[\s\S]*\Z")


class StreamBuffer:
    """The buffer of one stream of text. show: gets the safe text. by_line: keep the unfinished line."""

    __slots__ = ("_redactor", "_show", "_tail", "_waiting")  # one for each model call in flight

    def __init__(self, redactor: Redactor, show: Callable[[str], object], *, by_line: bool = False) -> None:
        self._redactor = redactor
        self._show = show
        self._tail = _LINE_TAIL if by_line else _KEY_TAIL
        self._waiting = ""

    def take(self, piece: str) -> None:
        """Add a piece, and show the text that is safe."""
        text = self._waiting + piece
        # Half of a surrogate pair waits: its other half may come with the next piece.
        half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        text = clean_text(text[: len(text) - len(half)])
        at = len(text) if self._redactor.is_idle else self._safe(text)
        self._waiting = text[at:] + half
        self._show_clean(text[:at])

    def end(self) -> None:
        """Show the rest."""
        # The start of a value that never came whole is no secret.
        text, self._waiting = self._waiting, ""
        self._show_clean(text)

    def _show_clean(self, text: str) -> None:
        if text:
            self._show(self._redactor.text(text))

    def _safe(self, text: str) -> int:
        """Return the place up to which no secret can be incomplete."""
        at = len(text)
        for tail in (self._tail, _OPEN_BLOCK):
            found = tail.search(text, max(0, len(text) - MAX_CHARS))
            at = min(at, found.start()) if found else at
        if len(text) - at >= MAX_CHARS:
            at = len(text)
        at = min([at, *(_start_of(literal, text) for literal in self._redactor.literals)])
        if not self._redactor.finds(text):
            return at
        data = text.encode()
        cut = len(text[:at].encode())
        for span in self._redactor.spans(data):
            if span.start < cut < span.end:
                return len(data[: span.start].decode())
        return at


def _start_of(literal: str, text: str) -> int:
    """Return the place where the text's end is the start of the literal, else the text's length."""
    at = text.find(literal[0], max(0, len(text) - len(literal) + 1))
    while at >= 0:
        if literal.startswith(text[at:]):
            return at
        at = text.find(literal[0], at + 1)
    return len(text)
