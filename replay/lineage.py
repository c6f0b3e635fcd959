"""The lineage of a session: the sessions that it is a fork of, and its own forks."""

from collections.abc import Iterable
from typing import NamedTuple

from callboard.runtime.log.session_rows import SessionRow


class Branch(NamedTuple):
    """A place where sessions part. session_id: the other session. seq: the last event that both share."""

    session_id: str
    seq: int


class Lineage(NamedTuple):
    """The relatives of a session.

    origins: the session that it is a fork of, then that one's, up to a session that is not a fork. forks: of
    this session, the newest first.
    """

    origins: tuple[Branch, ...] = ()
    forks: tuple[Branch, ...] = ()


def lineage(rows: Iterable[SessionRow], session_id: str) -> Lineage:
    """Return the lineage of a session. rows: of all sessions of its log, newest first."""
    known = {row.session_id: row for row in rows}
    forks = (Branch(row.session_id, row.base) for row in known.values() if row.parent == session_id)
    origins: list[Branch] = []
    row = known.get(session_id)
    while row is not None and row.parent:
        origins.append(Branch(row.parent, row.base))
        row = known.get(row.parent)
    return Lineage(tuple(origins), tuple(forks))
