"""Writing whole files: another name first, then a rename, so that no reader ever sees a half.

A write goes through no link: the rename replaces a link that appears after the check. It survives the end of
the process; it waits for no disk, so a loss of power may undo it.
"""

import contextlib
import errno
import itertools
import os
import stat
from typing import Final

from callboard.actors.protocol.errors import FileError
from callboard.runtime.files.opening import CAN_OPEN_BELOW, FOLDER, Opener
from callboard.runtime.files.paths import shown
from callboard.runtime.files.reading import check_plain

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | (os.O_NOFOLLOW | os.O_CLOEXEC if CAN_OPEN_BELOW else 0)
_COUNT: Final = itertools.count()


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
