"""Memory beyond a session: entries, the bundled store, and the protocol for others."""

from callboard.lazy_names import lazy_names

_HOMES = {
    "runtime.memory.access": ("Memory", "MemoryEntry"),
    "runtime.memory.postgres": ("PostgresMemory",),
    "runtime.memory.sqlite": ("SQLiteMemory",),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
