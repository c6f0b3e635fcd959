"""`Files`: a folder whose files tools reach through `ctx.files`."""

import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final, TypeVar

from callboard.actors.protocol.errors import FileError, MisuseError
from callboard.actors.protocol.file_area import ALL, FileArea, covers, leads_to, narrowed, prefixes_of
from callboard.runtime.files.opening import FOLDER, LISTED, READ, Opener, best_opener, relative, shown
from callboard.runtime.files.searching import Walk
from callboard.runtime.files.text import Text, decoded
from callboard.runtime.files.whole_files import (
    READ_BYTES_MAX,
    Entry,
    entries_of,
    read_whole,
    refused,
    write_whole,
)
from callboard.runtime.label_names import labels_of

T = TypeVar("T")
_OF_ORIGIN: Final = (
    "a fork never writes into the folder of the session that was forked; fork with files_to=FOLDER "
    "(`callboard fork --files-to FOLDER`) to work in a copy"
)
NAME_CHARS_MAX: Final = 100
HISTORY_BYTES: Final = 100_000_000
"""Bytes that the versions of one session take in the log unless `history_bytes` says otherwise."""
WRITE_BYTES_MAX: Final = 10_000_000
"""Bytes of a file that are written."""


class Files:
    """A folder for the tools of a session, and the parts of it that they may read and write.

    root: the folder. It stays the same one if it is renamed.
    read, write: paths below it, files or folders with all that is in them; `.` is the root. By default
        everything may be read, and nothing written.
    name: of the root in the log, which never has its place. A session resumes with files of the same name.
    hard_links: True reads files with several names, as some package managers make them. One of the names
        may lie outside of the root, so they are refused otherwise. They are never written.
    files_label: of all files that no tool of the session has written, such as `untrusted`.
    history: True keeps the versions of files in the log, so that the folder is known as of each event.
    history_bytes: of the log that the versions of one session may take; later ones are left out, and said so.

    No path leads out of the root: not by `..`, by links, by devices or by a race. Methods take paths with `/`
    that are relative to the root; their errors are `FileError`s, which a tool may let pass to the model.
    All methods may be called from any thread. Raises MisuseError for a root that is not a folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = Files(folder, write=["notes"])
    ...     files.write_text("notes/today.txt", "rain")
    ...     print(files.read_text("notes/today.txt"))
    rain
    """

    def __init__(
        self,
        root: str | Path,
        *,
        read: Sequence[str] = ALL,
        write: Sequence[str] = (),
        name: str = "files",
        hard_links: bool = False,
        files_label: str = "",
        history: bool = False,
        history_bytes: int = HISTORY_BYTES,
    ) -> None:
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= NAME_CHARS_MAX:
            raise MisuseError(f"name={name!r:.120}: use 1 to {NAME_CHARS_MAX} printable characters")
        labels = labels_of(files_label) if files_label else ()
        if isinstance(history_bytes, bool) or not isinstance(history_bytes, int) or history_bytes < 0:
            raise MisuseError(
                f"history_bytes={history_bytes!r:.80}: use a number of bytes, such as 100_000_000"
            )
        prefixes = prefixes_of("read", read), prefixes_of("write", write)
        self._area = FileArea(name, *prefixes, labels, bool(history))
        self.history_bytes = history_bytes
        self._folder = _opened(root)
        self._hard_links = hard_links
        self._opener: Opener = best_opener(self._folder)
        self.root = Path(root).absolute()
        weakref.finalize(self, os.close, self._folder)

    is_of_origin: ClassVar[bool] = False

    @property
    def area(self) -> FileArea:
        """Return the part of the folder that may be used, as in the log."""
        return self._area

    def __repr__(self) -> str:
        area = self.area
        return f"Files(name={area.name!r}, read={list(area.read)}, write={list(area.write)})"

    def narrowed(self, read: Sequence[str] = ALL, write: Sequence[str] = ALL) -> "Files":
        """Return the same folder, limited to these prefixes. It never allows more than this one."""
        return _Part(self, narrowed(self.area, read, write))

    def fileno(self) -> int:
        """Return the descriptor of the root, for a process that starts there. This object keeps it open."""
        return self._folder

    # --- reading ------------------------------------------------------------------

    def read_bytes(self, path: str, *, max_bytes: int = READ_BYTES_MAX) -> bytes:
        """Read a file as it was at one moment. Raises FileError."""
        name = relative(path)
        self._check_read(name)
        try:
            file = self._opener(self._folder, name, READ)
            try:
                return read_whole(file, name, max_bytes, hard_links=self._hard_links)
            finally:
                os.close(file)
        except OSError as error:
            raise refused(name, error) from None

    def read_text(self, path: str, *, max_bytes: int = READ_BYTES_MAX) -> str:
        """Read a text file. Raises FileError, even for bytes that are not text."""
        return self.read(path, max_bytes=max_bytes).text

    def read(self, path: str, *, max_bytes: int = READ_BYTES_MAX) -> Text:
        """Read a text file, with its encoding and line ends. Raises FileError."""
        return decoded(self.read_bytes(path, max_bytes=max_bytes), relative(path))

    def entries(self, path: str = ".") -> list[Entry]:
        """List a folder by name: the entries that may be read, or that lead to readable ones."""
        name = relative(path)
        allowed = self.area.read
        if not leads_to(allowed, name):
            self._check_read(name)
        try:
            folder = self._opener(self._folder, name, LISTED)
            try:
                found = entries_of(folder, name)
            finally:
                os.close(folder)
        except OSError as error:
            raise refused(name, error) from None
        if covers(allowed, name):
            return found
        return [one for one in found if covers(allowed, one.path) or leads_to(allowed, one.path)]

    def walk(self, path: str = ".") -> Walk:
        """Return a walk over the files below a folder that may be read."""
        return Walk(self.entries, relative(path))

    # --- writing ------------------------------------------------------------------

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file, whole or not at all, and create the folders above it. Raises FileError."""
        name = relative(path)
        self.check_write(name)
        if len(data) > WRITE_BYTES_MAX:
            raise FileError(f"{shown(name)}: at most {WRITE_BYTES_MAX:,} bytes are written", "large")
        try:
            write_whole(self._folder, self._opener, name, data)
        except OSError as error:
            raise refused(name, error) from None

    def write_text(self, path: str, text: str) -> None:
        """Write a text file in UTF-8, whole or not at all. Raises FileError."""
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise FileError(f"{shown(path)}: the text is not Unicode text", "binary") from None
        self.write_bytes(path, data)

    def check_write(self, path: str) -> None:
        """Raise FileError unless the file may be written."""
        name = relative(path)
        if name == ".":
            raise FileError("the root is a folder", "folder")
        if not covers(self.area.write, name):
            raise FileError(f"{shown(name)}: it may not be written; {_told(self.area.write)}", "denied")

    def _check_read(self, name: str) -> None:
        if not covers(self.area.read, name):
            raise FileError(f"{shown(name)}: it may not be read; {_told(self.area.read)}", "denied")


class _Part(Files):
    """The files of another object, with fewer prefixes. It holds that object, which owns the descriptor."""

    def __init__(self, whole: Files, area: FileArea) -> None:
        self._area = area
        self.root, self.history_bytes = whole.root, whole.history_bytes
        self._whole = whole
        self._folder, self._opener, self._hard_links = whole._folder, whole._opener, whole._hard_links


class OriginFiles(_Part):
    """The files of the session that was forked, which its fork reads and never writes."""

    is_of_origin = True

    def __init__(self, whole: Files) -> None:
        super().__init__(whole, narrowed(whole.area, write=()))

    def check_write(self, path: str) -> None:
        """Raise FileError."""
        raise FileError(f"{shown(relative(path))}: {_OF_ORIGIN}", "denied")

    def narrowed(self, read: Sequence[str] = ALL, write: Sequence[str] = ALL) -> Files:
        """Return the same folder, of the origin as well, with no more than these prefixes."""
        return OriginFiles(self._whole.narrowed(read, write))

    def fileno(self) -> int:
        """Raise FileError: a program that starts in the folder could write there."""
        raise FileError(f"no program starts in this folder: {_OF_ORIGIN}", "denied")


def _opened(root: str | Path) -> int:
    if not os.supports_dir_fd >= {os.open, os.stat, os.mkdir}:
        raise MisuseError("files need a system that opens paths relative to a folder, such as Linux or macOS")
    try:
        return os.open(root, FOLDER)
    except (OSError, TypeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise MisuseError(f"the root of files {str(root)!r:.200} cannot be opened: {why}") from None


def _told(prefixes: tuple[str, ...]) -> str:
    few = ", ".join(map(shown, prefixes[:5]))
    return (
        f"allowed are: {few}{' and more' if len(prefixes) > 5 else ''}" if prefixes else "nothing is allowed"
    )
