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


def store_error(error: sqlite3.Error | UnicodeDecodeError, path: Path, doing: str) -> StoreError:
    """Return the error of callboard for an error of SQLite. doing: the operation that raised it."""
    code = error_code(error)
    name = getattr(error, "sqlite_errorname", "") or type(error).__name__
    said = f"{path}: {doing} failed: {error} ({name})"
    if isinstance(error, UnicodeDecodeError):
        return StoreUnreadable(f"{path}: {doing} failed on a name that is not UTF-8: use a backup")
    if code == sqlite3.SQLITE_READONLY:
        return StoreReadOnly(f"{path} cannot be written; change its permissions, or read it with open_reader")
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return StoreUnreadable(f"{said}; the file is not a callboard log, or is damaged: use a backup")
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreUnreadable(f"{said}; check that this user may read the file and its folder")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreLocked(f"{said}; another program, such as an open sqlite3 shell, holds the file")
    if code == sqlite3.SQLITE_FULL:
        return StoreFailed(f"{said}; nothing of this batch was stored: make room, then resume the sessions")
    return StoreFailed(f"{said}; acknowledged events are stored: reopen the log, then resume")


def error_code(error: Exception) -> int:
    """Return SQLite's primary result code, or 0 if Python itself raised the error."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
