"""Two rows of `meta` that say whether the file is complete without its WAL, and which process may write it.

    wal    "needed" in the file alone, "" in the file and its WAL together
    owner  a random name that every opener writes: a former owner that reads another one has lost the log

While a log is open its newest events are in `<path>-wal` only. SQLite takes a database whose WAL is missing
for a complete one that ends earlier (https://sqlite.org/howtocorrupt.html, 1.4). So before any other write
to a new WAL, the owner commits wal = "needed", has that written back into the file and synced, and then
commits wal = "": the file alone says that events are missing, the file with its WAL that none are. An opener
that reads "needed" and finds no WAL beside the file, or an empty one, refuses.

Every checkpoint repeats these three steps (`write_back`). Closing writes all back, the "" too. A crash at any
point leaves a WAL that is not empty: "needed" gets into the file by way of a WAL only, and only closing
empties it. docs/log.md has the limits of this.
"""

import sqlite3
from pathlib import Path
from typing import Final

from callboard.actors.protocol.errors import StoreIncomplete
from callboard.runtime.log.sqlite.meta import damaged_meta, meta_value

NEEDED: Final = "needed"
CHECKPOINT_PAGES: Final = 512  # pages in the WAL from which on it is written back: about 4 MiB

_SET: Final = (
    "UPDATE meta SET value = ? WHERE key = 'wal' "
    "AND (SELECT value FROM meta WHERE key = 'owner') = ?"
)  # fmt: skip


def owner_of(connection: sqlite3.Connection) -> str:
    """Return the name that the last opener has written. Raises CorruptLog."""
    return meta_value(connection, "owner")


def write_owner(connection: sqlite3.Connection) -> str:
    """Write a new owner's name and "needed", inside a transaction. Return the name."""
    connection.execute("UPDATE meta SET value = lower(hex(randomblob(16))) WHERE key = 'owner'")
    connection.execute("UPDATE meta SET value = ? WHERE key = 'wal'", (NEEDED,))
    return owner_of(connection)


def finish_marking(connection: sqlite3.Connection, owner: str) -> None:
    """Write the WAL back with its "needed", then commit "", unless the log was lost meanwhile."""
    checkpoint(connection)
    connection.execute(_SET, ("", owner))


def clear_marker(connection: sqlite3.Connection, owner: str) -> None:
    """Take the third step, when leaving, if a failure has prevented it."""
    if _is_needed(connection):
        connection.execute(_SET, ("", owner))


def write_back(connection: sqlite3.Connection, owner: str) -> None:
    """Write the WAL back in all three steps, unless the log was lost."""
    if connection.execute(_SET, (NEEDED, owner)).rowcount:
        finish_marking(connection, owner)


def checkpoint(connection: sqlite3.Connection) -> bool:
    """Write back all pages that no reader needs. Return False if another process is at it."""
    (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return not busy


def check_complete(connection: sqlite3.Connection, path: Path, shown: Path | None = None) -> None:
    """Refuse a log without its WAL. shown: the path for the message. Raises StoreIncomplete."""
    wal = path.with_name(path.name + "-wal")
    if not _is_needed(connection) or _size(wal):
        return
    if not _is_needed(connection):  # its owner closed it in between
        return
    shown = shown or path
    raise StoreIncomplete(
        f"{shown} was copied or moved without {shown.name}-wal, where its newest events are, or that file "
        f"was removed: put it beside the log again (`callboard export --format db` makes whole copies). "
        f"If it is lost, continue without those events by: "
        f"sqlite3 {shown} \"UPDATE meta SET value = '' WHERE key = 'wal'\""
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _is_needed(connection: sqlite3.Connection) -> bool:
    """Return whether the file says that its WAL is needed. Raises CorruptLog."""
    value = meta_value(connection, "wal")
    if value not in ("", NEEDED):
        raise damaged_meta(connection, "wal")
    return value == NEEDED
