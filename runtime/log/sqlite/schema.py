"""The tables of a log in SQLite, and the version of their format.

meta      key, value: see `meta`; also the numbers of deleted sessions whose events are still to be removed:
          see `deletion`
sessions  one row per session; `id` is its number inside this file. A fork has the id of its `parent`, and the
          seq of the last event that it shares with it in `base`; its own events begin behind that
events    id = session number * 2^32 + seq, so that a session's events lie together, in order, and no
          second index is needed; body is JSON text, cuts is NULL or [[offset, blob id], ...]
blobs     large values that were cut out of bodies, once each, under the digest of their bytes
uses      which sessions have a large value, so that the last one that is deleted takes it along
tags      the sessions of each tag; in an encrypted log its keyed digest stands for it
usage     the usage of each session by UTC day, model and profile
budgets, reservations, unlogged   the spending of budgets above sessions: see `spending`
log       a view with ids, times and kinds spelled out, for the sqlite3 shell and Datasette

Format 1 lacks the usage and the spending. Its next owner adds these tables; until then a reader has them
empty, in its own memory.

Large values in the file, which bodies were cut from.
"""

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from callboard.actors.protocol.errors import StoreTooNew, StoreUnreadable
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import corrupt
from callboard.runtime.log.large_values import Cut

APPLICATION_ID: Final = 0x63627264  # "cbrd", in the file's header: every SQLite tool can tell that it is ours
FORMAT: Final = 2  # the version of the tables and their meaning, kept as `user_version`

SQLITE_MIN: Final = (3, 33, 0)  # UPDATE ... FROM.

# With 4 KiB pages, 15 rows of 255 bytes leave 6 % of every page unused. Measured for turns of six events
# with 180-byte bodies: 1.57 KiB a turn in a session of 800, 1.66 KiB if a hundred sessions are written in
# turns (inserting in the middle splits pages; an index over session and seq costs 1.69 either way).
PAGE_BYTES: Final = 8_192

SEQ_BITS: Final = 32
SEQ_MAX: Final = (1 << SEQ_BITS) - 1
NUMBER_MAX: Final = (1 << (63 - SEQ_BITS)) - 1

_TABLES: Final = (
    """CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE sessions(
    id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    epoch INTEGER NOT NULL,
    head INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    title TEXT NOT NULL,
    origin BLOB NOT NULL,
    parent TEXT NOT NULL DEFAULT '',
    base INTEGER NOT NULL DEFAULT 0,
    last_ms INTEGER NOT NULL DEFAULT 0,
    status TEXT NOT NULL DEFAULT 'open',
    kind TEXT NOT NULL DEFAULT '',
    failures INTEGER NOT NULL DEFAULT 0,
    host TEXT NOT NULL DEFAULT '',
    details TEXT)""",
    # One index for lists of all sessions and of those in a status: 100,000 entries are read in 10 ms.
    """CREATE INDEX sessions_by_age ON sessions(created_ms, status)""",
    """CREATE INDEX sessions_by_parent ON sessions(parent) WHERE parent <> ''""",
    """CREATE TABLE events(
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    sender TEXT NOT NULL,
    recipient TEXT NOT NULL,
    cause INTEGER NOT NULL,
    body TEXT NOT NULL,
    cuts TEXT,
    digest BLOB NOT NULL)""",
    """CREATE TABLE blobs(id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, data TEXT NOT NULL)""",
    """CREATE TABLE uses(blob INTEGER, session INTEGER, PRIMARY KEY(blob, session)) WITHOUT ROWID""",
    """CREATE TABLE tags(tag TEXT, session INTEGER, PRIMARY KEY(tag, session)) WITHOUT ROWID""",
    """CREATE VIEW log AS
    SELECT s.session_id AS session, e.id & 0xffffffff AS seq,
           strftime('%Y-%m-%dT%H:%M:%fZ', e.at / 1000.0, 'unixepoch') AS time,
           e.sender, e.recipient, e.cause,
           CASE typeof(e.body) WHEN 'text' THEN json_extract(e.body, '$.type') END AS kind, e.body, e.cuts
    FROM sessions AS s JOIN events AS e ON e.id BETWEEN s.id << 32 AND (s.id << 32) | 0xffffffff""",
)

_ADDED: Final = (  # by format 2
    """CREATE TABLE budgets(
    scope TEXT,
    period TEXT,
    tokens INTEGER NOT NULL,
    micro_usd INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY(scope, period)) WITHOUT ROWID""",
    """CREATE TABLE usage(
    session INTEGER,
    day TEXT,
    model TEXT,
    profile TEXT,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    charged_tokens INTEGER NOT NULL,
    micro_usd INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    unknown_calls INTEGER NOT NULL,
    PRIMARY KEY(session, day, model, profile)) WITHOUT ROWID""",
    """CREATE TABLE reservations(call TEXT PRIMARY KEY, held TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE unlogged(
    call TEXT PRIMARY KEY, held TEXT NOT NULL, at_ms INTEGER NOT NULL) WITHOUT ROWID""",
)

_Object: TypeAlias = tuple[str, ...]  # a row of `sqlite_master`: type, name, table, SQL


def is_fresh(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether the file is empty. Raises StoreUnreadable if it is not a sound log, StoreTooNew."""
    if sqlite3.sqlite_version_info < SQLITE_MIN:
        raise StoreUnreadable(f"SQLite {sqlite3.sqlite_version} is too old: callboard needs 3.33 or later")
    application = pragma(connection, "application_id")
    if application == 0:
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return True
        application = pragma(connection, "application_id")  # another process may have made the log meanwhile
    if application != APPLICATION_ID:
        raise StoreUnreadable(f"{path} is a database, but not a callboard log; choose another file name")
    _refuse_newer(pragma(connection, "user_version"), path)
    check_schema(connection, path)
    return False


def _refuse_newer(version: int, path: Path) -> None:
    if version > FORMAT:
        raise StoreTooNew(
            f"{path} has format {version}, and this callboard reads up to {FORMAT}; "
            f"use the newer callboard that wrote it"
        )


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a log that has other tables, views, indexes or triggers than ours. Raises StoreUnreadable."""
    # A trigger could drop events that were acknowledged; a view in place of a table could run forever.
    own = _own_objects(pragma(connection, "user_version"))
    found = _objects(connection, len(own) + 1)
    odd = (found - own) or (own - found)  # a changed table is in both
    if not odd:
        return
    # SQLite's own indexes, which have no SQL, come behind their tables.
    kind, name, _, _ = first = min(odd, key=lambda one: (not one[3], one))
    if first in own:
        raise StoreUnreadable(f"{path} lacks the {kind} {name!r}: it was damaged; restore a copy of the log")
    if (kind, name) in {one[:2] for one in own}:
        raise StoreUnreadable(
            f"{path} has the {kind} {name!r} in another form, which callboard did not make: it was edited, "
            "or an older version wrote it before the format was settled; read it with that version"
        )
    raise StoreUnreadable(
        f"{path} holds the {kind} {name[:80]!r}, which callboard did not make: such a file is neither "
        f"read nor written. Remove it with the sqlite3 shell, or restore a copy of the log"
    )


def _objects(connection: sqlite3.Connection, limit: int) -> set[_Object]:
    columns = ", ".join(f"CAST({name} AS BLOB)" for name in ("type", "name", "tbl_name", "sql"))
    rows = connection.execute(f"SELECT {columns} FROM sqlite_master LIMIT ?", (limit,)).fetchall()
    return {tuple((value or b"").decode("utf-8", "replace") for value in row) for row in rows}


@cache
def _own_objects(version: int) -> set[_Object]:
    """Return the rows that SQLite makes of our own statements for a format, which depend on its version."""
    with closing(sqlite3.connect(":memory:")) as connection:
        _make(connection, _TABLES if version < FORMAT else (*_TABLES, *_ADDED))
        return _objects(connection, 100)


def set_page_format(connection: sqlite3.Connection) -> None:
    """Choose page size and vacuum mode of a new file. SQLite ignores both once the file has a table."""
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the empty tables, and mark the file's header as a callboard log's."""
    _make(connection, (*_TABLES, *_ADDED))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def upgrade(connection: sqlite3.Connection) -> None:
    """Give a log of an earlier format the tables that it lacks, inside the transaction of its owner."""
    if pragma(connection, "user_version") < FORMAT:
        _make(connection, _ADDED)
        connection.execute(f"PRAGMA user_version = {FORMAT}")


def lend_tables(connection: sqlite3.Connection) -> None:
    """Let a reader find the tables that a log of an earlier format lacks, empty and in its own memory."""
    if pragma(connection, "user_version") < FORMAT:
        connection.execute("PRAGMA temp_store = MEMORY")
        _make(connection, (one.replace("CREATE TABLE", "CREATE TEMP TABLE") for one in _ADDED))


def _make(connection: sqlite3.Connection, statements: Iterable[str]) -> None:
    for statement in statements:
        connection.execute(statement)


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """Return the value of a pragma that is a number."""
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def typed(column: str, kind: str) -> str:
    """Return SQL for a column that is NULL where its value is not of a kind: "integer", "blob"."""
    # sqlite3 decodes every text that it returns: in a damaged file the text in the place of a number may not
    # be UTF-8, and the whole statement fails.
    return f"CASE typeof({column}) WHEN '{kind}' THEN {column} END"


_BLOB: Final = f"SELECT CAST(data AS BLOB), {typed('digest', 'blob')} FROM blobs WHERE id = ?"

Kept: TypeAlias = Callable[[bytes], tuple[bytes, bytes]]
"""A large value -> the digest and the data of its cut."""

places_of = msgspec.json.Decoder(list[tuple[int, int]]).decode


class Blobs:
    """Large values by their number in the file, each fetched once."""

    def __init__(self, connection: sqlite3.Connection, cipher: Cipher | None, kept: Kept) -> None:
        self._connection = connection
        self._cipher = cipher
        self._kept = kept
        self._known: dict[int, tuple[bytes, bytes]] = {}

    def cuts(self, session_id: str, seq: int, cuts: bytes) -> tuple[Cut, ...]:
        """Return the cuts of an event."""
        try:
            return tuple(Cut(offset, *self._get(number)) for offset, number in places_of(cuts))
        except (LookupError, TypeError, OverflowError, ValueError) as error:
            raise corrupt(session_id, seq, f"lacks a large value ({error})") from None

    def _get(self, number: int) -> tuple[bytes, bytes]:
        if number not in self._known:
            row = self._connection.execute(_BLOB, (number,)).fetchone()
            if row is None or row[0] is None:  # SQLite takes NOT NULL on trust, also in a damaged file
                raise LookupError(f"no blob {number}")
            data = row[0] if self._cipher is None else self._cipher.open(("blob", row[1]), row[0])
            self._known[number] = self._kept(data)
        return self._known[number]
