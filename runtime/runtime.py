"""The runtime: a log, and the sessions that run on it."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar, Unpack, overload

from msgspec.structs import replace

from callboard.actors.protocol.addresses import APPROVALS, CAPACITY, MODEL, SCHEMA, SUPERVISOR, TOOLS
from callboard.actors.protocol.errors import InsideLoop, MisuseError, SessionBusy
from callboard.actors.protocol.limits import Limits, narrow
from callboard.actors.session.capacity import Capacity
from callboard.actors.session.port_gate import PortGate
from callboard.actors.supervisor.state import SupervisorState
from callboard.runtime import event_loop
from callboard.runtime.agent import Agent, checked_name, limits_of, prompt_json
from callboard.runtime.approvals import Approver
from callboard.runtime.capacity import CapacityReport, SharedCapacity
from callboard.runtime.clock import new_session_id, now_ms
from callboard.runtime.log.opening import open_log
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.log.writer import GroupWriter
from callboard.runtime.models.protocol import Model, model_named
from callboard.runtime.operations import Operations
from callboard.runtime.ports.approval_port import ApprovalPort
from callboard.runtime.ports.capacity_port import CapacityPort, PlacedModelPort
from callboard.runtime.ports.clock_port import ClockPort
from callboard.runtime.ports.model_port import ModelPort
from callboard.runtime.ports.schema_port import SchemaPort
from callboard.runtime.ports.tool_port import ToolPort
from callboard.runtime.sanitize import clean_text
from callboard.runtime.schemas.checker import SchemaChecker
from callboard.runtime.schemas.output_types import output_type
from callboard.runtime.secrets.refs import SecretPattern, SecretRef
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.sessions.agents_policy import AgentsPolicy, checked_policy
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.call_options import Prompt, RunOptions
from callboard.runtime.sessions.labels import checked_tags, metadata_json
from callboard.runtime.sessions.outcome import Outcome
from callboard.runtime.sessions.resuming import continuation, extension_ms, recover_session, take_over
from callboard.runtime.sessions.session import Session, with_head
from callboard.runtime.sessions.session_agents import SessionAgents, agents_of_session, refuse_unasked
from callboard.runtime.sessions.session_types import SessionTypes, schema_of_ask
from callboard.runtime.tools.execution import ToolRunner

T = TypeVar("T")

_TITLE_CHARS_MAX: Final = 200


class Runtime(Operations):
    """The runtime of agents: it runs and records them.

    log: an address for `open_log` (a path, `":memory:"`), or any `EventLog`.
    model: of agents that name none, a `Model` or its name ("anthropic:claude-sonnet-5"). A child inherits it
        from its parent.
    limits: of every session.
    durability: `"full"` survives a loss of power, `"process"` only the death of the process (SQLite's
        synchronous=NORMAL).
    strict_spending: True lets model calls wait until their request is on disk, so that after a crash the log
        has every call that may have cost something. Else the last ones, at most `max_parallel_calls`, may
        be missing.
    approve: called with an `Approval` before tools that need one. Without it they wait for
        `Session.approvals()`.
    secrets: never written anywhere. Tools may ask for them by name.
    redact_keys: True treats text in the form of a well-known API key as a secret too (docs/security.md).
    types: the output types of asks that may be resumed; those that agents name need no entry.
    on_agents_changed: for a session that resumes with agents whose definition has changed: `"refuse"` raises
        AgentsChanged; `"next_ask"` lets the running ask go on with the recorded agents, and takes the new
        ones from the next ask on; `"accept"` takes the new ones for agents that begin from now on.
    capacity: limits of models over all sessions of this runtime, by model name: calls in flight, and tokens a
        minute. The sessions take turns (docs/capacity.md).

    Use it as an async context manager; many sessions may run in it at once. Raises StoreError when the log
    cannot be opened.

        async with Runtime("callboard.db", model=AnthropicModel("...")) as runtime:
            outcome = await runtime.run(host, "Which files are here?")
    """

    def __init__(
        self,
        log: "str | Path | EventLog" = "callboard.db",
        *,
        model: Model | str | None = None,
        limits: Limits | None = None,
        durability: Literal["full", "process"] = "full",
        strict_spending: bool = False,
        approve: Approver | None = None,
        secrets: Sequence[str | SecretRef | SecretPattern] = (),
        redact_keys: bool = True,
        types: Sequence[object] = (),
        on_agents_changed: AgentsPolicy = "refuse",
        capacity: Mapping[str, Capacity] | None = None,
    ) -> None:
        super().__init__(open_log(log, durability) if isinstance(log, str | Path) else log)
        self._secrets = Secrets(secrets, finds_keys=redact_keys)
        self._model = model_named(model) if isinstance(model, str) else model
        self._limits = limits_of(limits)
        self._types = tuple(map(output_type, types))
        self._is_strict = strict_spending
        self._approver = approve
        self._on_agents_changed = checked_policy(on_agents_changed)
        self._is_closing = False
        self._process = os.getpid()
        self._writer: GroupWriter | None = None
        self._models: dict[int, Model] = {}
        self._tools = ToolRunner()
        self._checker = SchemaChecker()
        self._capacity = SharedCapacity(capacity)

    @property
    def log(self) -> EventLog:
        """Return the log of the sessions."""
        return self._log

    def capacity(self) -> CapacityReport:
        """Return the limited models with their calls in flight and tokens left, and the calls that wait."""
        return self._capacity.report()

    async def __aenter__(self) -> Self:
        checker = SchemaChecker()
        # The import of the schema library holds the interpreter's lock for 6 ms: better here, beside a wait
        # for the disk, than in the middle of the first session.
        loaded = checker.load()
        await self._log.open()
        await loaded
        self._process = os.getpid()
        self._writer = GroupWriter(self._log)
        await self._control.open(self._log)
        self._tools, self._checker = ToolRunner(), checker  # `aclose` ended those before, if any
        self._is_closing = False
        self._catalog.remover.start()  # with the rest of what an earlier process had deleted
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every session, its running ask first, then the models that were used, then the log.

        A failure on the way does not keep the rest open; the first error is raised at the end. Raises
        MisuseError, and closes nothing, on another event loop than that of its sessions.
        """
        if self._process != os.getpid():
            return  # a forked child: sessions, models and log belong to its parent's loop
        for session in self._sessions.values():
            session.check_loop()
        self._is_closing = True
        models, self._models = self._models, {}
        writer, self._writer = self._writer, None
        errors = await _closed([self._control.aclose])
        errors += await _closed(session.close for session in tuple(self._sessions.values()))
        errors += await _closed(model.aclose for model in models.values())
        for held in (self._catalog.remover, writer, self._checker, self._tools):
            errors += await _closed([held.aclose] if held else [])
        self._capacity.close()
        await self._log.close()
        if errors:
            raise errors[0]

    # --- running ------------------------------------------------------------------

    @overload
    async def run(
        self, agent: Agent, prompt: Prompt, *, output_schema: type[T], **options: Unpack[RunOptions]
    ) -> Outcome[T]: ...

    @overload
    async def run(
        self,
        agent: Agent,
        prompt: Prompt,
        *,
        output_schema: Mapping[str, object] | None = None,
        **options: Unpack[RunOptions],
    ) -> Outcome: ...

    @overload
    async def run(
        self, agent: Agent, prompt: Prompt, *, output_schema: object, **options: Unpack[RunOptions]
    ) -> Outcome[Any]: ...

    async def run(
        self,
        agent: Agent,
        prompt: Prompt,
        *,
        output_schema: object = None,
        limits: Limits | None = None,
        session_id: str = "",
        request_id: str = "",
        tags: Sequence[str] = (),
        metadata: Mapping[str, object] | None = None,
    ) -> Outcome[Any]:
        """Run one prompt to one outcome, in a session of its own. `open` and `ask` have these parameters."""
        # Checked before `open`: a bad argument must not leave an empty session in the log.
        prompt_json(prompt)
        await self._checker.refuse_broken(schema_of_ask(agent, output_schema))
        if self._approver is None:
            refuse_unasked(agent)
        session = await self.open(
            agent, session_id=session_id, limits=limits, title=prompt, tags=tags, metadata=metadata
        )
        try:
            outcome = await session.ask(prompt, output_schema=output_schema, request_id=request_id)
        finally:
            head = await session.close()
        return with_head(outcome, head)

    @overload
    def run_sync(
        self, agent: Agent, prompt: Prompt, *, output_schema: type[T], **options: Unpack[RunOptions]
    ) -> Outcome[T]: ...

    @overload
    def run_sync(
        self,
        agent: Agent,
        prompt: Prompt,
        *,
        output_schema: Mapping[str, object] | None = None,
        **options: Unpack[RunOptions],
    ) -> Outcome: ...

    @overload
    def run_sync(
        self, agent: Agent, prompt: Prompt, *, output_schema: object, **options: Unpack[RunOptions]
    ) -> Outcome[Any]: ...

    def run_sync(
        self,
        agent: Agent,
        prompt: Prompt,
        *,
        output_schema: object = None,
        limits: Limits | None = None,
        session_id: str = "",
        request_id: str = "",
        tags: Sequence[str] = (),
        metadata: Mapping[str, object] | None = None,
    ) -> Outcome[Any]:
        """Open the log, run one prompt, close the log: `run` for programs without an event loop.

        Raises InsideLoop where a loop runs already; use `await runtime.run(...)` there.
        """
        _refuse_inside_loop()

        async def once() -> Outcome[Any]:
            async with self:
                return await self.run(
                    agent,
                    prompt,
                    output_schema=output_schema,
                    limits=limits,
                    session_id=session_id,
                    request_id=request_id,
                    tags=tags,
                    metadata=metadata,
                )

        return event_loop.run(once())

    async def open(
        self,
        agent: Agent,
        *,
        session_id: str = "",
        limits: Limits | None = None,
        title: "str | Sequence[Mapping[str, object]]" = "",
        tags: Sequence[str] = (),
        metadata: Mapping[str, object] | None = None,
    ) -> Session:
        """Open a new session with this agent as its host. limits: narrower ones than the runtime's hold.

        tags: up to 32 words by which `sessions` finds it. metadata: a small JSON object that it shows. Both
        are logged, and neither is shown to a model.

        Raises InvalidAgent, SessionExists, and MisuseError where no model is given.
        """
        self._usable()
        found = self._agents_of(agent, limits)
        name = checked_name("session_id", session_id) or new_session_id()
        self._secrets.refuse_in("session_id", name)
        opened = replace(
            found.opened,
            tags=checked_tags(tags, self._secrets),
            metadata=metadata_json(metadata, self._secrets),
        )
        epoch = await self._log.create(name, now_ms(), self._title(title))
        session, board = self._put_together(name, epoch, found, self._types_of(found))
        board.submit_for_client(opened)
        return session

    async def resume(
        self,
        session_id: str,
        agent: Agent,
        *,
        limits: Limits | None = None,
        extend: float = 0.0,
        accept_changes: bool = False,
    ) -> Session:
        """Resume a session that another process left; `await session.outcome` for its unfinished ask.

        Nothing durable is done again. Model calls without an answer are charged in full and made again;
        `read` and `idempotent` tools run again; `write` tools that had started do not, their calls are
        `interrupted`. docs/resume.md has the whole table.

        agent: the host, as it was recorded. limits: of the session from now on. extend: seconds added to each
        deadline, since time counts also while no process runs the session. accept_changes: True goes on with
        agents that have changed, and records that, whatever `Runtime(on_agents_changed=...)` says.

        Raises AgentsChanged for agents that differ from the recorded ones, MissingType for an unfinished ask
        whose output type is not given (`Runtime(types=)`), SessionEnded for a closed session,
        SessionBusy for one that runs here, SessionNotFound, CorruptLog, Diverged if the code does not do what
        the log says, and SessionFailed if the supervisor's decider raises.
        """
        writer = self._usable()
        found = self._agents_of(agent, limits)
        types = self._types_of(found)
        more_ms = extension_ms(extend)
        policy = "accept" if accept_changes else self._on_agents_changed
        if session_id in self._sessions or session_id in self._resuming:
            raise SessionBusy(
                f"session {session_id} runs here; use the Session that `open` or `resume` returned"
            )
        self._resuming.add(session_id)  # before the first await: a second resume would fence this one
        try:
            epoch, head, recorded = await take_over(
                self._log, session_id, found.opened, policy, types, found.models
            )
        finally:
            self._resuming.discard(session_id)
        first = continuation(recorded, found.opened, limits is not None, more_ms, policy)
        recovered = recover_session(session_id, recorded, first, PortGate(self._is_strict))
        writer.attach(session_id, epoch, head)
        session, board = self._put_together(session_id, epoch, found, types)
        supervisor = recovered.states[SUPERVISOR]
        session.remember(recorded, isinstance(supervisor, SupervisorState) and supervisor.is_closing)
        board.restore(recovered)
        return session

    def _agents_of(self, host: Agent, limits: Limits | None) -> SessionAgents:
        bounds = narrow(self._limits, limits_of(limits))
        return agents_of_session(host, self._model, bounds, self._secrets, self._capacity.limits)

    def _types_of(self, found: SessionAgents) -> SessionTypes:
        return SessionTypes(found.agents, found.opened.host, self._types)

    def _put_together(
        self, name: str, epoch: int, found: SessionAgents, types: SessionTypes
    ) -> tuple[Session, Board]:
        """Build a session with its board and ports, before its first event in this process."""
        board = Board(name, epoch, self._usable(), self._is_strict)
        # By identity: sessions may share a model, and `aclose` closes it once.
        self._models.update((id(one), one) for one in found.models.values())
        board.secrets = self._secrets
        session = Session(board, self._log, types, self._checker.refuse_broken, found.unpriced)
        models = ModelPort(board, found.models, session.hub)
        places = board.ports[CAPACITY] = CapacityPort(board, self._capacity)
        board.ports[MODEL] = PlacedModelPort(board, models, places) if found.opened.capacity else models
        board.ports[TOOLS] = ToolPort(board, found.agents, self._tools, session.hub.on_progress)
        board.ports[APPROVALS] = session.approval_port = ApprovalPort(
            board, self._log, found.agents, self._approver, session.on_approval
        )
        board.ports[SCHEMA] = SchemaPort(board, self._checker, types)
        board.clock = ClockPort(board)
        self._sessions[name] = session
        session.on_release = lambda: self._sessions.pop(name, None)
        return session, board

    def _usable(self) -> GroupWriter:
        if self._writer is None or self._is_closing:
            raise MisuseError("the runtime is not open; use `async with Runtime(...) as runtime:`")
        return self._writer

    def _title(self, prompt: object) -> str:
        kept = self._secrets.redactor.kept
        return kept(clean_text(prompt), _TITLE_CHARS_MAX) if isinstance(prompt, str) else ""


async def _closed(closers: Iterable[Callable[[], Awaitable[object]]]) -> list[BaseException]:
    """Close what can be closed together. Return the errors."""
    found = await asyncio.gather(*(close() for close in closers), return_exceptions=True)
    return [error for error in found if isinstance(error, BaseException)]


def _refuse_inside_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise InsideLoop("run_sync would block the running event loop; use `await runtime.run(...)` here")
