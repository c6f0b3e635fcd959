"""Resuming a session: read it, check that it may continue with today's agents, become its only writer."""

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from callboard.actors.protocol.errors import (
    AgentsChanged,
    CorruptLog,
    Diverged,
    SessionEnded,
    SessionFailed,
)
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import RULES, Ask, AskEnded, Resumed, SessionClosed, SessionOpened
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.recovery import Recovered, recover
from callboard.runtime.clock import now_ms
from callboard.runtime.log.protocol import EventLog, Head, Stored, check_rules, event_of
from callboard.runtime.sessions.agent_diff import differences
from callboard.runtime.sessions.detaching import seconds
from callboard.runtime.sessions.outcome import Outcome, outcome_of

_PAGE: Final = 2_000


class RecordedSession(NamedTuple):
    """A session as its log has it.

    host, profiles, model: as they were last recorded. asks: all request ids. outcomes: of the asks that
    ended, by request id.
    """

    events: tuple[Event, ...]
    host: str = ""
    profiles: tuple[Json, ...] = ()
    model: ModelSpec = ModelSpec("")
    asks: Sequence[str] = ()
    outcomes: Mapping[str, Outcome] = {}

    @property
    def running(self) -> str:
        """Return the request id of the ask that did not end, or an empty text."""
        return next((name for name in self.asks if name not in self.outcomes), "")

    @property
    def last(self) -> str:
        """Return the request id of the latest ask, or an empty text."""
        return self.running or next(reversed(self.asks), "")

    @property
    def is_closed(self) -> bool:
        """Return whether nothing is left to be done."""
        return bool(self.events) and isinstance(self.events[-1].body, SessionClosed)


class Continuing(NamedTuple):
    """How to continue a session; the fields are the parameters of `Runtime.resume` and `reopen`."""

    limits: Limits | None = None
    extend: float = 0.0
    accept_changes: bool = False
    steal: bool = False
    reopens: bool = False


async def pages_from(log: EventLog, session_id: str, start: int) -> AsyncIterator[list[Stored]]:
    """Yield the rows of a session from a seq on, in pages. Raises SessionNotFound, CorruptLog, StoreError."""
    while page := await log.read(session_id, start, _PAGE):
        yield page
        start += len(page)


async def _read(log: EventLog, session_id: str) -> RecordedSession:
    return recorded_of(session_id, [row async for page in pages_from(log, session_id, 1) for row in page])


def recorded_of(session_id: str, rows: Sequence[Stored]) -> RecordedSession:
    """Read a session from all its rows. Raises CorruptLog."""
    asks: list[str] = []
    outcomes: dict[str, Outcome] = {}
    events = tuple(map(partial(event_of, session_id), rows))
    recorded = RecordedSession(events, asks=asks, outcomes=outcomes)
    for event, row in zip(events, rows, strict=True):
        body = event.body
        if isinstance(body, SessionOpened | Resumed):
            recorded = _spoken_for(session_id, recorded, event.seq, body)
        elif isinstance(body, Ask):
            asks.append(body.request_id)
        elif isinstance(body, AskEnded):
            head = (row.seq, row.digest.hex())
            outcomes.setdefault(body.request_id, outcome_of(session_id, body, head))
    return recorded


def _spoken_for(
    session_id: str, recorded: RecordedSession, seq: int, body: SessionOpened | Resumed
) -> RecordedSession:
    """Record the agents that a session has from this event on."""
    check_rules(session_id, seq, body.rules)
    if body.profiles:
        recorded = recorded._replace(host=body.host, profiles=body.profiles)
    return recorded if body.model is None else recorded._replace(model=body.model)


async def take_over(
    log: EventLog, session_id: str, now: SessionOpened, accept_changes: bool, reopens: bool
) -> tuple[int, Head, RecordedSession]:
    """Read a session and become its only writer. Return the epoch, the head and the recorded session.

    now: the session as it would be opened today. accept_changes: accept other agents than the recorded ones.
    reopens: take over a closed session too.

    Raises SessionNotFound, SessionEnded, AgentsChanged, CorruptLog.
    """
    recorded = await _read(log, session_id)
    check(session_id, recorded, now, accept_changes, reopens)  # first: a refusal fences no running owner
    epoch, head = await log.take_over(session_id)
    if head.seq != len(recorded.events):  # an owner that was running until now has added events
        recorded = await _read(log, session_id)
        check(session_id, recorded, now, accept_changes, reopens)
    if head.seq != len(recorded.events):
        found = len(recorded.events)
        said = f"session {session_id} ends at event {head.seq}, and {found} can be read"
        raise CorruptLog(f"{said}; see `callboard verify`", session_id, found + 1)
    return epoch, head, recorded


def check(
    session_id: str, recorded: RecordedSession, now: SessionOpened, accept_changes: bool, reopens: bool
) -> None:
    """Refuse a session that cannot continue. Raises SessionEnded, AgentsChanged."""
    if recorded.is_closed and not reopens:
        raise SessionEnded(
            f"session {session_id} is closed, nothing is left to be done; see `callboard show`, or continue "
            f"the conversation with `await runtime.reopen({session_id!r}, agent)`"
        )
    found = changes(recorded, now)
    if found and not accept_changes:
        raise AgentsChanged(
            f"session {session_id} was recorded with other agents: {'; '.join(found)}. Resume it with those, "
            "or pass accept_changes=True (--accept-changes) to go on with these, which is recorded",
            found,
        )


def changes(recorded: RecordedSession, now: SessionOpened) -> tuple[str, ...]:
    """Return the changes of the agents since the session was last opened or resumed, in words."""
    if not recorded.profiles:
        return ()
    found = differences(recorded.profiles, now.profiles, recorded.model, now.model)
    if recorded.host != now.host:
        found = (f"the host was {recorded.host}, is {now.host}", *found)
    return found


def continuation(
    recorded: RecordedSession, now: SessionOpened, has_limits: bool, extend_ms: int
) -> Resumed | SessionOpened:
    """Return the client's first message of the continuation, which holds changes only.

    has_limits: whether `now` has limits of the caller. extend_ms: added to every running deadline.
    """
    if not recorded.events:
        return now
    limits = now.limits if has_limits else None
    if not changes(recorded, now):
        return Resumed(RULES, limits=limits, extend_ms=extend_ms)
    return Resumed(RULES, now.host, now.profiles, now.model, limits, extend_ms)


def recover_session(
    session_id: str, recorded: RecordedSession, first: Resumed | SessionOpened, gate: PortGate
) -> Recovered:
    """Recover a session from its log. Raises Diverged, SessionFailed if the supervisor's decider raises."""
    try:
        return recover(recorded.events, first, now_ms(), gate)
    except Diverged:
        raise
    except Exception as error:
        raise SessionFailed(
            f"session {session_id}: the supervisor's decider raises {type(error).__name__}: {error}; nothing "
            "was added to the log. Resume it with a version in which that is fixed"
        ) from error


def extension_ms(extend: float) -> int:
    """Convert seconds to milliseconds. Raises MisuseError for other values than numbers from 0 up."""
    return round(seconds("extend", extend) * 1_000)


def downtime_ms(recorded: RecordedSession) -> int:
    """Return the time since the last event of a session."""
    return max(0, now_ms() - recorded.events[-1].at) if recorded.events else 0
