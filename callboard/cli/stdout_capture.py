"""A stream that forwards whole lines: the output of tools and modules while a tree is drawn.

It replaces `sys.stdout` while user code runs, because stdout is for results.
"""

import io
import threading
from collections.abc import Callable
from typing import Final

_LONGEST: Final = 10_000
"""Characters of a line without an end, after which it is forwarded."""


class StdoutCapture(io.TextIOBase):
    """A text stream that passes each whole line to `say`, from any thread."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._rest = ""
        self._lock = threading.RLock()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has an attribute; programs only read it
        """Return UTF-8; programs read it, nothing is encoded here."""
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        """Return "strict"; programs read it, nothing is encoded here."""
        return "strict"

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Forward the lines that are complete now."""
        with self._lock:
            *lines, rest = (self._rest + text).split("\n")
            self._rest = rest if len(rest) <= _LONGEST else ""
            for line in [*lines, *([rest] if len(rest) > _LONGEST else [])]:
                self._say(line)
        return len(text)

    def flush(self) -> None:
        """Forward the text that has no line end yet."""
        with self._lock:
            rest, self._rest = self._rest, ""
            if rest:
                self._say(rest)
