"""Addresses of logs, and opening one for reading. Imports nothing that could write.

An address is a path, `":memory:"`, or a URL such as `sqlite:///callboard.db`.
"""

import os
import re
from pathlib import Path
from typing import Final, TypeVar

from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.log.protocol import LogReader
from callboard.runtime.log.sqlite.reader import SQLiteReader

T = TypeVar("T")
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


def is_memory(address: str | Path) -> bool:
    """Return whether an address stands for a log in memory."""
    return os.fspath(address) == ":memory:"


def file_of(address: str | Path) -> Path:
    """Return the file of a path or of a `sqlite` URL. Raises MisuseError for any other URL."""
    # As SQLAlchemy writes them: sqlite:///relative.db, sqlite:////absolute/path.db. Nothing is unescaped.
    url = _URL.fullmatch(os.fspath(address))
    if url is None:
        return Path(address)
    if url[1].lower() != "sqlite":
        raise MisuseError(
            f'{url[1]}:// is not a store that callboard knows; give a path, ":memory:", or one of: sqlite://'
        )
    if not re.fullmatch("/.+", url[2], re.DOTALL):
        raise MisuseError(
            f"{address} names no file: write sqlite:///callboard.db or sqlite:////absolute/path.db"
        )
    return Path(url[2][1:])


def given_log(log: T) -> T:
    """Return a log, or a reader, that a user has given instead of an address. Raises MisuseError."""
    if not hasattr(log, "sessions"):
        raise MisuseError(f'{log!r:.80} is not a log; give a path, such as "callboard.db", or ":memory:"')
    return log


def open_reader(
    address: str | Path, key: bytes | None = None, encryption_key: bytes | None = None
) -> LogReader:
    """Open a log for reading, without owning it. Parameters as of `open_log`.

    Raises StoreError, WrongKey, CorruptLog, and MisuseError for an unknown scheme.
    """
    if is_memory(address):
        raise MisuseError(f"{address} has no events yet: read a log in memory with MemoryReader(log)")
    return SQLiteReader(file_of(address), key, encryption_key)
