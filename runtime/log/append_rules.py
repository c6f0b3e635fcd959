"""The rule by which every store accepts or refuses an append, and the sentences it refuses with."""

from callboard.actors.protocol.errors import Fenced, SessionExists, SessionNotFound, WrongHead
from callboard.runtime.log.protocol import Append


def refusal(part: Append, epoch: int, head: int) -> Fenced | WrongHead | None:
    """Why these events do not continue a session that has this epoch and head, or None."""
    if part.epoch != epoch:
        return fenced(part.session_id, part.epoch, epoch)
    if part.expected_head != head:
        return WrongHead(
            f"session {part.session_id} ends at event {head}, not at {part.expected_head}: "
            f"somebody else has written it; read its log before you go on"
        )
    for seq, event in enumerate(part.events, head + 1):
        if event.seq != seq:
            return WrongHead(f"session {part.session_id}: event {event.seq} came where {seq} was next")
    return None


def fenced(session_id: str, mine: int, current: int) -> Fenced:
    """The error for a writer of an old epoch."""
    return Fenced(
        f"session {session_id} was taken over: its epoch is {current}, this writer's is {mine}; "
        f"whoever took it over goes on with it"
    )


def no_session(session_id: str) -> SessionNotFound:
    """The error for a session that is not there."""
    return SessionNotFound(
        f"no session {session_id!r} in this log; `callboard sessions` lists those that are there"
    )


def session_exists(session_id: str) -> SessionExists:
    """The error for making a session that is there."""
    return SessionExists(f"there is a session {session_id!r} already; resume it, or choose another id")
