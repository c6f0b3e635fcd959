"""Opening a log for reading, by its address. Imports nothing that could write."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.log.addresses import MEMORY, SQLITE, file_of, opener_for
from callboard.runtime.log.protocol import LogReader
from callboard.runtime.log.sqlite.reader import SQLiteReader


def _memory(address: str | Path, key: bytes | None, encryption_key: bytes | None) -> LogReader:
    raise MisuseError(f"{address} has no events yet: read a log in memory with MemoryReader(log)")


def _sqlite(address: str | Path, key: bytes | None, encryption_key: bytes | None) -> LogReader:
    return SQLiteReader(file_of(address), key, encryption_key)


READERS: Final[Mapping[str, Callable[[str | Path, bytes | None, bytes | None], LogReader]]] = {
    SQLITE: _sqlite,
    MEMORY: _memory,
}
"""The readers by the scheme of their addresses. Another store is one more line."""


def open_reader(
    address: str | Path, key: bytes | None = None, encryption_key: bytes | None = None
) -> LogReader:
    """Open the log at an address for reading, without owning it.

    address: a path, or `sqlite:///callboard.db`. key, encryption_key: see `open_log`. Raises StoreError,
    WrongKey, CorruptLog, and MisuseError for an unknown scheme.
    """
    return opener_for(address, READERS)(address, key, encryption_key)
