"""Server-sent events: the bytes of a stream, event by event, each as it came.

Only `data` lines are read: no dialect tells anything in the others that its data does not hold.
"""

import json
from collections.abc import Iterator
from typing import Any, Protocol

from callboard.runtime.models.layered.dialects import JsonObject


class Mender(Protocol):
    """Puts the events of an answer in the form that the layer joins rightly."""

    def take(self, event: bytes) -> bytes:
        """Take an event. Return the events to read in its place."""

    def end(self) -> bytes:
        """Return the events to read at the end of the stream."""


class Split:
    """Splits a stream into its events."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []  # of the event that has not ended
        self._line: list[bytes] = []  # the pieces of the line that has not ended

    def take(self, data: bytes) -> Iterator[bytes]:
        """Return the events that end in these bytes, each with the blank line that ends it."""
        self._line.append(data)
        if b"\n" not in data and b"\r" not in data:
            return
        lines = b"".join(self._line).splitlines(keepends=True)
        # The end of a line may go on: "\r" now, "\n" in the next bytes.
        self._line = [] if lines[-1].endswith(b"\n") else [lines.pop()]
        for line in lines:
            self._lines.append(line)
            if line in (b"\n", b"\r\n", b"\r"):
                yield b"".join(self._lines)
                self._lines = []

    def end(self) -> bytes:
        """Return the bytes after the last event."""
        rest = b"".join((*self._lines, *self._line))
        self._lines, self._line = [], []
        return rest


def data_of(event: bytes) -> bytes:
    """Return the data of an event."""
    if event.startswith(b"data: ") and event.count(b"\n") == 2:  # nearly every one
        return event[6:].strip()
    lines = (line for line in event.splitlines() if line.startswith(b"data:"))
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines)


def value_of(event: bytes) -> Any:
    """Return the JSON value that is the data of an event. Raises ValueError."""
    # Not by msgspec, which refuses the half of a surrogate pair: the other half may be in the next piece.
    return json.loads(data_of(event))


def event_of(value: JsonObject) -> bytes:
    """Return an event with this data."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"
