"""Opening a log for writing, by its address."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from callboard.runtime.log.addresses import MEMORY, SQLITE, file_of, opener_for
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.preparation import Durability


class LogOptions(NamedTuple):
    """How to open a log. The parameters of `open_log`."""

    durability: Durability = "full"
    key: bytes | None = None
    force: bool = False
    encryption_key: bytes | None = None


def _memory(_: str | Path, options: LogOptions) -> EventLog:
    return MemoryLog(options.key)


def _sqlite(address: str | Path, options: LogOptions) -> EventLog:
    return SQLiteLog(
        file_of(address),
        options.durability,
        options.key,
        force=options.force,
        encryption_key=options.encryption_key,
    )


OPENERS: Final[Mapping[str, Callable[[str | Path, LogOptions], EventLog]]] = {
    SQLITE: _sqlite,
    MEMORY: _memory,
}
"""The stores by the scheme of their addresses. Another store is one more line."""


def open_log(
    address: str | Path,
    durability: Durability = "full",
    key: bytes | None = None,
    *,
    force: bool = False,
    encryption_key: bytes | None = None,
) -> EventLog:
    """Return the log at an address; `await log.open()` then takes ownership.

    address: a path, `":memory:"`, or `sqlite:///callboard.db`. durability: "full" syncs the disk at every
    commit; with "process" a commit survives the process but not a power cut. key: 1 to 64 secret bytes under
    which digests are computed. force: take the log from another process that owns it and does not answer.
    encryption_key: at least 32 random bytes, with which bodies, large values and titles are encrypted. A log
    in memory uses only `key`. Raises MisuseError for an unknown scheme.
    """
    options = LogOptions(durability, key, force, encryption_key)
    return opener_for(address, OPENERS)(address, options)
