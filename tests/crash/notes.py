"""What is kept outside of the process that is killed: a JSON document a line, on disk before it goes on.

`effects` counts what tools did to the world, `seen` what the program was told. What stands there was written
and synced before the process died, and before it went on.
"""

import os
import threading
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


class Effect(msgspec.Struct, frozen=True, tag_field="note"):
    """A tool changed the world. label: the same for every run of one call, made up by the model."""

    session: str
    label: str
    effect: str
    key: str
    process: int


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


Statistics = SeenEvent | SeenHead | SeenOutcome


class StepDigests:
    """A file that is only ever appended to; a line that a death cut off is ended by the next one.

    may_write: while it is not set, whoever wants to note something waits.
    """

    def __init__(self, path: Path, may_write: threading.Event) -> None:
        self._may_write = may_write
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, *notes: msgspec.Struct) -> None:
        """Keep notes, for good when this returns."""
        self._may_write.wait()
        os.write(self._file, b"\n" + b"\n".join(map(msgspec.json.encode, notes)) + b"\n")
        os.fsync(self._file)


def read_effects(path: Path) -> list[Effect]:
    """What tools did, in order."""
    return _read(path, Effect)


def read_seen(path: Path) -> list[Statistics]:
    """What the program was told, in order."""
    return _read(path, Statistics)  # type: ignore[arg-type]  # a union is as good as a type here


def _read(path: Path, kind: type[T]) -> list[T]:
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    found = []
    for line in lines:
        if line.endswith(b"}"):
            found.append(msgspec.json.decode(line, type=kind))
    return found
