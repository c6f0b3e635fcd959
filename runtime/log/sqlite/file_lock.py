"""A lock on an open file, which is gone when its process dies, however it dies.

POSIX     `flock` on the whole file; it refuses a second opener in the same process, too
Windows   `msvcrt.locking` of one byte far behind the content, since other processes cannot read what is
          locked there
"""

import os
import sys
from pathlib import Path
from typing import Final

# Windows: no translation of line ends. Everywhere: no child inherits it (PEP 446).
_FLAGS: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)

if sys.platform == "win32":
    import msvcrt

    _LOCKED_BYTE: Final = 2**30

    def lock(descriptor: int) -> None:
        """Lock an open file. Raises OSError, with EACCES or EAGAIN if another opener has it."""
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def lock(descriptor: int) -> None:
        """Lock an open file. Raises OSError, with EACCES or EAGAIN if another opener has it."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def opened(path: Path) -> int:
    """Open a file to lock, made if it is missing. Raises OSError."""
    return os.open(path, _FLAGS, 0o644)


def content(descriptor: int, size: int) -> bytes:
    """Return the first bytes of an open file."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    return os.read(descriptor, size)


def write(descriptor: int, data: bytes) -> None:
    """Replace the content of an open file. A reader never sees it shorter than the data."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, data)
    os.ftruncate(descriptor, len(data))
