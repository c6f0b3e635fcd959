"""A folder before and after a program that works in it: which files have changed, and their bytes before.

Rules
  - Links are not followed, and folders such as `.git` and `node_modules` are not entered (`SKIPPED`).
  - A file whose size, times, number and permission are the same was not changed, unless its time is as young
    as the look at it. So a large file is not read again for each call.
  - The bytes of small files are remembered, so that those before a change are known after it.
  - Limits are of counts and sizes, never of time. Beyond them a gap is named.
  - A file that this process has open, such as its log, is passed over and never opened: to close a second
    descriptor of a database gives up the locks that SQLite holds on it.
"""

import contextlib
import os
import stat
import threading
from collections.abc import Iterator
from typing import Final, NamedTuple

from callboard.actors.protocol.errors import FileError
from callboard.actors.protocol.file_versions import LeftOut
from callboard.runtime.clock import file_time_ns
from callboard.runtime.files.files import Files
from callboard.runtime.files.opening import FOLDER, LISTED, READ, joined
from callboard.runtime.files.searching import SKIPPED
from callboard.runtime.files.whole_files import is_unfinished, read_whole
from callboard.runtime.log.file_contents import VERSION_BYTES_MAX

ENTRIES_MAX: Final = 50_000
"""Entries of a folder that are compared."""
REMEMBERED_MAX: Final = 1_000_000
"""Bytes of a file that is remembered, for its version before a change."""
REMEMBERED_ALL_MAX: Final = 64_000_000
"""Bytes of all files of a session that are remembered."""
_DESCRIPTORS: Final = 1_024  # that a process has by default
_SETTLED_NS: Final = 50_000_000  # clocks of file systems tick every 4 to 10 ms


class Found(NamedTuple):
    """A file as it was found. data: its bytes; None if there is no such file, or if they are left out."""

    data: bytes | None = None
    size: int = 0
    is_executable: bool = False
    left_out: LeftOut = ""

    @property
    def is_there(self) -> bool:
        """Return False if there is no such file."""
        return self.data is not None or bool(self.left_out)


ABSENT: Final = Found()
UNREAD: Final = Found(left_out="unread")


class Stamp(NamedTuple):
    """The marks of a file that tell a change without reading it."""

    size: int
    changed_ns: int
    modified_ns: int
    number: int
    is_executable: bool


class Scan(NamedTuple):
    """The files of a folder at one time. others: links, devices and names that are not UTF-8, by name.

    is_cut: there are more entries than are compared.
    """

    files: dict[str, Stamp]
    others: dict[bytes, Stamp]
    is_cut: bool


class _Remembered(NamedTuple):
    stamp: Stamp
    read_ns: int
    found: Found


def stamp_of(found: os.stat_result) -> Stamp:
    """Return the marks of a file."""
    executable = bool(found.st_mode & stat.S_IXUSR)
    return Stamp(found.st_size, found.st_ctime_ns, found.st_mtime_ns, found.st_ino, executable)


def open_here() -> frozenset[tuple[int, int]]:
    """Return device and number of each file that this process has open."""
    found = set()
    try:
        names = os.listdir("/dev/fd")  # noqa: PTH208  # names of descriptors, not paths
    except OSError:  # a sandbox without devices
        names = [str(number) for number in range(_DESCRIPTORS)]
    for name in names:
        with contextlib.suppress(OSError):  # that of the list itself, or one closed meanwhile
            about = os.fstat(int(name))
            if stat.S_ISREG(about.st_mode):
                found.add((about.st_dev, about.st_ino))
    return frozenset(found)


def scan(files: Files) -> Scan:
    """Look at the folder: all files but those that this process has open."""
    found, without = Scan({}, {}, False), open_here()
    left = ENTRIES_MAX
    folders = ["."]
    while folders:
        path = folders.pop()
        for entry, about in _entries(files, path):
            left -= 1
            if left < 0:
                return found._replace(is_cut=True)
            name = joined(path, entry.name)
            if stat.S_ISDIR(about.st_mode):
                if entry.name not in SKIPPED:
                    folders.append(name)
            elif not stat.S_ISREG(about.st_mode) or not is_text(name):
                found.others[os.fsencode(name)] = stamp_of(about)
            elif (about.st_dev, about.st_ino) not in without and not is_unfinished(entry.name):
                found.files[name] = stamp_of(about)
    return found


def is_text(name: str) -> bool:
    """Return False for a name that is not UTF-8, which the log cannot hold."""
    return name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)


def _entries(files: Files, path: str) -> Iterator[tuple["os.DirEntry[str]", os.stat_result]]:
    """Yield the entries of a folder; none if it went away, or may not be read by the user."""
    try:
        folder = files._opener(files._folder, path, LISTED)
    except OSError:
        return
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    yield entry, entry.stat(follow_symlinks=False)
                except OSError:  # it went away meanwhile
                    continue
    except OSError:
        return
    finally:
        os.close(folder)


def look(files: Files, path: str) -> Found:
    """Return a file as it is now. It never raises: a file that cannot be read is `unread`."""
    if not may_open(files, path):
        return UNREAD
    try:
        file = files._opener(files._folder, path, READ)
    except FileNotFoundError:
        return ABSENT
    except OSError:
        return UNREAD
    about = os.fstat(file)
    try:
        if not stat.S_ISREG(about.st_mode):
            return UNREAD
        if about.st_size > VERSION_BYTES_MAX:
            return Found(None, about.st_size, stamp_of(about).is_executable, "large")
        data = read_whole(file, path, VERSION_BYTES_MAX, hard_links=files._hard_links)
        return Found(data, len(data), stamp_of(about).is_executable)
    except FileError as error:
        return Found(None, about.st_size, False, "large") if error.reason == "large" else UNREAD
    except OSError:
        return UNREAD
    finally:
        os.close(file)


def may_open(files: Files, path: str) -> bool:
    """Return False for a file that this process has open. The file itself is not opened for that."""
    above, _, name = path.rpartition("/")
    try:
        folder = files._opener(files._folder, above or ".", FOLDER)
    except OSError:
        return True  # it is missing, or says why when it is opened
    try:
        about = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return True
    finally:
        os.close(folder)
    return (about.st_dev, about.st_ino) not in open_here()


class Folder:
    """The folder of a session, with the bytes of its small files. All methods are for any thread."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._remembered: dict[str, _Remembered] = {}
        self._lock = threading.Lock()

    def look(self, path: str) -> Found:
        """Return a file as it is now."""
        return look(self._files, path)

    def seen(self) -> "Seen":
        """Look at the whole folder, and remember its small files."""
        with self._lock:
            found = scan(self._files)
            self._remember(found)
            return Seen(found, dict(self._remembered))

    def _remember(self, found: Scan) -> None:
        known, self._remembered = self._remembered, {}
        left = REMEMBERED_ALL_MAX
        for path, stamp in found.files.items():
            one = known.get(path)
            if one is None or one.stamp != stamp or not _is_settled(one):
                now = file_time_ns()
                is_small = stamp.size <= min(REMEMBERED_MAX, left)
                one = _Remembered(stamp, now, self.look(path) if is_small else UNREAD)
            left -= one.stamp.size if one.found.data is not None else 0
            self._remembered[path] = one

    def changes(self, before: "Seen", after: "Seen") -> Iterator[tuple[str, Found, Found]]:
        """Yield each file that has changed between two looks: its path, and the file before and after."""
        for path in sorted({*before.scan.files, *after.scan.files}):
            old, new = before.files.get(path), after.files.get(path)
            if (old is None and before.scan.is_cut) or (new is None and after.scan.is_cut):
                continue  # it may have been beyond the limit
            if old is not None and new is not None and _is_same(old, new):
                continue
            was = ABSENT if old is None else old.found
            now = ABSENT if new is None else self._whole(path, new.found)
            if was != now:
                yield path, was, now

    def _whole(self, path: str, found: Found) -> Found:
        return self.look(path) if found == UNREAD else found


class Seen(NamedTuple):
    """The folder at one time, and the files that are remembered from it."""

    scan: Scan
    files: dict[str, _Remembered]


def _is_same(old: _Remembered, new: _Remembered) -> bool:
    """Return True if a file has the same marks, and any change since would have changed them."""
    return old is new or (old.stamp == new.stamp and (_is_settled(old) or old.found.data is None))


def _is_settled(one: _Remembered) -> bool:
    """Return True if a change after the file was read would have another time."""
    return one.stamp.changed_ns + _SETTLED_NS < one.read_ns


def others_changed(before: Scan, after: Scan) -> int:
    """Return the number of links, devices and unreadable names that have changed."""
    names = {*before.others, *after.others}
    return sum(before.others.get(name) != after.others.get(name) for name in names)
