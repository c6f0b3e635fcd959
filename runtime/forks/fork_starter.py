"""The part of the starter of sessions that forks them, and goes on with forks."""

from abc import ABC, abstractmethod
from collections.abc import Container, Sequence
from contextlib import AbstractAsyncContextManager

from msgspec.structs import replace

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.client_messages import Forked, Resumed
from callboard.actors.protocol.errors import MissingProgram
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin, Finished, Stopped
from callboard.actors.session.copied_files import CopyChoice
from callboard.actors.session.fork_plan import ForkPlan, plan
from callboard.actors.session.playback import Playback
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.recovery import Recovered
from callboard.actors.supervisor.state import SupervisorState
from callboard.runtime.agent import Agent, checked_name
from callboard.runtime.clock import new_session_id, now_ms
from callboard.runtime.files.copying import mark_of
from callboard.runtime.forks.fork_files import files_for_fork
from callboard.runtime.forks.starting import Forking, PastFork, hold_open, play_back
from callboard.runtime.log.protocol import EventLog, Head, event_of
from callboard.runtime.log.session_rows import first_title
from callboard.runtime.log.writer import GroupWriter
from callboard.runtime.ports.effect_questions import EffectQuestions
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.budgeting import Bound
from callboard.runtime.sessions.live_sessions import LiveSessions
from callboard.runtime.sessions.probing import Probed
from callboard.runtime.sessions.resuming import (
    RecordedSession,
    continuation,
    recorded_of,
    recover_session,
)
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.session_agents import SessionAgents
from callboard.runtime.sessions.session_deps import Given, SessionDeps, labels_of
from callboard.runtime.sessions.session_pages import pages_from
from callboard.runtime.sessions.session_types import SessionTypes
from callboard.runtime.telemetry.observer import Observer
from callboard.runtime.tools.sources import Scope


class ForkStarter(ABC):
    """Begins forks, and connects them in each process that runs them."""

    log: EventLog
    live: LiveSessions
    writer: GroupWriter
    secrets: Secrets
    observer: Observer

    @abstractmethod
    def _scope(self, session_id: str) -> AbstractAsyncContextManager[Scope]: ...

    @abstractmethod
    def _gate(self) -> PortGate: ...

    @abstractmethod
    async def _recorded_tools(
        self, session_id: str, agent: Agent, scope: Scope, given: object, *, takes_new: bool
    ) -> Probed: ...

    @abstractmethod
    async def _agents_of(self, host: Agent, limits: Limits | None, probed: Probed) -> SessionAgents: ...

    @abstractmethod
    def _objects(
        self, session_id: str, labels: tuple[Sequence[str], object], given: Given
    ) -> SessionDeps: ...

    @abstractmethod
    def _types_of(self, found: SessionAgents) -> SessionTypes: ...

    @abstractmethod
    async def _bound(self, name: str, shared: RecordedSession, unpriced: str) -> Bound: ...

    @abstractmethod
    def _session(
        self, name: str, found: SessionAgents, types: SessionTypes, deps: SessionDeps, scope: Scope
    ) -> Session: ...

    @abstractmethod
    def _connect(
        self, session: Session, epoch: int, found: SessionAgents, deps: SessionDeps, scope: Scope
    ) -> Board: ...

    @abstractmethod
    def _questions(self, session: Session, board: Board, found: SessionAgents) -> EffectQuestions: ...

    async def fork(self, session_id: str, agent: Agent, wish: Forking) -> Session:
        """Fork a session as `Runtime.fork` does."""
        name = checked_name("session_id", wish.session_id) or new_session_id()
        self.secrets.refuse_in("session_id", name)
        async with self._scope(name) as scope:
            return await self._fork_within(session_id, agent, wish, name, scope)

    async def _fork_within(
        self, session_id: str, agent: Agent, wish: Forking, name: str, scope: Scope
    ) -> Session:
        rows = [row async for page in pages_from(self.log, session_id, 1) for row in page]
        events = [event_of(session_id, row) for row in rows]
        planned = plan(session_id, events, wish.place_in(session_id, events), wish.changes, wish.until)
        shared = recorded_of(session_id, rows[: planned.base])
        probed = await self._recorded_tools(session_id, agent, scope, wish.deps, takes_new=True)
        found = await self._agents_of(agent, wish.limits, probed)
        refuse_missing_programs(session_id, shared.events, found.models)
        deps = self._objects(session_id, labels_of(shared.opened), wish.given)
        scope.deps = deps.now
        # The tools of an imported session were another program's: no call of it is known to be safe to skip.
        effects = wish.effects or ("ask" if shared.imported else "recorded")
        async with files_for_fork(deps, wish, session_id, events, planned.base, shared.files):
            bound = await self._bound(name, shared, found.unpriced)
            now = replace(deps.added_to(found.opened), scopes=bound.scopes)
            resumed = continuation(shared, now, has_limits=wish.limits is not None)
            assert isinstance(resumed, Resumed)  # a fork shares at least the first event
            digest = rows[planned.base - 1].digest.hex()
            about = (effects, planned.changes, planned.until, shared.host, bool(shared.running))
            has_copy = wish.files_to is not None
            mark = mark_of(name, deps.files) if has_copy and deps.files is not None else ""
            first = Forked(session_id, planned.base, digest, resumed, *about, has_copy, wish.skip_lost, mark)
            return await self._begin_fork(name, shared, planned, first, found, deps, scope, bound)

    async def _begin_fork(
        self,
        name: str,
        shared: RecordedSession,
        planned: ForkPlan,
        first: Forked,
        found: SessionAgents,
        deps: SessionDeps,
        scope: Scope,
        bound: Bound,
    ) -> Session:
        """Make a fork in the log, and let its recorded answers run."""
        playback = Playback(planned.recorded, first.effects, CopyChoice(first.has_copy, first.skips_lost))
        playback.note(shared.events)
        answered = frozenset(planned.recorded.open_at_base)
        recovered = recover_session(name, shared, first, self._gate(), answered, has_run=False)
        given = (row.title for row in await self.log.sessions() if row.session_id == first.origin)
        title = next(given, "") or first_title(shared.events)
        await self.live.hold(name, found.opened.host)
        # Its first events come with it: a fork without `Forked` would be resumed as if it were its origin.
        head = await self.log.fork(name, now_ms(), title, first.origin, planned.base, own=recovered.posted)
        self.writer.attach(name, 1, head)
        bound.know(recovered.posted)  # which no board stages
        session = self._session(name, found, self._types_of(found), deps, scope)
        self.observer.recall(name, shared.events)
        session._bound = bound
        board = self._connect(session, 1, found, deps, scope)
        self._play(session, board, found, shared, PastFork(playback, answered), recovered, stored=head)
        return session

    def _play(
        self,
        session: Session,
        board: Board,
        found: SessionAgents,
        recorded: RecordedSession,
        past: PastFork,
        recovered: Recovered,
        stored: Head | None = None,
    ) -> None:
        """Continue a recovered fork, with its recorded answers before its ports. stored: see `restore`."""
        questions = self._questions(session, board, found)
        playback = play_back(session, board, recorded.events[-1].at, past.playback, questions)
        session._remember(recorded, is_closing(recovered))
        board.restore(recovered, stored)
        hold_open(board, past.answered, playback, {start.request.seq for start in recovered.starts})
        playback.schedule()


def is_closing(recovered: Recovered) -> bool:
    """Return True if the client has begun to close a session."""
    supervisor = recovered.states[SUPERVISOR]
    return isinstance(supervisor, SupervisorState) and supervisor.is_closing


def refuse_missing_programs(session_id: str, shared: Sequence[Event], known: Container[str]) -> None:
    """Refuse to go on with programs that are not there. known: the names of the models that are.

    A program's steps have no recorded answers: it runs. Raises MissingProgram.
    """
    running: dict[str, str] = {}
    for event in shared:
        body = event.body
        if isinstance(body, Begin):
            running[event.recipient] = body.model.name if body.model.is_program else ""
        elif isinstance(body, Finished | Stopped):
            running.pop(event.sender, None)
    missing = sorted({name for name in running.values() if name and name not in known})
    if missing:
        names = ", ".join(name.removeprefix("program:") for name in missing)
        raise MissingProgram(
            f"session {session_id}: at the event to fork at, agents are at work in these programs: {names}; "
            "pass a host that has them, as `@program` functions of these names"
        )
