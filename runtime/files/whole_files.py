"""Reading and writing whole files: no reader ever sees a half."""

import contextlib
import errno
import itertools
import os
import re
import stat
from typing import Final, Literal, NamedTuple, TypeAlias

from callboard.actors.protocol.errors import FileError, FileReason
from callboard.runtime.files.opening import CAN_OPEN_BELOW, FOLDER, Opener, shown

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
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | (os.O_NOFOLLOW | os.O_CLOEXEC if CAN_OPEN_BELOW else 0)
_COUNT: Final = itertools.count()
_UNFINISHED: Final = re.compile(r"\.callboard-\d+-\d+\.tmp")


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


def write_whole(root: int, opener: Opener, path: str, data: bytes) -> None:
    """Write a file and the folders above it, also in place of another file. Raises FileError, OSError."""
    above, _, name = path.rpartition("/")
    folder = _folder(root, opener, above or ".")
    try:
        mode = _mode(folder, name, path)
        _replace(folder, name, data, mode)
    finally:
        os.close(folder)


def _folder(root: int, opener: Opener, path: str) -> int:
    try:
        return opener(root, path, FOLDER)
    except FileNotFoundError:
        return _made(root, opener, path)


def _made(root: int, opener: Opener, path: str) -> int:
    """Make the folders that are missing, and open the last one."""
    current = opener(root, ".", FOLDER)
    for part in path.split("/"):
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=current)  # pathlib knows no dir_fd
            below = opener(current, part, FOLDER)
        finally:
            os.close(current)
        current = below
    return current


def _mode(folder: int, name: str, path: str) -> int | None:
    """Return the permissions of the file that is replaced, None for a new one. Raises FileError."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    check_plain(found, path)
    if found.st_nlink > 1:
        raise FileError(
            f"{shown(path)}: it has {found.st_nlink} names, and the new file would have one of them",
            "hard_link",
        )
    return stat.S_IMODE(found.st_mode) & 0o777


def _replace(folder: int, name: str, data: bytes, mode: int | None) -> None:
    other, file = _new_file(folder)
    try:
        try:
            if mode is not None:
                os.fchmod(file, mode)
            _write_all(file, data)
        finally:
            os.close(file)
        os.replace(other, name, src_dir_fd=folder, dst_dir_fd=folder)  # pathlib: no dir_fd
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(other, dir_fd=folder)  # pathlib knows no dir_fd
        raise


def is_unfinished(name: str) -> bool:
    """Return True for the name of a file that a write is about to rename, or that a killed process left."""
    return _UNFINISHED.fullmatch(name) is not None


def _new_file(folder: int) -> tuple[str, int]:
    """Make an empty file with a name of its own. An earlier process may have left some of these names."""
    while True:
        name = f".callboard-{os.getpid()}-{next(_COUNT)}.tmp"
        with contextlib.suppress(FileExistsError):
            return name, os.open(name, _NEW, 0o666, dir_fd=folder)


def _write_all(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
