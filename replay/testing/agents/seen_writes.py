"""Sees the files that a function writes by itself, without `ctx.files`: by the audit events of PEP 578.

A hook cannot be removed, so one hook serves the process, and ignores every event outside a watched call.

A file that the function makes counts only if it is still there at the end, so a scratch file does not. A
device and a compiled module in `__pycache__` do not count either. Not seen are threads, started programs and
libraries in C that open files without Python, such as SQLite.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Final

_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_EVENTS: Final = frozenset({"open", "os.mkdir", "os.truncate", "os.remove", "os.rmdir", "os.rename"})
"""The events about paths. The last arguments are folders to which a path is relative, -1 for none."""

_COMPILED: Final = "__pycache__"


class Writes:
    """The files of one call. made: written or made by it. gone: there before, and removed or moved."""

    def __init__(self) -> None:
        self._made: dict[str, None] = {}
        self._gone: dict[str, None] = {}

    def take(self, event: str, args: tuple[object, ...]) -> None:
        """Take in an audit event."""
        made, gone = _made_and_gone(event, args)
        self._remove(gone)
        self._make(made)

    def found(self) -> list[str]:
        """Return a line for each file, in the order of the call."""
        kept = [path for path in self._made if Path(path).is_file() or Path(path).is_dir()]
        made = [f"writes the file {path!r:.80}" for path in kept]
        return made + [f"removes the file {path!r:.80}" for path in self._gone if not os.path.lexists(path)]

    def _make(self, path: object) -> None:
        if (name := _counted(path)) is not None:
            self._made[name] = None

    def _remove(self, path: object) -> None:
        if (name := _counted(path)) is not None and name not in self._made and os.path.lexists(name):
            self._gone[name] = None


_watched: ContextVar[Writes | None] = ContextVar("watched", default=None)


@contextmanager
def watched_writes() -> Iterator[Writes]:
    """Watch the files of this thread and task while the block runs."""
    _install()
    writes = Writes()
    token = _watched.set(writes)
    try:
        yield writes
    finally:
        _watched.reset(token)


def _made_and_gone(event: str, args: tuple[object, ...]) -> tuple[object, object]:
    """Return the path that an event makes, and the one that it takes away; None for no path."""
    match event, args:
        case "open", (path, _, int() as flags) if flags & _WRITES and not _is_folder(path):
            return path, None
        case (("os.mkdir" | "os.truncate"), (path, *_)):
            return path, None
        case (("os.remove" | "os.rmdir"), (path, -1)):
            return None, path
        case "os.rename", (path, target, -1, -1):
            return target, path
        case _:
            return None, None


def _is_folder(path: object) -> bool:
    """Return True for a folder: `tempfile` names the folder of a nameless file in place of the file."""
    return isinstance(path, str | bytes | os.PathLike) and Path(os.fsdecode(path)).is_dir()


def _counted(path: object) -> str | None:
    """Return the absolute path that an event names; None for one that does not count."""
    if not isinstance(path, str | bytes | os.PathLike):
        return None  # an open descriptor
    name = Path(os.fsdecode(path)).absolute()
    return None if _COMPILED in name.parts else str(name)


@cache
def _install() -> None:
    sys.addaudithook(_hook)


def _hook(event: str, args: tuple[object, ...]) -> None:
    if event in _EVENTS and (writes := _watched.get()) is not None:
        writes.take(event, args)
