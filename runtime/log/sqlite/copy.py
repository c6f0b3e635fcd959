"""Complete copies of a log in one file, also of a live one.

A copy is made from one snapshot. It needs no WAL and says so (`meta`), even if its origin does. An
encrypted log stays encrypted. While the snapshot is held the owner cannot write all of the WAL back.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, TypeAlias

from callboard.runtime.log.protocol import no_session
from callboard.runtime.log.sqlite.schema import SEQ_BITS, make_tables, set_page_format

Progress: TypeAlias = Callable[[int, int], object]  # called with how much is done, and of how much

_PAGES: Final = 2_048
_EVENTS: Final = 5_000
_SESSION: Final = "INSERT INTO main.sessions SELECT * FROM origin.sessions WHERE session_id = ?"
_ROWS: Final = "INSERT INTO main.events SELECT * FROM origin.events WHERE id BETWEEN ? AND ?"
_NO_OWNER: Final = "UPDATE meta SET value = '' WHERE key IN ('wal', 'owner')"
_BLOBS: Final = (
    "INSERT INTO main.blobs SELECT b.* FROM origin.blobs AS b WHERE b.id IN "
    "(SELECT json_extract(cut.value, '$[1]') FROM main.events AS e, json_each(e.cuts) AS cut)"
)


def copy_all(source: sqlite3.Connection, target: Path, progress: Progress) -> None:
    """Copy the whole log, page by page. target: a new file."""
    with closing(sqlite3.connect(target, isolation_level=None)) as made:
        source.execute("BEGIN")
        try:
            source.execute("SELECT count(*) FROM meta").fetchone()  # from here on nothing changes
            source.backup(made, pages=_PAGES, progress=lambda _, left, all_: progress(all_ - left, all_))
        finally:
            source.execute("ROLLBACK")
        made.execute("PRAGMA journal_mode = DELETE")
        made.execute(_NO_OWNER)


def copy_session(uri: str, target: Path, session_id: str, progress: Progress) -> None:
    """Copy one session: its row, its events, its large values. Raises SessionNotFound.

    uri: the origin, with a mode that only reads.
    """
    with closing(sqlite3.connect(f"{target.as_uri()}?mode=rwc", uri=True, isolation_level=None)) as made:
        set_page_format(made)
        made.execute("ATTACH ? AS origin", (uri,))
        made.execute("BEGIN")
        make_tables(made)
        made.execute("INSERT INTO main.meta SELECT * FROM origin.meta")
        made.execute(_SESSION, (session_id,))
        row = made.execute("SELECT id, head FROM main.sessions").fetchone()
        if row is None:
            raise no_session(session_id)
        number, head = row
        for first in range(1, head + 1, _EVENTS):
            base, last = number << SEQ_BITS, min(head, first + _EVENTS - 1)
            made.execute(_ROWS, (base | first, base | last))
            progress(last, head)
        made.execute(_BLOBS)
        made.execute(_NO_OWNER)
        made.execute("COMMIT")
