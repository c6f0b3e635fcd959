"""A memory by its address: the path of a file, or the URL of a PostgreSQL server."""

from pathlib import Path

from callboard.runtime.log.reading import file_of, is_server
from callboard.runtime.memory.postgres import PostgresMemory
from callboard.runtime.memory.sqlite import SQLiteMemory


def memory_at(address: str | Path) -> SQLiteMemory | PostgresMemory:
    """Return the memory at an address. Raises MisuseError for an unknown scheme."""
    return PostgresMemory(str(address)) if is_server(address) else SQLiteMemory(file_of(address))
