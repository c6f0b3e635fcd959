"""Two rows of `meta` that tell whether the file is all there is, and who may write it.

    wal    "needed" in what the file itself says, "" in what the file and its WAL say together
    owner  a random name that every opener writes anew: a former owner that reads another one has lost the log

While a log is open its newest events are in `<path>-wal` only. SQLite takes a database whose WAL is missing
for a complete one that ends earlier, without a word (https://sqlite.org/howtocorrupt.html, 1.4). So before
anything else is written to a new WAL, the owner commits wal = "needed", has that written back into the file
and synced, and then commits wal = "": the file alone says that something is missing, the file with its WAL
that nothing is. Whoever opens a log that says "needed" and finds no WAL beside it, or an empty one, refuses.

Every checkpoint does the same again (`write_back`), which is why SQLite's own are turned off: they would
carry the "" over. Closing writes all back, the "" too.

  - A crash at any point leaves a WAL that is not empty: "needed" gets into the file by way of a WAL only,
    and nothing but closing ever empties it.
  - A sqlite3 shell that opens what a crash has left writes all of it back, with the "", and removes the WAL.
    If the crash came between two of the three steps (some milliseconds in 4 MiB of events) the shell writes
    "needed" back, and the log is refused though nothing is missing. The message tells how to accept it.
  - A reader of another program that stays in one transaction for long can keep "needed" from being written
    back; until it ends, a copy without the WAL may go unnoticed.
"""

import sqlite3
from pathlib import Path
from typing import Final

from callboard.actors.protocol.errors import StoreIncomplete
from callboard.runtime.log.sqlite.meta import damaged_meta, meta_value

NEEDED: Final = "needed"
CHECKPOINT_PAGES: Final = 512
"""The WAL is written back when about 4 MiB were written to it."""

_SET: Final = (
    "UPDATE meta SET value = ? WHERE key = 'wal' "
    "AND (SELECT value FROM meta WHERE key = 'owner') = ?"
)  # fmt: skip


def owner_of(connection: sqlite3.Connection) -> str:
    """The name that the last opener has written."""
    return meta_value(connection, "owner")


def own(connection: sqlite3.Connection) -> str:
    """Write a new owner's name, inside a transaction, and that the WAL is needed; the name."""
    connection.execute("UPDATE meta SET value = lower(hex(randomblob(16))) WHERE key = 'owner'")
    connection.execute("UPDATE meta SET value = ? WHERE key = 'wal'", (NEEDED,))
    return owner_of(connection)


def carry_over(connection: sqlite3.Connection, owner: str) -> None:
    """The second and third step: write the WAL back with its "needed", then say "".

    A process that lost the log meanwhile changes no mark.
    """
    checkpoint(connection)
    connection.execute(_SET, ("", owner))


def say_whole(connection: sqlite3.Connection, owner: str) -> None:
    """The third step alone, for who leaves and may have been kept from it; nothing if it was done."""
    if _is_needed(connection):
        connection.execute(_SET, ("", owner))


def write_back(connection: sqlite3.Connection, owner: str) -> None:
    """A checkpoint, all three steps; nothing if the log was lost."""
    if connection.execute(_SET, (NEEDED, owner)).rowcount:
        carry_over(connection, owner)


def checkpoint(connection: sqlite3.Connection) -> bool:
    """Write back what no reader keeps from it, waiting for nobody. False if somebody else is at it."""
    (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return not busy


def check_whole(connection: sqlite3.Connection, path: Path, shown: Path | None = None) -> None:
    """Refuse a log whose WAL was left behind. shown: the path to name. Raises StoreIncomplete."""
    wal = path.with_name(path.name + "-wal")
    if not _is_needed(connection) or _size(wal):
        return
    if not _is_needed(connection):  # its owner closed it in between
        return
    shown = shown or path
    raise StoreIncomplete(
        f"{shown} was copied or moved without {shown.name}-wal, where its newest events are, or that file "
        f"was removed: put it beside the log again (`callboard export --format db` makes whole copies). "
        f"If it is lost, go on without those events by: "
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
