"""Stores of sessions, the protocol for a store of your own, and their rows."""

from callboard.lazy_names import lazy_names

_HOMES = {
    "runtime.log.memory": ("MemoryLog", "MemoryReader"),
    "runtime.log.opening": ("open_log",),
    "runtime.log.postgres.log": ("PostgresLog",),
    "runtime.log.protocol": ("EventLog", "Head"),
    "runtime.log.session_rows": ("SessionQuery", "SessionRow", "SessionStatus"),
    "runtime.log.sqlite.log": ("SQLiteLog",),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
