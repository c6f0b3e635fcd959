"""The rules by which every store accepts or refuses an append, and the errors for a refusal."""

from callboard.actors.protocol.errors import Fenced, SessionExists, SessionNotFound, WrongHead
from callboard.runtime.log.protocol import Append


def refusal(part: Append, epoch: int, head: int) -> Fenced | WrongHead | None:
    """Return the error for events that do not continue a session of this epoch and head, else None."""
    if part.epoch != epoch:
        return fenced(part.session_id, part.epoch, epoch)
    if part.expected_head != head:
        return WrongHead(
            f"session {part.session_id} ends at event {head}, not at {part.expected_head}: "
            f"another writer has appended to it; read its log before you continue"
        )
    for seq, event in enumerate(part.events, head + 1):
        if event.seq != seq:
            return WrongHead(f"session {part.session_id}: event {event.seq} came where {seq} was next")
    return None


def fenced(session_id: str, mine: int, current: int) -> Fenced:
    """Return the error for a writer of an old epoch."""
    return Fenced(
        f"session {session_id} was taken over: its epoch is {current}, this writer's is {mine}; "
        f"the writer of epoch {current} continues it"
    )


def no_session(session_id: str) -> SessionNotFound:
    """Return the error for a missing session."""
    return SessionNotFound(f"no session {session_id!r} in this log; `callboard sessions` lists its sessions")


def session_exists(session_id: str) -> SessionExists:
    """Return the error for creating a session twice."""
    return SessionExists(f"there is a session {session_id!r} already; resume it, or choose another id")
