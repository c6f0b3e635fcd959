"""Resuming a session: read it, check that it may continue with today's agents, become its only writer."""

from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from callboard.actors.protocol.bundles import Bundle
from callboard.actors.protocol.client_messages import (
    Ask,
    Forked,
    Resumed,
    SessionClosed,
    SessionOpened,
    Tell,
    TellEnded,
)
from callboard.actors.protocol.errors import (
    CorruptLog,
    Diverged,
    Fenced,
    SessionEnded,
    SessionFailed,
    SessionImported,
)
from callboard.actors.protocol.events import Event, is_closed_after
from callboard.actors.protocol.file_area import FileArea
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.layers import Layers, all_added
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.shared_state import StateKey
from callboard.actors.protocol.upcasters import FORMAT
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.recovery import Recovered, recover
from callboard.runtime.clock import now_ms
from callboard.runtime.log.protocol import EventLog, Head, Stored, check_format, check_rules, event_of
from callboard.runtime.sessions.agents_policy import AgentsPolicy, check_models, differences, refuse_changes
from callboard.runtime.sessions.detaching import OnDiverged, seconds
from callboard.runtime.sessions.ended_asks import AskReader, EndedAsk, types_of_profiles
from callboard.runtime.sessions.session_deps import (
    FilesChoice,
    Given,
    MemoryChoice,
    files_of,
    labels_of,
    refuse_other_files,
    refuse_without_deps,
)
from callboard.runtime.sessions.session_pages import checked_rows, head_of
from callboard.runtime.sessions.session_types import SessionTypes

LEAVES_OUT_SINCE_RULES: Final = 2  # before, the timeouts of programs count all time
_CLOSE_OR_REOPEN: Final = frozenset((SessionClosed, Resumed, Forked))


class RecordedSession(NamedTuple):
    """A session as its log has it.

    host, profiles, model, limits, capacity, scopes, state, files, permissions, copy: as last recorded.
    in_force, models: the profiles and the default models that agents of the last ask may have. asks: all
    request ids. ended: the asks that ended, with the head of the log there, by request id. reader: knows the
    types and delegations of the ask that did not. tells: the ends of words for agents, by request id; None
    for those without one.
    is_closed: nothing is left to be done. is_bound: a budget above the session binds it, or did.
    """

    events: tuple[Event, ...]
    host: str = ""
    profiles: tuple[Json, ...] = ()
    model: ModelSpec = ModelSpec("")
    in_force: tuple[Json, ...] = ()
    models: tuple[ModelSpec, ...] = ()
    limits: Limits | None = None
    capacity: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    state: Mapping[str, StateKey] = {}
    files: FileArea | None = None
    copy: str | None = None  # of a fork with a copy of the files
    permissions: Layers = ()
    asks: Sequence[str] = ()
    ended: Mapping[str, tuple[EndedAsk, tuple[int, str]]] = {}
    reader: AskReader = AskReader()
    tells: Mapping[str, TellEnded | None] = {}
    is_closed: bool = False
    is_bound: bool = False

    @property
    def running(self) -> str:
        """Return the request id of the ask that did not end, or an empty text."""
        return next((name for name in self.asks if name not in self.ended), "")

    @property
    def last(self) -> str:
        """Return the request id of the latest ask, or an empty text."""
        return self.running or next(reversed(self.asks), "")

    @property
    def opened(self) -> SessionOpened | None:
        """Return the first event's message; None in a session without events."""
        body = self.events[0].body if self.events else None
        return body if isinstance(body, SessionOpened) else None

    @property
    def imported(self) -> str:
        """Return the kind of traffic that the session was made of; empty for one that ran, and its forks."""
        bodies = (event.body for event in reversed(self.events))
        return next((one.imported for one in bodies if isinstance(one, SessionOpened | Forked)), "")

    @property
    def deps(self) -> str:
        """Return the type of the deps of the ask that did not end, or an empty text."""
        asks = (event.body for event in reversed(self.events) if isinstance(event.body, Ask))
        return next((ask.deps for ask in asks if ask.request_id == self.running), "")


class ResumeRules(NamedTuple):
    """The rules by which a session may be continued.

    policy: for changed agents. types, models: those that this program gives. reopens: a closed session too.
    has_deps: the program gives an object for the tools. files: those that it gives. ends_at: the seq at which
    this process has left it; None for any. fits: refuses one that its programs do not fit.
    budgets: refuses one that the budgets of this program do not fit.
    """

    policy: AgentsPolicy
    types: SessionTypes
    models: Container[str] = ()
    reopens: bool = False
    has_deps: bool = False
    files: FilesChoice = None
    fits: Callable[[RecordedSession], Awaitable[None]] | None = None
    ends_at: int | None = None
    budgets: Callable[[RecordedSession], object] = lambda recorded: None


class Continuing(NamedTuple):
    """A wish to continue a session; the fields are the parameters of `Runtime.resume` and `reopen`."""

    limits: Limits | None = None
    extend: float = 0.0
    accept_changes: bool = False
    steal: bool = False
    deps: object = None
    files: FilesChoice = None
    memory: MemoryChoice = None
    permissions: Bundle | None = None
    reopens: bool = False
    on_diverged: OnDiverged = "wait"

    @property
    def given(self) -> Given:
        """Return the objects for its tools."""
        return Given(self.deps, self.files, self.memory)


async def read_session(log: EventLog, session_id: str) -> RecordedSession:
    """Read a session, and check its digests. Raises SessionNotFound, CorruptLog, StoreError."""
    return recorded_of(session_id, await checked_rows(log, session_id))


def recorded_of(session_id: str, rows: Sequence[Stored]) -> RecordedSession:
    """Read a session from all its rows. Raises CorruptLog."""
    asks: list[str] = []
    ended: dict[str, tuple[EndedAsk, tuple[int, str]]] = {}
    reader = AskReader()
    events = tuple(map(partial(event_of, session_id), rows))
    tells: dict[str, TellEnded | None] = {}
    recorded = RecordedSession(events, asks=asks, ended=ended, reader=reader, tells=tells)
    for event, row in zip(events, rows, strict=True):
        body = event.body
        ask = reader.read(event)
        if type(body) in _CLOSE_OR_REOPEN:
            recorded = recorded._replace(is_closed=is_closed_after(body, was_closed=recorded.is_closed))
        if isinstance(body, SessionOpened | Resumed | Forked):
            recorded = _spoken_for(session_id, recorded, event.seq, body)
        elif isinstance(body, Ask):
            asks.append(body.request_id)
            recorded = recorded._replace(in_force=recorded.profiles, models=(recorded.model,))
        elif isinstance(body, Tell | TellEnded):
            tells[body.request_id] = body if isinstance(body, TellEnded) else None
        elif ask is not None:
            ended.setdefault(ask.end.request_id, (ask, (row.seq, row.digest.hex())))
    return recorded


def _spoken_for(
    session_id: str, recorded: RecordedSession, seq: int, body: SessionOpened | Resumed | Forked
) -> RecordedSession:
    """Record the agents that a session has from this event on."""
    if isinstance(body, Forked):
        recorded, body = recorded._replace(copy=body.copy if body.has_copy else None), body.resumed
    check_rules(session_id, seq, body.rules)
    check_format(session_id, seq, body.format)
    recorded = recorded._replace(permissions=all_added(recorded.permissions, body.permissions))
    if body.state:
        # A key that is declared again keeps its first declaration, as in the shared state itself.
        keys = {key.name: key for key in body.state}
        recorded = recorded._replace(state={**keys, **recorded.state})
    if body.profiles:
        recorded = recorded._replace(host=body.host, profiles=body.profiles)
    if body.model is not None:
        recorded = recorded._replace(model=body.model)
    if body.limits is not None:
        recorded = recorded._replace(limits=body.limits)
    if body.capacity is not None:
        recorded = recorded._replace(capacity=body.capacity)
    if body.scopes is not None:
        is_bound = recorded.is_bound or bool(body.scopes)
        recorded = recorded._replace(scopes=body.scopes, is_bound=is_bound)
    if body.files is not None:
        recorded = recorded._replace(files=body.files)
    if isinstance(body, Resumed) and body.from_next_ask:
        return recorded
    return recorded._replace(
        in_force=(*recorded.in_force, *body.profiles), models=(*recorded.models, recorded.model)
    )


class TakenOver(NamedTuple):
    """A recorded session that this process may write from now on. epoch, head: to begin with."""

    epoch: int
    head: Head
    recorded: RecordedSession


async def take_over(log: EventLog, session_id: str, now: SessionOpened, rules: ResumeRules) -> TakenOver:
    """Read a session and become its only writer.

    now: the session as it would be opened today.

    Raises SessionNotFound, SessionImported, SessionEnded, AgentsChanged, MissingType, Diverged, CorruptLog.
    """
    rows = await checked_rows(log, session_id)
    recorded = recorded_of(session_id, rows)
    # First, so that a refusal fences no running owner.
    await _check_all(session_id, recorded, now, rules)
    epoch, head = await log.take_over(session_id)
    if head != (head_of(rows) or head):  # an owner that was running until now has added events
        rows = await checked_rows(log, session_id)
        recorded = recorded_of(session_id, rows)
        await _check_all(session_id, recorded, now, rules)
    if head != (head_of(rows) or head) or head.seq != len(rows):
        said = f"session {session_id} ends at event {head.seq}, and {len(rows)} can be read"
        raise CorruptLog(f"{said}; see `callboard verify`", session_id, len(rows) + 1)
    return TakenOver(epoch, head, recorded)


async def refuse_unfit(log: EventLog, session_id: str, now: SessionOpened, rules: ResumeRules) -> None:
    """Refuse a session that `take_over` would refuse, and take nothing over."""
    await _check_all(session_id, await read_session(log, session_id), now, rules)


async def _check_all(
    session_id: str, recorded: RecordedSession, now: SessionOpened, rules: ResumeRules
) -> None:
    check(session_id, recorded, now, rules)
    if rules.fits is not None:
        await rules.fits(recorded)


def check(session_id: str, recorded: RecordedSession, now: SessionOpened, rules: ResumeRules) -> None:
    """Refuse a session that cannot continue.

    Raises SessionImported, SessionEnded, Fenced, AgentsChanged, MissingDeps, MissingFiles, MissingType.
    """
    if imported := recorded.imported:
        raise SessionImported(
            f"session {session_id} was made of the traffic of another program ({imported}), which callboard "
            f"cannot resume; go on in a fork, with agents of yours: `callboard fork {session_id} --with "
            "module:agents`, or `await runtime.fork(...)`"
        )
    if recorded.is_closed and not rules.reopens:
        raise SessionEnded(
            f"session {session_id} is closed, nothing is left to do; see `callboard show`, or continue "
            f"the conversation with `await runtime.reopen({session_id!r}, agent)`"
        )
    if rules.ends_at not in (None, len(recorded.events)):
        raise Fenced(
            f"session {session_id} has continued elsewhere while it was asleep here; use the Session that "
            "`resume` or `open` returned there"
        )
    rules.budgets(recorded)
    found = changes(recorded, now)
    if found and rules.policy == "refuse":
        raise refuse_changes(session_id, found)
    now_files = files_of(rules.files, session_id, *labels_of(recorded.opened))
    refuse_other_files(session_id, recorded.files, now_files, recorded.copy)
    if recorded.running:
        if not rules.has_deps:
            refuse_without_deps(session_id, recorded.deps)
        rules.types.refuse_missing(recorded.reader.needed(), accept_changes=rules.policy == "accept")
    if recorded.running and rules.policy == "next_ask":  # until then it goes on with the agents of before
        rules.types.refuse_missing(types_of_profiles(recorded.in_force), accept_changes=False)
        check_models(session_id, recorded.in_force, recorded.models, rules.models)


def changes(recorded: RecordedSession, now: SessionOpened) -> tuple[str, ...]:
    """Return the changes of the agents since the session was last opened or resumed, in words."""
    if not recorded.profiles:
        return ()
    keys, was = _changed_keys(recorded, now), (recorded.host, recorded.model, recorded.profiles)
    if was == (now.host, now.model, now.profiles):  # nearly always: no profile needs to be read
        return tuple(keys)
    found = differences(recorded.profiles, now.profiles, recorded.model, now.model)
    if recorded.host != now.host:
        found = (f"the host was {recorded.host}, is {now.host}", *found)
    return (*found, *keys)


def _changed_keys(recorded: RecordedSession, now: SessionOpened) -> Iterator[str]:
    """Yield the keys of the shared state that are updated in another way now; new keys are not a change."""
    for key in now.state:
        was = recorded.state.get(key.name, key)
        if was.reducer != key.reducer:
            yield f"state key {key.name}: its reducer was {was.reducer}, is {key.reducer}"


def continuation(
    recorded: RecordedSession,
    now: SessionOpened,
    *,
    has_limits: bool = False,
    extend_ms: int = 0,
    left_out_ms: int = 0,
    policy: AgentsPolicy = "accept",
) -> Resumed | SessionOpened:
    """Return the client's first message of the continuation, which holds changes only.

    has_limits: whether `now` has limits of the caller. extend_ms: added to every running deadline.
    left_out_ms: time that does not count: added to every running deadline, and left out by the timeouts of
    programs. policy: for changed agents.
    """
    if not recorded.events:
        return now
    limits = now.limits if has_limits and now.limits != recorded.limits else None
    reopens = recorded.is_closed
    capacity = None if now.capacity == recorded.capacity else now.capacity
    state = tuple(key for key in now.state if key.name not in recorded.state)
    files = None if now.files == recorded.files else now.files
    more = tuple(layer for layer in now.permissions if layer not in recorded.permissions)
    rules = now.rules if recorded.opened is None else recorded.opened.rules
    same = Resumed(
        rules,
        limits=limits,
        extend_ms=extend_ms + left_out_ms,
        left_out_ms=left_out_ms if rules >= LEAVES_OUT_SINCE_RULES else 0,
        capacity=capacity,
        scopes=None if now.scopes == recorded.scopes else now.scopes,
        reopens=reopens,
        state=state,
        files=files,
        format=FORMAT,
        permissions=more,
    )
    if not changes(recorded, now):
        return same
    is_next = policy == "next_ask" and bool(recorded.running)
    return replace(same, host=now.host, profiles=now.profiles, model=now.model, from_next_ask=is_next)


def recover_session(
    session_id: str,
    recorded: RecordedSession,
    first: Resumed | SessionOpened | Forked,
    gate: PortGate,
    answered: Container[int] | None = None,
    *,
    has_run: bool = True,
) -> Recovered:
    """Recover a session from its log. Raises Diverged, SessionFailed if the supervisor's decider raises.

    answered: for a fork, the requests with a recorded answer; its time is that of the last event. has_run:
    False for a fork that begins.
    """
    at = now_ms() if answered is None else recorded.events[-1].at
    try:
        return recover(recorded.events, first, at, gate, answered, has_run=has_run)
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
