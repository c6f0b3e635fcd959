"""The owner of a SQLite log: one process, by a lock on a file of its own beside the database.

It is gone when the owner dies, however it dies, and refuses a second opener in the same process too. The lock
file stays when the owner leaves: removing it would let two owners lock two files of one name.

POSIX     `flock` on the whole file; it refuses a second opener in the same process, too
Windows   `msvcrt.locking` of one byte far behind the content, since other processes cannot read what is
          locked there

Another process may take the log by force from one that hangs: it writes its own name into the log (`meta`),
by which the former owner's next transaction is refused, and then replaces the lock file (`seize`). The names
also catch a removed lock file, and file systems that ignore locks. Windows lets no one replace an open file:
there the hanging process is to be ended first.

The lock file holds three lines: the owner's process, the name of its control socket or an empty text, and its
host. Its time of change is when the owner opened the log.
"""

import errno
import os
import platform
import re
import sys
import weakref
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from callboard.actors.protocol.errors import (
    StoreError,
    StoreFailed,
    StoreLocked,
    StoreReadOnly,
    StoreUnreadable,
)

_NOTE_BYTES_MAX: Final = 1_024
_HELD: Final = (errno.EAGAIN, errno.EACCES)

_live: "weakref.WeakSet[Owner]" = weakref.WeakSet()


# Not a lock on the database file: SQLite keeps POSIX locks there, and those are dropped as soon as the
# process closes *any* descriptor of that file (https://sqlite.org/howtocorrupt.html, 2.2). For the same
# reason nothing in this package opens and closes the database file except SQLite.
class Owner:
    """The right of this process to write a log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock_path = path.with_name(path.name + ".lock")
        self._descriptor = -1
        self._process = 0
        self.is_contested = False

    def acquire(self, *, force: bool = False) -> None:
        """Take ownership. force: go on without the lock of another process; `seize` follows."""
        check_place(self.path)
        while True:
            descriptor = self._opened(self._lock_path)
            try:
                lock(descriptor)
            except OSError as error:
                other = _read(descriptor)
                os.close(descriptor)
                if force and error.errno in _HELD and not other.is_this_process:
                    self.is_contested, self._process = True, os.getpid()
                    return
                raise _refused(self.path, other, error) from error
            with suppress(FileNotFoundError):
                if os.path.samestat(self._lock_path.stat(), os.fstat(descriptor)):
                    break
            os.close(descriptor)  # another process seized the log between our two steps
        self._hold(descriptor)

    def seize(self) -> None:
        """Replace the lock file of another process by our own, if `acquire` went on without the lock."""
        if not self.is_contested:
            return
        own = self._lock_path.with_name(f"{self._lock_path.name}.{os.getpid()}")
        descriptor = self._opened(own)
        lock(descriptor)
        self._hold(descriptor)
        try:
            own.replace(self._lock_path)
        except PermissionError as error:
            self.release()
            own.unlink()
            raise StoreFailed(
                f"{self.path}: the lock of another process cannot be replaced here ({error.strerror}); end "
                f"that process, and open the log without force"
            ) from error
        self.is_contested = False

    def _opened(self, path: Path) -> int:
        try:
            return opened(path)
        except OSError as error:
            is_fixed = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
            raise (StoreReadOnly if is_fixed else StoreFailed)(
                f"{path} cannot be written ({error.strerror}), so the log beside it cannot have an owner; "
                f"make it writable, or read the log with open_reader"
            ) from error

    def _hold(self, descriptor: int) -> None:
        write(descriptor, _written())
        self._descriptor, self._process = descriptor, os.getpid()
        _live.add(self)

    def announce(self, address: str) -> None:
        """Write the name of the owner's control socket below its process id."""
        if self.is_here:
            write(self._descriptor, _written(address))

    def check(self) -> None:
        """Raise StoreLocked in a process that was forked from the owner."""
        if os.getpid() != self._process:
            raise StoreLocked(
                f"{self.path} belongs to process {self._process}, from which this one was forked; "
                f"open the log after forking, or read it with open_reader"
            )

    @property
    def is_here(self) -> bool:
        """True if this process holds the lock."""
        return self._descriptor >= 0 and os.getpid() == self._process

    def release(self) -> None:
        """Give ownership up, if this process has it."""
        if self.is_here:
            os.ftruncate(self._descriptor, 0)
        self.drop()

    def drop(self) -> None:
        """Close this process's copy of the lock, which frees it only if it is the last one."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_lock(path: Path) -> tuple[str, str]:
    """Return the process and the socket that the lock of a log names; empty texts if it names none.

    A dead owner leaves both behind.
    """
    try:
        descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDONLY)
    except OSError:
        return "", ""
    try:
        note = _read(descriptor)
    finally:
        os.close(descriptor)
    return note.process, note.socket


class OwnerNote(NamedTuple):
    """The content of a lock file: who wrote it last, and when. since_s: seconds since 1970 UTC."""

    process: str
    socket: str
    host: str
    since_s: float

    @property
    def is_this_process(self) -> bool:
        """Return whether this process wrote it."""
        return (self.process, self.host) == (str(os.getpid()), platform.node())

    def __str__(self) -> str:
        if self.is_this_process:
            return "this process"
        if not self.process:
            return "another process"
        where = f" on {self.host}" if self.host and self.host != platform.node() else ""
        since = datetime.fromtimestamp(self.since_s).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        return f"process {self.process}{where} since {since}"


def _written(address: str = "") -> bytes:
    """Return the content of this process's lock file. address: the name of its control socket."""
    return b"%d\n%s\n%s\n" % (os.getpid(), os.fsencode(address), os.fsencode(platform.node()))


def _read(descriptor: int) -> OwnerNote:
    """Return the content of a lock file. Another program may have written anything into it."""
    lines = [*content(descriptor, _NOTE_BYTES_MAX).split(b"\n"), b"", b""]
    # Printed in a message, so no control characters.
    process, socket, host = (re.sub(r"[^ -~]", "?", os.fsdecode(line)) for line in lines[:3])
    return OwnerNote(process.strip(), socket, host, os.fstat(descriptor).st_mtime)


def check_place(path: Path) -> None:
    """Refuse a path where no log can be. Raises StoreUnreadable. Never opens the file."""
    try:
        is_folder, has_folder = path.is_dir(), path.parent.is_dir()
    except OSError as error:  # is_dir() hides that something is missing, not that it is forbidden
        raise StoreUnreadable(f"{path} cannot be reached: {error.strerror}") from error
    if is_folder:
        raise StoreUnreadable(f"{path} is a folder; name a file in it, such as {path / 'callboard.db'}")
    if not has_folder:
        raise StoreUnreadable(f"{path}: the folder {path.parent} does not exist; make it first")


def _refused(path: Path, other: OwnerNote, error: OSError) -> StoreError:
    if error.errno not in _HELD:
        return StoreFailed(f"{path}: this file system refuses locks ({error.strerror}); use a local one")
    return StoreLocked(
        f"{path} is owned by {other}: one process writes a log. Close it there first, give each worker a log "
        f"of its own, or read it with open_reader; if that process hangs, end it, or take the log from it "
        f"with open_log(..., force=True)"
    )


def _drop_all() -> None:
    for owner in list(_live):
        owner.drop()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_drop_all)


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
