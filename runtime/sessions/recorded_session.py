"""A session that is resumed, as its log has it: its events, agents and asks."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from callboard.actors.protocol.codec import UnreadableBody, decode
from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import RULES, Ask, AskEnded, Resumed, SessionClosed, SessionOpened
from callboard.actors.protocol.profiles import ModelSpec
from callboard.runtime.log.protocol import EventLog, Stored
from callboard.runtime.sessions.outcome import Outcome, outcome_of

_PAGE: Final = 2_000


class RecordedSession(NamedTuple):
    """A session as its log has it.

    host, profiles, model: as they were last recorded. outcomes: of the asks that ended, by request id.
    running: the request id of the ask that did not end. last: that of the latest ask.
    """

    events: tuple[Event, ...]
    host: str = ""
    profiles: tuple[Json, ...] = ()
    model: ModelSpec = ModelSpec("")
    outcomes: dict[str, Outcome] = {}  # noqa: RUF012  (never changed in place)
    running: str = ""
    last: str = ""
    is_closed: bool = False


async def read_recorded(log: EventLog, session_id: str) -> RecordedSession:
    """Read a whole session. Raises SessionNotFound, CorruptLog, StoreError."""
    rows: list[Stored] = []
    while page := await log.read(session_id, len(rows) + 1, _PAGE):
        rows += page
    return recorded_of(session_id, rows)


def recorded_of(session_id: str, rows: Sequence[Stored]) -> RecordedSession:
    """Read a session from all its rows. Raises CorruptLog."""
    events = tuple(event_of(session_id, row) for row in rows)
    recorded = RecordedSession(events, outcomes={})
    asks: list[str] = []
    for event, row in zip(events, rows, strict=True):
        body = event.body
        if isinstance(body, SessionOpened | Resumed):
            recorded = _spoken_for(session_id, recorded, event.seq, body)
        elif isinstance(body, Ask):
            asks.append(body.request_id)
        elif isinstance(body, AskEnded):
            head = (row.seq, row.digest.hex())
            recorded.outcomes.setdefault(body.request_id, outcome_of(session_id, body, head))
    running = next((name for name in asks if name not in recorded.outcomes), "")
    is_closed = bool(events) and isinstance(events[-1].body, SessionClosed)
    return recorded._replace(running=running, last=running or (asks[-1] if asks else ""), is_closed=is_closed)


def event_of(session_id: str, row: Stored) -> Event:
    """Decode the event of a stored row. Raises CorruptLog."""
    try:
        return Event(row.seq, row.at, row.sender, row.recipient, row.cause, decode(row.body))
    except UnreadableBody as error:
        raise CorruptLog(f"session {session_id}, event {row.seq}: {error}", session_id, row.seq) from None


def _spoken_for(
    session_id: str, recorded: RecordedSession, seq: int, body: SessionOpened | Resumed
) -> RecordedSession:
    """Record the agents that a session has from this event on."""
    if body.rules > RULES:
        raise CorruptLog(
            f"session {session_id} lives by rules {body.rules}, this callboard knows up to {RULES}; "
            "resume it with a newer one",
            session_id,
            seq,
        )
    if body.profiles:
        recorded = recorded._replace(host=body.host, profiles=body.profiles)
    return recorded if body.model is None else recorded._replace(model=body.model)
