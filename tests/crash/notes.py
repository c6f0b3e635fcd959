"""Notes that survive the killed process: a JSON document a line, synced to disk before the process goes on.

`effects` counts the changes that tools made to the world, `seen` holds everything that the program was shown.
"""

import os
import threading
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


class Effect(msgspec.Struct, frozen=True, tag_field="note"):
    """A change that a tool made to the world.

    label: drawn by the model, the same in each run of a call. read: the number of labels in the shared state
    that the tool saw.
    """

    session: str
    label: str
    effect: str
    key: str
    process: int
    read: int = 0


class SeenEvent(msgspec.Struct, frozen=True, tag_field="note"):
    """An event that `Session.events()` gave. body: its canonical encoding."""

    session: str
    seq: int
    at: int
    sender: str
    recipient: str
    cause: int
    body: str


class SeenHead(msgspec.Struct, frozen=True, tag_field="note"):
    """A head that the log acknowledged, or that came with an outcome or a question. digest: in hex."""

    session: str
    seq: int
    digest: str


class SeenOutcome(msgspec.Struct, frozen=True, tag_field="note"):
    """An outcome that `ask` or `outcome` gave."""

    session: str
    request_id: str
    kind: str
    text: str
    value: str
    usage: str


class SeenSleep(msgspec.Struct, frozen=True, tag_field="note"):
    """A session that has left memory."""

    session: str


class SeenTell(msgspec.Struct, frozen=True, tag_field="note"):
    """The answer to words for an agent. turn: of the agent that heard them, 0 if they were refused."""

    session: str
    request_id: str
    turn: int


class SeenState(msgspec.Struct, frozen=True, tag_field="note"):
    """The shared state at the end of a session. seq: of the end."""

    session: str
    seq: int
    did: tuple[str, ...]
    count: int


Seen = SeenEvent | SeenHead | SeenOutcome | SeenSleep | SeenTell | SeenState


class Notes:
    """A file that only grows. The next process ends a line that a death cut off.

    may_write: while it is not set, writers wait.
    """

    def __init__(self, path: Path, may_write: threading.Event) -> None:
        self._may_write = may_write
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, *notes: msgspec.Struct) -> None:
        """Write notes. They are durable when this returns."""
        self._may_write.wait()
        os.write(self._file, b"\n" + b"\n".join(map(msgspec.json.encode, notes)) + b"\n")
        os.fsync(self._file)


def read_effects(path: Path) -> list[Effect]:
    """Return the effects of tools, in order."""
    return _read(path, Effect)


def read_seen(path: Path) -> list[Seen]:
    """Return everything that the program was shown, in order."""
    return _read(path, Seen)  # type: ignore[arg-type]  # msgspec decodes a union too


def _read(path: Path, kind: type[T]) -> list[T]:
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    found = []
    for line in lines:
        if line.endswith(b"}"):
            found.append(msgspec.json.decode(line, type=kind))
    return found
