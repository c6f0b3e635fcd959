"""Reading whole files and folders by their descriptors."""

import errno
import os
import stat
from typing import Final, Literal, NamedTuple, TypeAlias

from callboard.actors.protocol.errors import FileError, FileReason
from callboard.runtime.files.paths import shown

READ_BYTES_MAX: Final = 10_000_000
"""Bytes of a file that are read; a longer one is refused."""

EntryKind: TypeAlias = Literal["file", "folder", "link", "other"]
"""The kind of an entry of a folder. Links are not followed; `other` is a device, a pipe or a socket."""

_ATTEMPTS: Final = 3
_REASONS: Final[dict[int, tuple[FileReason, str]]] = {
    errno.ENOENT: ("missing", "there is no such file"),
    errno.ELOOP: ("link", "a part of it is a link, and links are not followed"),
    errno.EXDEV: ("bad_path", "it leads out of the root"),
    errno.ENOTDIR: ("failed", "a part of it is not a folder"),
    errno.EISDIR: ("folder", "it is a folder"),
    errno.ENXIO: ("special", "it is a pipe, a socket or a device"),
    errno.ENAMETOOLONG: ("bad_path", "a name of it is too long"),
}


class Entry(NamedTuple):
    """An entry of a folder. path: from the root. bytes: of a file, else 0."""

    path: str
    kind: EntryKind
    bytes: int


def refused(path: str, error: OSError) -> FileError:
    """Return the error for a tool, in words that hold no place of the machine."""
    reason, words = _REASONS.get(error.errno or 0, ("failed", ""))
    return FileError(f"{shown(path)}: {words or os.strerror(error.errno or errno.EIO).lower()}", reason)


def read_whole(file: int, path: str, max_bytes: int, *, hard_links: bool) -> bytes:
    """Read an open file as it was at one moment. Raises FileError, OSError.

    hard_links: True reads a file with several names, of which one may lie outside of the root.
    """
    for _ in range(_ATTEMPTS):
        before = os.fstat(file)
        _check(before, path, max_bytes, hard_links)
        data = os.pread(file, before.st_size + 1, 0)
        if len(data) > before.st_size:
            data = _rest(file, data, path, max_bytes)
        after = os.fstat(file)
        if after.st_mtime_ns == before.st_mtime_ns and after.st_size == before.st_size:
            return data
    raise FileError(f"{shown(path)}: it changes while it is read; try again later", "changed")


def _check(found: os.stat_result, path: str, max_bytes: int, hard_links: bool) -> None:
    check_plain(found, path)
    if found.st_nlink > 1 and not hard_links:
        raise FileError(
            f"{shown(path)}: it has {found.st_nlink} names, and one may lie outside of the root", "hard_link"
        )
    if found.st_size > max_bytes:
        raise _too_large(path, f"{found.st_size:,}", max_bytes)


def check_plain(found: os.stat_result, path: str) -> None:
    """Refuse all but plain files. Raises FileError."""
    if stat.S_ISDIR(found.st_mode):
        raise FileError(f"{shown(path)}: it is a folder", "folder")
    if not stat.S_ISREG(found.st_mode):
        raise FileError(f"{shown(path)}: it is a pipe, a socket or a device", "special")


def _rest(file: int, data: bytes, path: str, max_bytes: int) -> bytes:
    """Read a file to its end: it has grown, or it is one that the system makes up, with size 0."""
    while len(data) <= max_bytes:
        more = os.pread(file, 65_536, len(data))
        if not more:
            return data
        data += more
    raise _too_large(path, f"more than {max_bytes:,}", max_bytes)


def _too_large(path: str, found: str, max_bytes: int) -> FileError:
    return FileError(f"{shown(path)}: it has {found} bytes, and at most {max_bytes:,} are read", "large")


def entries_of(folder: int, path: str) -> list[Entry]:
    """Return the entries of an open folder in the order of their names, with paths below `path`."""
    start = "" if path == "." else f"{path}/"
    with os.scandir(folder) as found:
        return sorted([Entry(start + entry.name, *_kind(entry)) for entry in found])


def _kind(entry: "os.DirEntry[str]") -> tuple[EntryKind, int]:
    try:
        if entry.is_file(follow_symlinks=False):
            return "file", entry.stat(follow_symlinks=False).st_size
        if entry.is_dir(follow_symlinks=False):
            return "folder", 0
        return "link" if entry.is_symlink() else "other", 0
    except OSError:  # it went away meanwhile
        return "other", 0
