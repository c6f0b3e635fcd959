"""Starting sessions: a new one is opened, a recorded one is resumed, and both get the same parts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.addresses import APPROVALS, CAPACITY, CONTEXT, MODEL, SCHEMA, TOOLS
from callboard.actors.protocol.bundles import Bundle
from callboard.actors.protocol.client_messages import Resumed, SessionOpened
from callboard.actors.protocol.errors import SessionNotFound, StoreError
from callboard.actors.protocol.limits import Limits, narrow
from callboard.actors.protocol.profiles import Profile
from callboard.actors.session.port_gate import PortGate
from callboard.runtime.agent import Agent, checked_name, limits_of
from callboard.runtime.budgets import SharedCapacity
from callboard.runtime.clock import new_session_id, now_ms
from callboard.runtime.forks.fork_files import protect_origin
from callboard.runtime.forks.fork_starter import ForkStarter, is_closing
from callboard.runtime.forks.starting import PastFork, past_fork
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.log.writer import GroupWriter
from callboard.runtime.models.protocol import Model, import_for
from callboard.runtime.permissions import bundle_of, session_layers
from callboard.runtime.ports.approval_port import ApprovalPort
from callboard.runtime.ports.body_keeper import BodyKeeper, CountWatch
from callboard.runtime.ports.capacity_port import CapacityPort, PlacedModelPort
from callboard.runtime.ports.clock_port import ClockPort
from callboard.runtime.ports.context_port import ContextPort
from callboard.runtime.ports.effect_questions import EffectQuestions
from callboard.runtime.ports.model_port import ModelPort
from callboard.runtime.ports.paced_models import PacedModelPort
from callboard.runtime.ports.schema_port import SchemaPort
from callboard.runtime.ports.tool_port import ToolPort
from callboard.runtime.scheduling.rounds import Rounds
from callboard.runtime.schemas.checker import SchemaChecker
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.budgeting import Bound, Budgeting
from callboard.runtime.sessions.code_check import CodeCheck
from callboard.runtime.sessions.detaching import ProcessLife, closed, closed_before
from callboard.runtime.sessions.instances import profile_at
from callboard.runtime.sessions.labels import checked_tags, metadata_json, title_text
from callboard.runtime.sessions.listed_tools import ListedTools
from callboard.runtime.sessions.live_sessions import LiveSessions, NewSession
from callboard.runtime.sessions.probing import NOT_PROBED, Probed, needs_probe, probe
from callboard.runtime.sessions.resuming import (
    Continuing,
    RecordedSession,
    ResumeRules,
    TakenOver,
    continuation,
    downtime_ms,
    extension_ms,
    read_session,
    recover_session,
    refuse_unfit,
    take_over,
)
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.session_agents import KnownHosts, SessionAgents, agents_of_session
from callboard.runtime.sessions.session_deps import (
    Given,
    SessionDeps,
    deps_of,
    files_of,
    labels_of,
    memory_of,
)
from callboard.runtime.sessions.session_sleep import LiveParts, Rest
from callboard.runtime.sessions.session_tools import SessionTools
from callboard.runtime.sessions.session_types import SessionTypes
from callboard.runtime.sessions.settings import Settings
from callboard.runtime.sessions.streaming import StreamHub
from callboard.runtime.telemetry.observer import Observer
from callboard.runtime.tools.execution import ToolRunner
from callboard.runtime.tools.sources import LiveSources, Scope


@dataclass
class SessionStarter(ForkStarter):
    """Starts the sessions of an open runtime.

    models: those that were used, by identity. opening: the ids that a call is about to open or resume.
    is_closed: the runtime closes, and no session begins any more.
    """

    settings: Settings
    log: EventLog
    writer: GroupWriter
    live: LiveSessions
    life: ProcessLife
    secrets: Secrets
    checker: SchemaChecker
    tools: ToolRunner
    capacity: SharedCapacity
    budgets: Budgeting
    observer: Observer
    models: dict[int, Model] = field(default_factory=dict)
    opening: dict[str, asyncio.Event] = field(default_factory=dict)
    sources: LiveSources = field(default_factory=LiveSources)
    counts: CountWatch = field(default_factory=CountWatch)
    hosts: KnownHosts = field(default_factory=KnownHosts)
    is_closed: bool = False

    def __post_init__(self) -> None:
        idle_s = self.settings.idle_s
        self._rounds = None if idle_s is None else Rounds(asyncio.get_running_loop(), idle_s)

    async def open(self, agent: Agent, new: NewSession) -> Session:
        """Open a session as `Runtime.open` does."""
        name = checked_name("session_id", new.session_id) or new_session_id()
        self.secrets.refuse_in("session_id", name)
        if not new.resume:
            return await self._create(name, agent, new)
        async with self._turn(name):
            if live := self.live.find(name, self.life):
                live._stay()
                return live
            if new.session_id:
                with contextlib.suppress(SessionNotFound):
                    given = (new.files, new.memory, new.permissions)
                    how = Continuing(new.limits, 0.0, False, False, None, *given)
                    return await self._resume(name, agent, how)
            return await self._create(name, agent, new)

    @contextlib.asynccontextmanager
    async def _turn(self, name: str) -> AsyncIterator[None]:
        """Wait until no other call opens this session, so that all callers get the same one."""
        while other := self.opening.get(name):
            await other.wait()
        mine = self.opening[name] = asyncio.Event()
        try:
            yield
        finally:
            del self.opening[name]
            mine.set()

    async def _create(self, name: str, agent: Agent, new: NewSession) -> Session:
        async with self._scope(name) as scope:
            tags = checked_tags(new.tags, self.secrets)
            given = Given(files=new.files, memory=new.memory)
            deps = self._objects(name, (tags, new.metadata), given)
            scope.deps = deps.now
            probed = await probe(agent, self.sources, scope)
            found = await self._agents_of(agent, new.limits, probed, new.permissions)
            opened = deps.added_to(
                replace(
                    found.opened,
                    tags=tags,
                    metadata=metadata_json(new.metadata, self.secrets),
                    imported=new.imported,
                )
            )
            opened = self.budgets.bind(opened, tags, found.unpriced)
            await self.budgets.load(opened.scopes)
            await self.live.hold(name, agent.name)
            epoch = await self.log.create(name, now_ms(), title_text(new.title, self.secrets))
            session = self._session(name, found, self._types_of(found), deps, scope)
            session._bound = self.budgets.begin(name, epoch, opened.scopes)
            if not new.imported:  # its host only answers from the traffic
                self.hosts.note(name, agent)
            self._connect(session, epoch, found, deps, scope).submit_for_client(opened)
            return session

    @contextlib.asynccontextmanager
    async def _scope(self, session_id: str) -> AsyncIterator[Scope]:
        """Yield the scope of a session that begins here, released if it does not begin.

        Raises SessionDetached if the log was closed meanwhile, with the runtime.
        """
        scope = Scope(self.secrets.learn)
        try:
            with self.live.releasing(session_id):
                yield scope
        except BaseException as error:
            self.sources.release(scope)
            if self.is_closed and isinstance(error, StoreError):
                raise closed_before(session_id) from error
            raise

    async def resume(self, session_id: str, agent: Agent, how: Continuing) -> Session:
        """Resume a session as `Runtime.resume` does."""
        async with self._turn(session_id):
            return await self._resume(session_id, agent, how)

    async def _resume(self, session_id: str, agent: Agent, how: Continuing) -> Session:
        async with self._scope(session_id) as scope:
            return await self._resume_within(session_id, agent, how, scope)

    async def check(self, session_id: str, agent: Agent) -> None:
        """Refuse a session that `resume` would refuse. Nothing is posted, and no owner is fenced."""
        async with self._scope(session_id) as scope:
            found, rules, code = await self._prepared(session_id, agent, Continuing(), scope)
            rules = rules._replace(fits=partial(code.look, session_id))
            try:
                await refuse_unfit(self.log, session_id, found.opened, rules)
            finally:
                self.sources.release(scope)

    async def _prepared(
        self, session_id: str, agent: Agent, how: Continuing, scope: Scope
    ) -> tuple[SessionAgents, ResumeRules, CodeCheck]:
        """Return the agents of a session today, the rules for it, and the check of its code."""
        settings = self.settings
        policy = "accept" if how.accept_changes else settings.on_agents_changed
        probed = await self._recorded_tools(session_id, agent, scope, how.deps, takes_new=policy != "refuse")
        found = await self._agents_of(agent, how.limits, probed, how.permissions)
        has_deps = how.deps is not None or settings.deps is not None
        files = settings.files if how.files is None else how.files
        extend_ms = extension_ms(how.extend)
        code = CodeCheck(self.live, self.log, settings.check_timeout_s, found, self._gate(), extend_ms)
        fits = None if how.on_diverged != "wait" else partial(code.check, session_id)
        rules = ResumeRules(policy, self._types_of(found), found.models, how.reopens, has_deps, files, fits)
        rules = rules._replace(budgets=partial(self.budgets.check, session_id, found.unpriced, policy))
        return found, rules, code

    async def _resume_within(self, session_id: str, agent: Agent, how: Continuing, scope: Scope) -> Session:
        found, rules, code = await self._prepared(session_id, agent, how, scope)
        with self.live.claim(session_id, how.steal) as former:
            if former is not None and former._has_failed:
                await former.close()
            await self.live.hold(session_id, agent.name, steal=how.steal)
            taken = await take_over(self.log, session_id, found.opened, rules)
            # Up to its place among the live ones it is claimed: it could be deleted while it is read.
            recorded = taken.recorded
            deps = self._objects(session_id, labels_of(recorded.opened), how.given)
            scope.deps = deps.now
            past, waited_ms = await past_fork(self.log, recorded), await self.live.goes_on(session_id)
            if past is not None and not past.playback.files.has_copy:
                protect_origin(deps)
            if past is None and not self.settings.counts_downtime:
                waited_ms = downtime_ms(recorded)
            bound = await self.budgets.go_on(session_id, taken.epoch, recorded)
            first = continuation(
                recorded,
                replace(deps.added_to(found.opened), scopes=bound.scopes),
                has_limits=how.limits is not None,
                extend_ms=code.extend_ms,
                left_out_ms=waited_ms,
                policy=rules.policy,
            )
            session = self._session(session_id, found, rules.types, deps, scope)
            session._when_diverged, session._bound = how.on_diverged, bound
            self._go_on(session, taken, first, found, deps, scope, past)
            self.hosts.note(session_id, agent)
            return session

    async def _recorded_tools(
        self, session_id: str, agent: Agent, scope: Scope, given: object, *, takes_new: bool
    ) -> Probed:
        """Return the tools that the sources had when they were last recorded. given: the deps, or None."""
        if not needs_probe(agent):
            return NOT_PROBED
        recorded = await read_session(self.log, session_id)
        if takes_new:  # else no source is asked
            scope.deps = self._objects(session_id, labels_of(recorded.opened), Given(given)).now
        profiles = (msgspec.json.decode(raw, type=Profile) for raw in recorded.profiles)
        known = {profile.name: profile for profile in profiles}
        return await probe(agent, self.sources, scope, known, takes_new=takes_new)

    async def _wake(self, found: SessionAgents, deps: SessionDeps, scope: Scope, session: Session) -> None:
        """Bring a sleeping session back, as `resume` does in another process."""
        name, ends_at, host = session.session_id, session._slept.head.seq, found.opened.host
        rules = ResumeRules(
            "accept", session._types, found.models, has_deps=True, files=deps.files, ends_at=ends_at
        )
        with self.live.releasing(name), self.live.claim(name, steal=False):
            await self.live.hold(name, host)
            taken = await take_over(self.log, name, found.opened, rules)
            session._bound = await self.budgets.go_on(name, taken.epoch, taken.recorded)
            first = continuation(taken.recorded, replace(found.opened, scopes=session._bound.scopes))
            past = await past_fork(self.log, taken.recorded)
            self._go_on(session, taken, first, found, deps, scope, past)

    def _go_on(
        self,
        session: Session,
        taken: TakenOver,
        first: Resumed | SessionOpened,
        found: SessionAgents,
        deps: SessionDeps,
        scope: Scope,
        past: PastFork | None,
    ) -> None:
        """Connect a session that was taken over, and continue it. first: its first message here."""
        epoch, head, recorded = taken
        gate = self._gate()
        answered = None if past is None else past.answered
        recovered = recover_session(session.session_id, recorded, first, gate, answered)
        self.writer.attach(session.session_id, epoch, head)
        self.observer.recall(session.session_id, recorded.events)
        board = self._connect(session, epoch, found, deps, scope)
        if past is None:
            session._remember(recorded, is_closing(recovered))
            if recorded.running:
                board.ports[MODEL] = PacedModelPort(board, board.ports[MODEL])
            board.restore(recovered)
        else:
            self._play(session, board, found, recorded, past, recovered)

    async def aclose(self) -> list[BaseException]:
        """Close the models, the sources, the writer, the checker and the tools. Return the errors."""
        models, self.models = self.models, {}
        errors = await closed([*(model.aclose for model in models.values()), self.sources.aclose])
        for held in (self.writer, self.checker, self.tools):
            errors += await closed([held.aclose])
        return errors

    def _objects(self, session_id: str, labels: tuple[Sequence[str], object], given: Given) -> SessionDeps:
        """Return the objects for the tools of a session: those given, or else the runtime's."""
        whole = self.settings
        own = given.deps if given.deps is not None else deps_of(whole.deps, session_id, *labels)
        files = files_of(whole.files if given.files is None else given.files, session_id, *labels)
        memory = memory_of(whole.memory if given.memory is None else given.memory, session_id, *labels)
        return SessionDeps(own, files, whole.http, memory, tags=labels[0])

    async def _agents_of(
        self, host: Agent, limits: Limits | None, probed: Probed, permissions: Bundle | None = None
    ) -> SessionAgents:
        bounds = narrow(self.settings.limits, limits_of(limits))
        settings, limited = self.settings, self.capacity.limits
        layers = session_layers(settings.permissions, bundle_of(permissions))
        found = agents_of_session(host, settings.model, bounds, self.secrets, limited, probed, layers)
        await import_for(found.models.values())
        return found

    def _types_of(self, found: SessionAgents) -> SessionTypes:
        return SessionTypes(found.agents, found.opened.host, self.settings.types)

    def _session(
        self, name: str, found: SessionAgents, types: SessionTypes, deps: SessionDeps, scope: Scope
    ) -> Session:
        """Build a session without live parts. Raises SessionDetached if the runtime was closed meanwhile."""
        if self.is_closed:
            raise closed_before(name)
        session = Session(
            name,
            Rest(self._rounds, partial(self._wake, found, deps, scope)),
            self.life,
            self.log,
            self.secrets,
            types,
            self.checker.refuse_broken,
            found.unpriced,
        )
        session.tools = SessionTools(
            found.agents, lambda source, spec: self.sources.tool(source, spec, scope)
        )
        return session

    def _connect(
        self, session: Session, epoch: int, found: SessionAgents, deps: SessionDeps, scope: Scope
    ) -> Board:
        """Give a session its live parts, before its first event in this process. Return its board."""
        board = Board(session.session_id, epoch, self.writer, self.settings.is_strict)
        # By identity: sessions may share a model, and it is closed once.
        self.models.update((id(one), one) for one in found.models.values())
        board.secrets, board.deps = self.secrets, deps
        hub = StreamHub(board, self.log)
        approvals = ApprovalPort(board, self.log, found.agents, self.settings.approver, session._on_approval)
        session._connect(LiveParts(board, hub, approvals))
        self.observer.watch(board)
        waits = partial(self.live.wait_for_code, models=found.models)
        session._on_waits = partial(waits, session.session_id, found.given)
        keeper = BodyKeeper(self.log, session.session_id) if self.settings.keeps_requests else None
        models = ModelPort(board, found.models, hub, self.counts, keeper)
        places = board.ports[CAPACITY] = CapacityPort(board, self.capacity, deps.tags)
        board.ports[MODEL] = PlacedModelPort(board, models, places) if found.opened.capacity else models
        self.budgets.connect(board, session._bound)
        board.ports[TOOLS] = tools = ToolPort(board, session.tools, self.tools, hub.on_progress)
        board.writing = tools.writing
        board.ports[APPROVALS] = approvals
        board.ports[SCHEMA] = SchemaPort(board, self.checker, session._types)
        instances = session.tools.instances
        board.ports[CONTEXT] = ContextPort(board, found.agents, instances)
        if instances.has_factories:
            instances.profile_of = lambda address: profile_at(board.core.states, address)
            board.on_agent_end.append(instances.ended)
        board.clock = ClockPort(board)
        scope.tell = ListedTools(session, board, found).tell
        self.live.add(session, partial(self.sources.release, scope))
        return board

    async def _bound(self, name: str, shared: RecordedSession, unpriced: str) -> Bound:
        return await self.budgets.begin_fork(name, shared, unpriced)

    def _gate(self) -> PortGate:
        return PortGate(self.settings.is_strict)

    def _questions(self, session: Session, board: Board, found: SessionAgents) -> EffectQuestions:
        """Return the questions about the tools of a fork, shown where its approvals are."""
        show = session._on_approval
        made = EffectQuestions(board, self.log, found.agents, self.settings.approver, show)
        session._approval_port.also = made
        return made
