# Written by `python -m tools.public_names` from the table beside it; do not edit.

from callboard.runtime.memory.access import Memory as Memory
from callboard.runtime.memory.access import MemoryEntry as MemoryEntry
from callboard.runtime.memory.postgres import PostgresMemory as PostgresMemory
from callboard.runtime.memory.sqlite import SQLiteMemory as SQLiteMemory

__all__ = [
    "Memory",
    "MemoryEntry",
    "PostgresMemory",
    "SQLiteMemory",
]
