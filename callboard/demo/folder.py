"""A folder that can be read and never left.

Rules
  - Every path is opened one name at a time from the folder's own descriptor, with O_NOFOLLOW: neither `..`
    nor a symbolic link leads out, also when the tree changes while it is read.
  - Only regular files are opened, with O_NONBLOCK; a FIFO, a socket or a device is named and left alone.
    A file of size 0 is not opened at all: files that the kernel makes up have that size, and some block.
  - Folders of another file system than the root's are not entered.
  - The tree is walked once, breadth first, so that what is cut at a limit is what lies deepest; files
    are read when asked for.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from callboard.demo import skips
from callboard.demo.facts import Kind, Skipped
from callboard.demo.names import raw, shown

ENTRIES_MAX: Final = 100_000
DEPTH_MAX: Final = 64
SCAN_BYTES_MAX: Final = 256_000_000
"""What one call of a tool reads at most, all files together."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_WHY: Final = {
    errno.ENOENT: "it is not there",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ELOOP: "it is a symbolic link, and links are not followed",
    errno.ENOTDIR: "it is no folder, or a symbolic link, and links are not followed",
    errno.ENAMETOOLONG: "its name is too long",
}


class Place(msgspec.Struct, frozen=True, gc=False):
    """An entry of the tree. raw: its path as the system has it; shown: as it is told and asked for."""

    raw: str
    shown: str
    kind: Kind
    bytes: int = 0


class Index(msgspec.Struct, frozen=True):
    """All entries, the shallowest first; what was skipped; whether the walk ended at its limit."""

    places: tuple[Place, ...]
    skipped: tuple[Skipped, ...]
    is_cut: bool = False


class Folder:
    """A folder and all below it, read-only.

    Raises NotADirectoryError if the root is none.
    """

    def __init__(self, root: str | Path, entries_max: int = ENTRIES_MAX) -> None:
        self._root = Path(root).resolve()
        if not self._root.is_dir():
            raise NotADirectoryError(f"{shown(str(root))} is not a folder.")
        self._device = self._root.stat().st_dev
        self._entries_max = entries_max
        self._lock = Lock()
        self._index: Index | None = None

    @property
    def index(self) -> Index:
        """The tree, walked on first use."""
        with self._lock:
            if self._index is None:
                self._index = self._walk()
            return self._index

    def parts(self, path: str) -> tuple[str, ...]:
        """The names of a path that a tool was given.

        Raises PermissionError for one that leads out of the folder, or into what is never looked into.
        """
        system = raw(path)
        if system.startswith("/") or "\0" in system:
            raise PermissionError(f"{path}: only paths relative to the folder can be read.")
        parts = tuple(part for part in system.split("/") if part not in ("", "."))
        if ".." in parts:
            raise PermissionError(f"{path}: paths with '..' are not followed.")
        for part in parts:
            if why := skips.by_name(part):
                raise PermissionError(f"{path}: {shown(part)} is not looked into: {why}.")
        return parts

    def at(self, path: str) -> Place:
        """The file or folder at a path. Raises OSError with a sentence that says why not."""
        parts = self.parts(path)
        if not parts:
            return Place("", ".", "folder")
        with _explained(path), self._opened(parts[:-1]) as above:
            info = os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
        joined = "/".join(parts)
        return Place(joined, shown(joined), _kind(info.st_mode), info.st_size)

    def below(self, path: str) -> list[Place]:
        """A file itself, or all that lies below a folder."""
        place = self.at(path)
        if place.kind != "folder":
            return [place]
        prefix = f"{place.raw}/" if place.raw else ""
        return [found for found in self.index.places if found.raw.startswith(prefix)]

    def skipped_below(self, path: str) -> list[Skipped]:
        """What was not looked into below a folder."""
        joined = shown("/".join(self.parts(path)))
        prefix = f"{joined}/" if joined else ""
        return [skip for skip in self.index.skipped if skip.path.startswith(prefix)]

    def read(self, place: Place, start: int = 0, size: int = 1_000_000) -> bytes:
        """Part of a file. Raises OSError with a sentence that says why not."""
        above, _, name = place.raw.rpartition("/")
        with _explained(place.shown), self._opened(above.split("/") if above else ()) as fd:
            return _read(fd, name, start, size)

    def read_all(self, places: Iterable[Place], size_max: int) -> Iterator[tuple[Place, bytes | str]]:
        """The contents of many files, or for each why there are none, within `SCAN_BYTES_MAX`."""
        left = SCAN_BYTES_MAX
        files = (place for place in places if place.kind == "file")
        for above, members in groupby(files, lambda place: place.raw.rpartition("/")[0]):
            group = list(members)
            try:
                with self._opened(above.split("/") if above else ()) as fd:
                    for place in group:
                        found = _content(fd, place, size_max, left)
                        left -= len(found) if isinstance(found, bytes) else 0
                        yield place, found
            except OSError as error:
                for place in group:
                    yield place, _why(error)

    @contextmanager
    def _opened(self, parts: Iterable[str]) -> Iterator[int]:
        fd = os.open(self._root, _FOLDER)
        try:
            for part in parts:
                below = os.open(part, _FOLDER, dir_fd=fd)
                os.close(fd)
                fd = below
                if os.fstat(fd).st_dev != self._device:
                    raise PermissionError("it is on another file system")
            yield fd
        finally:
            os.close(fd)

    def _walk(self) -> Index:
        places: list[Place] = []
        skipped: list[Skipped] = []
        waiting = deque([("", "")])
        while waiting:
            path, suspected = waiting.popleft()
            room = self._entries_max - len(places)
            try:
                entries, is_full = self._entries(path, room)
            except OSError as error:
                skipped.append(Skipped(shown(path), _why(error)))
                continue
            names = {entry.raw.rpartition("/")[2] for entry in entries}
            if path and (why := skips.by_contents(names, suspected)):
                skipped.append(Skipped(shown(path), why))
                continue
            for entry in entries:
                self._take(entry, names, places, skipped, waiting)
            if is_full:
                return Index(tuple(places), tuple(skipped), is_cut=True)
        return Index(tuple(places), tuple(skipped))

    def _take(
        self,
        entry: Place,
        names: set[str],
        places: list[Place],
        skipped: list[Skipped],
        waiting: deque[tuple[str, str]],
    ) -> None:
        """Put one entry where it belongs."""
        name = entry.raw.rpartition("/")[2]
        why = skips.by_name(name) if entry.kind == "folder" else ""
        if entry.kind == "folder" and entry.raw.count("/") + 1 >= DEPTH_MAX:
            why = "too deep"
        if why:
            skipped.append(Skipped(entry.shown, why))
            return
        places.append(entry)
        if entry.kind == "folder":
            waiting.append((entry.raw, skips.by_siblings(name, names)))

    def _entries(self, path: str, room: int) -> tuple[list[Place], bool]:
        """A folder's own entries in the order of their names, and whether there are too many of them."""
        prefix = f"{path}/" if path else ""
        found: list[Place] = []
        with self._opened(path.split("/") if path else ()) as fd, os.scandir(fd) as entries:
            for entry in entries:
                if len(found) >= room:
                    return sorted(found, key=lambda place: place.raw), True
                found.append(_place(prefix, entry))
        return sorted(found, key=lambda place: place.raw), False


def _place(prefix: str, entry: os.DirEntry[str]) -> Place:
    full = prefix + entry.name
    try:
        info = entry.stat(follow_symlinks=False)
    except OSError:
        return Place(full, shown(full), "other")
    return Place(full, shown(full), _kind(info.st_mode), info.st_size if stat.S_ISREG(info.st_mode) else 0)


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def _content(fd: int, place: Place, size_max: int, left: int) -> bytes | str:
    """A whole file below the open folder, or why not."""
    if place.bytes > size_max:
        return f"huge: {place.bytes} bytes"
    if place.bytes > left:
        return f"more than {SCAN_BYTES_MAX} bytes in one go"
    try:
        return _read(fd, place.raw.rpartition("/")[2], 0, size_max)
    except OSError as error:
        return _why(error)


def _read(fd: int, name: str, start: int, size: int) -> bytes:
    info = os.stat(name, dir_fd=fd, follow_symlinks=False)
    if not stat.S_ISREG(info.st_mode):
        raise PermissionError(f"it is no regular file but a {_said(info.st_mode)}")
    if not info.st_size:
        return b""
    file = os.open(name, _FILE, dir_fd=fd)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise PermissionError("it is no regular file any more")
        return _pread(file, start, min(size, info.st_size))
    finally:
        os.close(file)


def _pread(file: int, start: int, size: int) -> bytes:
    data = os.pread(file, size, start)
    while len(data) < size and (more := os.pread(file, size - len(data), start + len(data))):
        data += more
    return data


def _said(mode: int) -> str:
    """What kind of thing that is no regular file this is."""
    if stat.S_ISFIFO(mode):
        return "FIFO"
    if stat.S_ISLNK(mode):
        return "symbolic link, and links are not followed"
    return "folder" if stat.S_ISDIR(mode) else "socket or device"


def _why(error: OSError) -> str:
    return _WHY.get(error.errno or 0) or str(error.args[0] if error.errno is None else error.strerror)


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Errors of the system as a sentence about the path as it was asked for."""
    try:
        yield
    except OSError as error:
        raise type(error)(f"{path}: {_why(error)}.") from None
