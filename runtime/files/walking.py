"""Walks over the files below a folder, for searches."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from callboard.actors.protocol.errors import FileError
from callboard.runtime.files.reading import Entry

ENTRIES_MAX: Final = 100_000
"""Entries that a walk looks at."""

DEPTH_MAX: Final = 64
"""Folders within each other that a walk enters."""

SKIPPED: Final = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        ".venv",
        "__pycache__",
        "node_modules",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
    }
)
"""Names of folders that a walk does not enter, unless it begins there."""


class Walk:
    """The files below a folder, in the order of their paths. Links are neither followed nor listed.

    path: of the folder. is_cut: True once a walk has left something out, because a bound was reached.
    """

    def __init__(self, entries: Callable[[str], Sequence[Entry]], path: str) -> None:
        self._entries = entries
        self.path = path
        self._left = ENTRIES_MAX
        self.is_cut = False

    def __iter__(self) -> Iterator[Entry]:
        self._left, self.is_cut = ENTRIES_MAX, False
        yield from self._below(self._entries(self.path), DEPTH_MAX)

    def _below(self, entries: Sequence[Entry], depth: int) -> Iterator[Entry]:
        for entry in entries:
            if self._left <= 0:
                self.is_cut = True
                return
            self._left -= 1
            if entry.kind == "file":
                yield entry
            elif entry.kind == "folder":
                yield from self._entered(entry, depth)

    def _entered(self, folder: Entry, depth: int) -> Iterator[Entry]:
        if folder.path.rpartition("/")[2] in SKIPPED:
            return
        if not depth:
            self.is_cut = True
            return
        try:
            entries = self._entries(folder.path)
        except FileError:  # it went away, became a link, or may not be read by the user
            return
        yield from self._below(entries, depth - 1)
