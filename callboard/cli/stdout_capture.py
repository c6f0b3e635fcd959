"""A stream that hands on whole lines: what tools and modules print while a tree is drawn.

stdout is for results, so while a user's code runs `sys.stdout` is replaced by one of these.
"""

import io
import threading
from collections.abc import Callable
from typing import Final

_LONGEST: Final = 10_000
"""Characters of a line that never ends, after which it is handed on all the same."""


class StdoutCapture(io.TextIOBase):
    """Text in, whole lines out, from any thread."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._rest = ""
        self._lock = threading.RLock()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has an attribute; programs only read it
        """As any text stream has it."""
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        """Nothing is ever encoded here."""
        return "strict"

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, text: str) -> int:
        """Hand on the lines that are complete now."""
        with self._lock:
            *lines, rest = (self._rest + text).split("\n")
            self._rest = rest if len(rest) <= _LONGEST else ""
            for line in [*lines, *([rest] if len(rest) > _LONGEST else [])]:
                self._say(line)
        return len(text)

    def flush(self) -> None:
        """Hand on what has no line end yet."""
        with self._lock:
            rest, self._rest = self._rest, ""
            if rest:
                self._say(rest)
