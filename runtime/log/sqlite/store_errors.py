"""SQLite's errors as errors of callboard, each with the user's next step."""

import sqlite3
from pathlib import Path
from typing import Final

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
