"""Opening below a folder: no `..`, no link and no race leads out of it. Paths as tools know them."""

import ctypes
import errno
import json
import os
import stat
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Final, TypeAlias

from callboard.actors.protocol.bundle_entries import PATH_CHARS_MAX
from callboard.actors.protocol.errors import FileError

Opener: TypeAlias = Callable[[int, str, int], int]
"""Opens a path below the folder of a descriptor, with flags of `os.open`. Raises OSError."""
PATH_ONLY: Final = getattr(os, "O_PATH", os.O_RDONLY)  # macOS has no O_PATH
CAN_OPEN_BELOW: Final = os.open in os.supports_dir_fd
"""True where a path can be opened below an open folder: not on Windows, which lacks these flags, too."""
_DIRECTORY: Final = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
FOLDER: Final = PATH_ONLY | _DIRECTORY
LISTED: Final = os.O_RDONLY | _DIRECTORY
# O_NONBLOCK: opening a FIFO must not wait for its writer. O_NOCTTY: no terminal becomes that of the process.
READ: Final = os.O_RDONLY | (os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC if CAN_OPEN_BELOW else 0)
_SYS_OPENAT2: Final = 437  # the same number on every architecture
_RESOLVE: Final = 0x08 | 0x04 | 0x02  # BENEATH, NO_SYMLINKS, NO_MAGICLINKS
_AGAIN: Final = (errno.EINTR, errno.EAGAIN)
_TRIES_MAX: Final = 100
_SHOWN_CHARS_MAX: Final = 200


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_HOWS: Final[dict[int, _How]] = {}
_HOW_BYTES: Final = ctypes.sizeof(_How)


@cache  # not at import: Windows has no such library
def _syscall() -> Callable[[int, int, bytes, _How, int], int]:
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    call.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_How), ctypes.c_size_t)
    return call


def openat2(folder: int, path: str, flags: int) -> int:
    """Open a path with Linux's openat2. Raises OSError, with ELOOP for a link."""
    how = _HOWS.get(flags)
    if how is None:
        how = _HOWS[flags] = _How(flags, 0, _RESOLVE)
    raw, call = os.fsencode(path), _syscall()
    for _ in range(_TRIES_MAX):
        found = int(call(_SYS_OPENAT2, folder, raw, how, _HOW_BYTES))
        if found >= 0:
            return found
        code = ctypes.get_errno()
        if code not in _AGAIN:
            raise OSError(code, os.strerror(code))
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def by_component(folder: int, path: str, flags: int) -> int:
    """Open a path part by part. Raises OSError, with ELOOP for a link."""
    *above, last = path.split("/")
    current = folder
    try:
        for part in above:
            below = _one(current, part, FOLDER)
            if current != folder:
                os.close(current)
            current = below
        return _one(current, last, flags)
    finally:
        if current != folder:
            os.close(current)


def _one(folder: int, name: str, flags: int) -> int:
    try:
        found = os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
    except NotADirectoryError:  # a link is none either, where O_DIRECTORY asks for one
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise
    return found


def best_opener(folder: int) -> Opener:
    """Return `openat2` where the kernel has it and lets it be used, else `by_component`."""
    try:
        os.close(openat2(folder, ".", FOLDER))
    except OSError:  # ENOSYS of an old kernel, EPERM of a container's filter
        return by_component
    return openat2


@lru_cache(1_024)
def relative(path: str) -> str:
    """Return a path below the root in one form; `.` is the root. Raises FileError for any other path."""
    _check(path)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise FileError(f"{shown(path)}: a path may not contain `..`; write it from the root", "bad_path")
    return "/".join(parts) or "."


def _check(path: object) -> None:
    if not isinstance(path, str):
        raise FileError(f"a path is a text, not {type(path).__name__}", "bad_path")
    if len(path) > PATH_CHARS_MAX:
        raise FileError(f"the path has {len(path):,} characters, more than {PATH_CHARS_MAX:,}", "bad_path")
    if "\0" in path:
        raise FileError(f"{shown(path)}: a path may not contain NUL", "bad_path")
    if path.startswith("/"):
        raise FileError(f"{shown(path)}: paths are relative to the root; leave out the first /", "bad_path")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise FileError(f"{shown(path)}: the path is not Unicode text", "bad_path") from None


def shown(path: str) -> str:
    """Return a path for a line of text: as it is, or as a JSON text if it holds control characters.

    A line break or a mark of direction in a name could forge other lines.
    """
    text = path if len(path) <= _SHOWN_CHARS_MAX else path[:_SHOWN_CHARS_MAX] + "…"
    return text if text.isprintable() and text == text.strip() else json.dumps(text)


def joined(folder: str, name: str) -> str:
    """Return the path of a name in a folder."""
    return name if folder == "." else f"{folder}/{name}"
