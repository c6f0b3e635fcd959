"""Read-only access to one folder. The tree is walked once, and no link in it is followed."""

import os
import re
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from callboard.demo.text import printable

ENTRIES_MAX: Final = 100_000
DEPTH_MAX: Final = 64
FILE_BYTES_MAX: Final = 4_000_000

_KINDS: Final = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
# O_NONBLOCK: a file that became a FIFO after the walk must not make a tool wait.
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_SKIPPED: Final = re.compile(
    r"\.(git|hg|svn|venv|eggs|yarn|[a-z]+_cache|cache|hypothesis|tox|nox|gradle|idea|next|build)|__pycache__|_build"
    r"|node_modules|(site|dist)-packages|third[_-]?party|3rdparty|_vendor|vendored|htmlcov|.*\.(egg|dist)-info"
)
_GENERATED_IF_INSIDE: Final = {"pyvenv.cfg", "conda-meta", "CACHEDIR.TAG", "CMakeCache.txt"}
_GENERATED_UNLESS_PACKAGE: Final = {"build", "dist", "target", "vendor"}


class Place(NamedTuple):
    """An entry of the tree. path: printable and unique. raw: as the system has it.

    kind: one of `_KINDS`, `skipped` (a folder of copies or caches) or `other` (a FIFO, a device).
    """

    path: str
    raw: str
    kind: str
    bytes: int


class Folder:
    """A folder and everything below it, the shallowest entries first. Raises OSError if it cannot be read."""

    def __init__(self, root: str | Path) -> None:
        self._root = os.path.realpath(root)
        os.scandir(self._root).close()  # os.walk is silent about a root that cannot be read
        self.is_cut = False
        found = sorted(islice(self._walk(), ENTRIES_MAX), key=lambda place: (place.raw.count("/"), place.raw))
        self.is_cut |= len(found) == ENTRIES_MAX
        self.places = tuple(found)

    def read(self, place: Place) -> str:
        """Return the text of a file. Raises OSError or ValueError with a sentence that says why not."""
        if place.bytes > FILE_BYTES_MAX:
            raise ValueError(f"{place.path} is too large: {place.bytes:,} bytes.")
        if not place.bytes:  # Linux makes up files of size 0, and some of them block.
            return ""
        path = f"{self._root}/{place.raw}"
        try:
            with os.fdopen(os.open(path, _FLAGS), "rb") as file:
                # A folder on the way may have become a link after the walk.
                is_same = stat.S_ISREG(os.fstat(file.fileno()).st_mode) and os.path.realpath(path) == path
                data = file.read(FILE_BYTES_MAX) if is_same else b"\0"
        except OSError as error:
            raise type(error)(f"{place.path} cannot be read: {error.strerror}.") from None
        if b"\0" in data[:8_192]:
            raise ValueError(f"{place.path} is binary, or is no longer a file of this folder.")
        return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")

    def _walk(self) -> Iterator[Place]:
        for above, folders, files in os.walk(self._root):
            prefix = os.path.relpath(above, self._root) + "/" if above != self._root else ""
            names = sorted((*folders, *files))
            folders.clear()  # os.walk goes on with the folders that are put back
            is_deep = prefix.count("/") >= DEPTH_MAX
            self.is_cut |= is_deep
            is_package = "__init__.py" in names or Path(above).name not in _GENERATED_UNLESS_PACKAGE
            if is_deep or (prefix and not (is_package and _GENERATED_IF_INSIDE.isdisjoint(names))):
                continue
            for name in names:
                info = os.lstat(f"{above}/{name}")
                kind = _KINDS.get(stat.S_IFMT(info.st_mode), "other")
                kind = "skipped" if kind == "folder" and _SKIPPED.fullmatch(name) else kind
                folders += [name] if kind == "folder" else []
                yield Place(
                    printable((prefix + name).replace("\\", "\\\\")), prefix + name, kind, info.st_size
                )
