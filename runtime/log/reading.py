"""Addresses of logs, and opening one for reading. Imports nothing that could write.

An address is a path, `":memory:"`, or a URL such as `sqlite:///callboard.db` or
`postgresql://user@host/database`.
"""

import os
import re
from pathlib import Path
from typing import Final, TypeVar

from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.log.postgres.address import Address, address_of
from callboard.runtime.log.postgres.reader import PostgresReader
from callboard.runtime.log.protocol import LogReader
from callboard.runtime.log.sqlite.reader import SQLiteReader

T = TypeVar("T")
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


def is_memory(address: str | Path) -> bool:
    """Return whether an address stands for a log in memory."""
    return os.fspath(address) == ":memory:"


def is_server(address: str | Path) -> bool:
    """Return whether an address is that of a log on a PostgreSQL server."""
    url = _URL.fullmatch(os.fspath(address)) if isinstance(address, str) else None
    return url is not None and url[1].lower() in ("postgresql", "postgres")


def shown_address(address: str | Path) -> str:
    """Return an address for messages: without password."""
    return str(server_of(str(address))) if is_server(address) else str(address)


def server_of(address: str) -> Address:
    """Return the parts of the address of a log on a server. Raises MisuseError."""
    return address_of(address)


def file_of(address: str | Path) -> Path:
    """Return the file of a path or of a `sqlite` URL. Raises MisuseError for any other URL."""
    # As SQLAlchemy writes them: sqlite:///relative.db, sqlite:////absolute/path.db. Nothing is unescaped.
    url = _URL.fullmatch(os.fspath(address))
    if url is None:
        return Path(address)
    if url[1].lower() != "sqlite":
        # Nothing of the rest is shown: it may hold a password.
        raise MisuseError(
            f'{url[1]}:// is not a store that callboard knows; give a path, ":memory:", '
            "or one of: sqlite://, postgresql://"
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
    if is_server(address):
        return PostgresReader(server_of(str(address)), key, encryption_key)
    return SQLiteReader(file_of(address), key, encryption_key)
