# Written by `python -m tools.public_names` from the table beside it; do not edit.

from callboard.runtime.log.memory import MemoryLog as MemoryLog
from callboard.runtime.log.memory import MemoryReader as MemoryReader
from callboard.runtime.log.opening import open_log as open_log
from callboard.runtime.log.postgres.log import PostgresLog as PostgresLog
from callboard.runtime.log.protocol import EventLog as EventLog
from callboard.runtime.log.protocol import Head as Head
from callboard.runtime.log.session_rows import SessionQuery as SessionQuery
from callboard.runtime.log.session_rows import SessionRow as SessionRow
from callboard.runtime.log.session_rows import SessionStatus as SessionStatus
from callboard.runtime.log.sqlite.log import SQLiteLog as SQLiteLog

__all__ = [
    "EventLog",
    "Head",
    "MemoryLog",
    "MemoryReader",
    "PostgresLog",
    "SQLiteLog",
    "SessionQuery",
    "SessionRow",
    "SessionStatus",
    "open_log",
]
