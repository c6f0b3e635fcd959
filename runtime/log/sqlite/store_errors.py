"""Errors of SQLite, and damage that it does not see.

SQLite's errors as errors of callboard, each with the user's next step.

Damage in the middle of a WAL, which SQLite takes for its end.

Every frame of a WAL (a page, and a header before it) carries a checksum over all frames before it. SQLite
reads up to the first wrong one: one flipped bit, and all later commits are gone without an error. But a
transaction begins only after the one before was written whole, so where a further transaction follows a wrong
frame, the WAL was damaged, not cut short. With durability="process" a loss of power may do the same.

The format: https://www.sqlite.org/fileformat2.html#walformat
"""

import os
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from callboard.actors.protocol.errors import (
    StoreError,
    StoreFailed,
    StoreLocked,
    StoreReadOnly,
    StoreUnreadable,
)

# sqlite3 decodes SQLite's message, which quotes names of the file: a damaged name is not always UTF-8.
SQLITE_FAILURES: Final = (sqlite3.Error, UnicodeDecodeError)

_DAMAGED: Final = (StoreUnreadable, "the file is not a callboard log, or is damaged: use a backup")
_HELD: Final = (StoreLocked, "another program, such as an open sqlite3 shell, holds the file")
_OTHER: Final = (StoreFailed, "acknowledged events are stored: reopen the log, then resume")
_NEXT_STEPS: Final[dict[int, tuple[type[StoreError], str]]] = {
    sqlite3.SQLITE_READONLY: (StoreReadOnly, "change its permissions, or read it with open_reader"),
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_CANTOPEN: (StoreUnreadable, "check that this user may read the file and its folder"),
    sqlite3.SQLITE_BUSY: _HELD,
    sqlite3.SQLITE_LOCKED: _HELD,
    sqlite3.SQLITE_FULL: (StoreFailed, "nothing of this batch was stored: make room, then resume"),
}


def store_error(error: sqlite3.Error | UnicodeDecodeError, path: Path, doing: str) -> StoreError:
    """Return the error of callboard for an error of SQLite. doing: the operation that raised it."""
    if isinstance(error, UnicodeDecodeError):
        return StoreUnreadable(f"{path}: {doing} failed on a name that is not UTF-8: use a backup")
    # The JSON that SQLite reads here is that of the tables: where it is malformed, they are damaged.
    other = _DAMAGED if "malformed JSON" in str(error) else _OTHER
    kind, next_step = _NEXT_STEPS.get(error_code(error), other)
    name = getattr(error, "sqlite_errorname", "") or type(error).__name__
    return kind(f"{path}: {doing} failed: {error} ({name}); {next_step}")


def error_code(error: Exception) -> int:
    """Return SQLite's primary result code, or 0 if Python itself raised the error."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


HEADER_BYTES: Final = 32
FRAME_BYTES: Final = 24
_MAGIC: Final = (0x377F0682, 0x377F0683)
_TRIES: Final = 3
_WORD: Final = 0xFFFFFFFF


class Damage(NamedTuple):
    """frame: number of the first wrong one, from 1; 0 is the header. commits: how many behind it are lost."""

    frame: int
    commits: int


class WalWatch:
    """The WAL below an open log, which only SQLite may shorten.

    SQLite keeps the number of frames in memory. So it goes on behind the old end of a WAL that was cut, and
    the next owner reads nothing behind the hole: commits would be acknowledged and lost. `before` and `after`
    a commit return the reason why it is lost, "" for none.
    """

    def __init__(self, path: Path) -> None:
        self._wal = path.with_name(f"{path.name}-wal")
        self._inode = self._size = 0
        self._is_shorter = False

    def before(self) -> str:
        """Look at the WAL before a commit."""
        inode, size = self._found()
        if self._inode and inode != self._inode:
            return f"{self._wal} was replaced or removed below the open log"
        self._is_shorter = size < self._size
        return ""

    def after(self) -> str:
        """Look at the WAL after a commit, whole if it was shorter before it."""
        self._inode, self._size = self._found()
        # Another program may have written all of it back and emptied it, which loses nothing.
        if self._is_shorter and not is_whole(self._wal):
            return f"{self._wal} was cut below the open log"
        return ""

    def note(self) -> None:
        """Take the WAL as it is: this process has shortened it."""
        self._inode, self._size = self._found()

    def _found(self) -> tuple[int, int]:
        try:
            found = os.stat(self._wal)  # noqa: PTH116  # a third of the time of Path.stat, for each commit
        except FileNotFoundError:
            return 0, 0
        return found.st_ino, found.st_size


def is_whole(wal: Path) -> bool:
    """Return True if each frame of a WAL is right, from its header to its last byte."""
    content = wal.read_bytes()
    if len(content) <= HEADER_BYTES:
        return not content
    magic, _, page_bytes, *_ = struct.unpack(">8I", content[:HEADER_BYTES])
    if _damage(content) is not None or magic not in _MAGIC:
        return False
    order = ">" if magic & 1 else "<"
    frames = list(_frames(content, page_bytes))
    sums = _sum((0, 0), content[:24], order)
    for fixed, page in frames:
        sums = _sum(_sum(sums, fixed[:8], order), page, order)
        if sums != struct.unpack(">II", fixed[16:]):
            return False
    return bool(len(frames) * (FRAME_BYTES + page_bytes) == len(content) - HEADER_BYTES)


def find_damage(wal: Path) -> Damage | None:
    """Return the damage in a WAL, or None if it has none or is missing."""
    for _ in range(_TRIES):  # a live owner may overwrite the WAL while it is read
        try:
            content = wal.read_bytes()
            with wal.open("rb") as again:
                is_same = again.read(HEADER_BYTES) == content[:HEADER_BYTES]
        except FileNotFoundError:
            return None
        if is_same:
            return _damage(content)
    return None


def _damage(content: bytes) -> Damage | None:
    if len(content) <= HEADER_BYTES:
        return None
    magic, _, page_bytes, _, _, _, *kept = struct.unpack(">8I", content[:HEADER_BYTES])
    order = ">" if magic & 1 else "<"
    sums = _sum((0, 0), content[:24], order)
    if magic not in _MAGIC or not 512 <= page_bytes <= 65_536 or sums != tuple(kept):
        return Damage(0, 0)
    return _damaged_frame(_frames(content, page_bytes), sums, order)


def _damaged_frame(frames: Iterator[tuple[bytes, bytes]], sums: tuple[int, int], order: str) -> Damage | None:
    wrong = 0
    commits: list[bool] = []  # of the frames from the wrong one on
    for number, (fixed, page) in enumerate(frames, 1):
        if not wrong:
            sums = _sum(_sum(sums, fixed[:8], order), page, order)
            if sums == struct.unpack(">II", fixed[16:]):
                continue
            wrong = number
        commits.append(fixed[4:8] != bytes(4))
    return Damage(wrong, sum(commits)) if any(commits[:-1]) else None


def _frames(content: bytes, page_bytes: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield header and page of each frame. Frames of an earlier WAL, with other salts, may lie behind."""
    step = FRAME_BYTES + page_bytes
    for at in range(HEADER_BYTES, len(content) - step + 1, step):
        fixed, page = content[at : at + FRAME_BYTES], content[at + FRAME_BYTES : at + step]
        if fixed[8:16] == content[16:24]:
            yield fixed, page


def _sum(sums: tuple[int, int], data: bytes, order: str) -> tuple[int, int]:
    """Return SQLite's checksum of `data`, continued from `sums`."""
    one, two = sums
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for first, second in zip(words, words, strict=True):
        one = (one + first + two) & _WORD
        two = (two + second + one) & _WORD
    return one, two
