"""Opening a log for writing, by its address.

The removal of sessions from a log that has no other work to do.
"""

from pathlib import Path
from typing import Final

from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.log.reading import file_of, given_log, is_memory, is_server, server_of
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.meta import Durability


def open_log(
    address: str | Path,
    durability: Durability = "full",
    key: bytes | None = None,
    *,
    force: bool = False,
    encryption_key: bytes | None = None,
) -> EventLog:
    """Return the log at an address; `await log.open()` then takes ownership. Raises MisuseError.

    address: a path, `":memory:"`, `sqlite:///callboard.db`, or `postgresql://user@host/database` (with
    `callboard[postgres]`), which many processes may open at once. durability: "full" syncs the disk at every
    commit; with "process" a commit survives the process but not a power cut. key: 1 to 64 secret bytes under
    which digests are computed. force: take the log from another process that owns it and does not answer.
    encryption_key: at least 32 random bytes, with which bodies, large values and titles are encrypted. A log
    in memory uses only `key`.
    """
    if is_memory(address):
        return MemoryLog(key)
    if is_server(address):
        return PostgresLog(server_of(str(address)), key, encryption_key=encryption_key)
    return SQLiteLog(file_of(address), durability, key, force=force, encryption_key=encryption_key)


def log_of(given: str | Path | EventLog, durability: Durability = "full") -> EventLog:
    """Return a log that is given, or the one at an address. Raises MisuseError for any other object."""
    return open_log(given, durability) if isinstance(given, str | Path) else given_log(given)


_EVERY_PAGE: Final = 1 << 30  # more free pages than a file can have


async def erase(log: EventLog, *session_ids: str, keep_forks: bool = False) -> int:
    """Delete sessions, remove all of them, and make the file smaller. Return the number of their events."""
    count = 0
    for session_id in session_ids:
        count += await log.delete(session_id, keep_forks=keep_forks)
    await cut(log)
    return count


async def cut(log: EventLog) -> None:
    """Finish the removal of deleted sessions, and give the free space back."""
    while await log.purge():
        pass
    await log.vacuum(_EVERY_PAGE)
