"""The removal of sessions in small steps, so that commits of other sessions go in between.

`take_out` takes a session's row away and notes its number in the table `removals`, with the seq of the next
event to remove. From then on no query finds the session. The row of a session with forks stays, hidden: the
events that they share stay under its id, and go with the last of them. `remove_some` removes its next events
and the large values that no other session has, and notes how far it came in the same transaction.

Several processes may purge one log: each takes another session.
"""

from collections.abc import Iterable
from typing import Final

from callboard.runtime.log.postgres.arrays import Bytea, byteas
from callboard.runtime.log.postgres.link import Link
from callboard.runtime.log.postgres.schema import PARTITION_SESSIONS, quoted
from callboard.runtime.log.postgres.store_errors import driver
from callboard.runtime.log.postgres.tables import Entry, Tables, places_of
from callboard.runtime.log.session_rows import HIDDEN

EVENTS_MAX: Final = 500  # of one step

_HIDE: Final = (
    f"UPDATE {{s}}.sessions SET status = '{HIDDEN}', title = '', kind = '', failures = 0, host = '', "
    "details = '', head = %s, digest = %s WHERE id = %s"
)
_NOTE: Final = (
    "INSERT INTO {s}.removals AS had VALUES (%s, %s) "
    # A hidden session may lose more of its events before the removal of the others has ended.
    "ON CONFLICT (session) DO UPDATE SET next = least(had.next, excluded.next)"
)
_NEXT: Final = "SELECT session, next FROM {s}.removals ORDER BY session LIMIT 1 FOR UPDATE SKIP LOCKED"
_REMOVE: Final = (
    "DELETE FROM {s}.events WHERE session = %s AND seq >= %s AND seq < coalesce(("
    "SELECT seq FROM {s}.events WHERE session = %s AND seq >= %s ORDER BY seq OFFSET %s LIMIT 1), "
    "9223372036854775807) RETURNING seq, cuts"
)
_CUTS: Final = "SELECT seq, cuts FROM {s}.events WHERE session = %s AND seq < %s AND cuts IS NOT NULL"
_UNUSED: Final = (
    "DELETE FROM {s}.blobs AS b WHERE digest = %s "
    "AND NOT EXISTS (SELECT 1 FROM {s}.uses AS u WHERE u.blob = b.digest)"
)
_TABLES: Final = (
    "events",
    "blobs",
    "uses",
    "sessions",
    "removals",
    "tags",
    "usage",
    "budgets",
    "reservations",
    "reserved",
    "unlogged",
    "workers",
    "leases",
    "capacity",
    "places",
    "commands",
    "followers",
    "followed",
)
_EMPTY: Final = (
    "SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid "
    "WHERE i.inhparent = %s::regclass"
)


def take_out(tables: Tables, entry: Entry) -> int:
    """Take a session out, as far as no fork shares its events, in a transaction. Return their number.

    A hidden session whose forks have gone with it goes, too.
    """
    last = max(tables.forks(entry.session_id).values(), default=0)
    tables.rows("DELETE FROM {s}.tags WHERE session = %s", (entry.number,))
    if last:
        tables.rows(_HIDE, (last, Bytea(tables.digest_at(entry, last)), entry.number))
    else:
        tables.rows("DELETE FROM {s}.sessions WHERE id = %s", (entry.number,))
    if last < entry.head.seq:
        tables.rows(_NOTE, (entry.number, last + 1))
    count = entry.head.seq - max(last, entry.base)
    if last or not entry.parent:
        return count
    parent = tables.entry(entry.parent, hidden=True, lock="FOR UPDATE")
    return count + (take_out(tables, parent) if parent.is_hidden else 0)


def remove_some(tables: Tables) -> bool:
    """Remove the next events of a deleted session, in a transaction. Return whether more is left."""
    left = tables.rows(_NEXT)
    if not left:
        return False
    number, start = left[0]
    rows = tables.rows(_REMOVE, (number, start, number, start, EVENTS_MAX))
    gone = _named(rows)
    if gone:
        gone -= _named(tables.rows(_CUTS, (number, start)))
        _remove_blobs(tables, number, gone)
    if len(rows) < EVENTS_MAX:
        tables.rows("DELETE FROM {s}.removals WHERE session = %s", (number,))
    else:
        following = max(seq for seq, _ in rows) + 1
        tables.rows("UPDATE {s}.removals SET next = %s WHERE session = %s", (following, number))
    ((is_left,),) = tables.rows("SELECT EXISTS (SELECT 1 FROM {s}.removals)")
    return bool(is_left)


def _named(rows: Iterable[tuple[int, str | None]]) -> set[bytes]:
    return {name for seq, cuts in rows if cuts is not None for _, name in places_of("", seq, cuts)}


def _remove_blobs(tables: Tables, session: int, names: set[bytes]) -> None:
    """Remove the large values that this session had, and no other one has."""
    ordered = sorted(names)
    tables.rows("DELETE FROM {s}.uses WHERE session = %s AND blob = ANY(%s)", (session, byteas(ordered)))
    for name in ordered:
        tables.rows("SAVEPOINT unused")
        try:
            tables.rows(_UNUSED, (Bytea(name),))
        except driver().errors.ForeignKeyViolation:  # an append uses it since, and keeps it
            tables.rows("ROLLBACK TO SAVEPOINT unused")


def vacuum(link: Link, *, is_full: bool) -> None:
    """Give the space of removed events back: to the system if `is_full`, else for new events.

    is_full: rewrites all tables, during which no event can be stored.
    """
    name = quoted(link.address.schema)
    _drop_partitions(link, name)
    tables = ", ".join(f"{name}.{one}" for one in _TABLES)
    link.execute(f"VACUUM {'(FULL)' if is_full else ''} {tables}", (), "vacuum")


def _drop_partitions(link: Link, name: str) -> None:
    """Drop the partitions of which every session is removed, in which no new one can be."""
    query = f"SELECT coalesce(max(id), 0) FROM {name}.sessions"
    ((newest,),) = link.read(query)
    for (table,) in link.read(_EMPTY, (f"{name}.events",)):
        at = int(table.rpartition("_")[2])
        last = (at + 1) * PARTITION_SESSIONS - 1
        if last >= newest:
            continue
        link.transact("dropping a partition", lambda at=at: _drop(link, name, at))  # type: ignore[misc]  # bound now


def _drop(link: Link, name: str, at: int) -> None:
    bounds = (at * PARTITION_SESSIONS, (at + 1) * PARTITION_SESSIONS - 1)
    for table, column in (("sessions", "id"), ("removals", "session")):
        query = f"SELECT EXISTS (SELECT 1 FROM {name}.{table} WHERE {column} BETWEEN %s AND %s)"
        ((is_used,),) = link.execute(query, bounds)
        if is_used:
            return
    link.execute(f"DROP TABLE {name}.events_{at}")
