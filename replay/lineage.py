"""The lineage of a session: the sessions whose events it shares, and its forks."""

from typing import NamedTuple

from callboard.runtime.log.protocol import LogReader


class Shared(NamedTuple):
    """Events that a fork shares. last: the seq of the last one.

    is_listed: False if their session was deleted, and its events stay for its forks alone.
    """

    session_id: str
    last: int
    is_listed: bool


class Lineage(NamedTuple):
    """The place of a session among forks.

    shared: the sessions whose events it shares, the oldest first; none if it is no fork. forks: the last seq
    that each of its direct forks shares with it, by their ids, the newest first.
    """

    shared: tuple[Shared, ...]
    forks: dict[str, int]


def lineage_of(reader: LogReader, session_id: str) -> Lineage:
    """Return the lineage of a session. Raises SessionNotFound, CorruptLog."""
    *before, _ = reader.segments(session_id)
    rows = reader.sessions()
    listed = {row.session_id for row in rows}
    shared = (Shared(one.session_id, one.last, one.session_id in listed) for one in before)
    return Lineage(tuple(shared), {row.session_id: row.base for row in rows if row.parent == session_id})
