"""The lineage of a session: the sessions that it is a fork of, its own forks, and the cost of a fork."""

from collections.abc import Iterable
from typing import NamedTuple

from callboard.actors.protocol.client_messages import Forked
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.actors.protocol.usage import ZERO, Usage, plus
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


class Billing(NamedTuple):
    """The figures of a fork's own events. used: as its agents count. billed: the part that was paid.

    reused, called: model calls that were answered from the recording, and others. tools: tool calls that ran.
    reused_tools: tool calls that were answered from the recording.
    """

    reused: int = 0
    called: int = 0
    tools: int = 0
    used: Usage = ZERO
    billed: Usage = ZERO
    reused_tools: int = 0


def billing(events: Iterable[Event]) -> Billing:
    """Return the figures of a session behind its latest `Forked`; of a whole session without one."""
    found = Billing()
    for event in events:
        body = event.body
        if isinstance(body, Forked):
            found = Billing()
        elif isinstance(body, ModelReplied):
            found = _with_reply(found, body)
        elif isinstance(body, ToolReturned) and body.reused:
            found = found._replace(reused_tools=found.reused_tools + 1)
        elif isinstance(body, ToolReturned) and body.status in ("ok", "error"):
            found = found._replace(tools=found.tools + 1)
    return found


def _with_reply(found: Billing, reply: ModelReplied) -> Billing:
    usage = reply.usage or ZERO
    found = found._replace(used=plus(found.used, usage))
    if reply.reused:
        return found._replace(reused=found.reused + 1)
    return found._replace(called=found.called + 1, billed=plus(found.billed, usage))
