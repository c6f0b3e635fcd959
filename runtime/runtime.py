"""The runtime: a log, and the sessions that run on it."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, Self, TypeVar

from callboard.actors.protocol.bundles import Bundle
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.limits import Limits
from callboard.actors.session.budget_limits import Budget
from callboard.actors.session.capacity import Capacity
from callboard.runtime.agent import Agent, limits_of
from callboard.runtime.approvals import Approver
from callboard.runtime.budgets import SharedCapacity
from callboard.runtime.cluster.client import Client
from callboard.runtime.cluster.holding import Holding
from callboard.runtime.contracts import Prompt
from callboard.runtime.http.settings import Http, checked_http
from callboard.runtime.log.opening import log_of
from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.log.writer import GroupWriter
from callboard.runtime.models.fallback import ModelChoice, model_or_name, models_of
from callboard.runtime.models.protocol import import_for
from callboard.runtime.operations import Operations
from callboard.runtime.permissions import bundle_of
from callboard.runtime.programs.session_check import CHECK_TIMEOUT_S
from callboard.runtime.running import Running
from callboard.runtime.schemas.checker import SchemaChecker
from callboard.runtime.schemas.output_types import output_type
from callboard.runtime.secrets.registry import GivenSecrets, Secrets
from callboard.runtime.server_budgets import budgets_of
from callboard.runtime.sessions.agents_policy import AgentsPolicy, checked_policy
from callboard.runtime.sessions.budgeting import Budgeting
from callboard.runtime.sessions.detaching import (
    DETACH_GRACE_S,
    Grace,
    OnDiverged,
    ProcessLife,
    check_seconds,
    closed,
    idle_seconds,
    refuse_on_diverged,
    seconds,
)
from callboard.runtime.sessions.live_sessions import NewSession, Opening
from callboard.runtime.sessions.resuming import Continuing
from callboard.runtime.sessions.session_deps import FilesChoice, MemoryChoice, checked_files, checked_memory
from callboard.runtime.sessions.settings import Settings
from callboard.runtime.sessions.starting import SessionStarter
from callboard.runtime.telemetry.observer import Observer, gauges_of
from callboard.runtime.telemetry.open_telemetry import OpenTelemetry
from callboard.runtime.tools.execution import ToolRunner

Deps = TypeVar("Deps")
Out = TypeVar("Out")


class Runtime(Operations, Running):
    """The runtime of agents: it runs and records them.

    log: an address for `open_log` (a path, `":memory:"`), or any `EventLog`.
    model: of agents that name none: a `Model`, its name, or a `Fallback`. A child inherits its parent's.
    limits: of every session.
    durability: `"full"` survives a loss of power, `"process"` only the death of the process.
    strict_spending: True lets model calls wait until their request is on disk, so that after a crash the log
        has every call that may have cost something. Else the last `max_parallel_calls` may be missing.
    approve: called with an `Approval` before tools that need one; else they wait for `Session.approvals()`.
    secrets: never written anywhere. Tools may ask for them by name (docs/security.md).
    http: the network that tools reach through `ctx.http`: `Http(private=[...])` (docs/http.md).
    redact_keys: True treats text in the form of a well-known API key as a secret too (docs/security.md).
    types: the output types of asks that may be resumed; those that agents name need no entry.
    on_agents_changed: for a session that resumes with agents whose definition has changed: `"refuse"` raises
        AgentsChanged; `"next_ask"` lets the running ask go on with the recorded agents, and takes the new
        ones from the next ask on; `"accept"` takes the new ones for agents that begin from now on.
    capacity: limits of models over all sessions, by model name: calls, tokens a minute (docs/capacity.md).
    budgets: the most that sessions spend together, by a pattern of tags (docs/budgets.md).
    cancel_delay_s: seconds after which the ask of a cancelled caller is cancelled, and a session closed that
        an exception has left, unless the runtime is ending by then.
    deadline_counts_downtime: False lets the time without a process not count: a resume extends every running
        deadline by the time since the last event, and the timeouts of programs leave it out.
    deps: an object for the tools, never logged; or a function of a session's id, tags and metadata.
    files: the folder that tools reach through `ctx.files`: `Files(folder, write=["notes"])`, a path that may
        only be read, or a function like that of `deps` (docs/files.md).
    idle_s: seconds after which an unused session leaves memory (docs/operate.md). None for never.
    keep_requests: True keeps the body of every answered model request in the log, as it was sent and without
        secrets, for `callboard request SEQ --as-sent`. The log grows by about two conversations.
    permissions: a bundle that bounds every agent of every session (docs/permissions.md).
    check_timeout_s: seconds in which the programs of a session must repeat their steps before it is resumed.
    memory: `ctx.memory`: a path, a `Memory`, or a function like that of `deps` (docs/memory.md).
    telemetry: gives spans and metrics to the OpenTelemetry SDK: `OpenTelemetry(processor)` (docs/watch.md).
    metrics: True counts for `Runtime.metrics`. log_content: True adds the words of errors to log records.

    Use it as an async context manager, for many sessions at once. Leaving it, in any way, detaches its
    sessions: nothing is lost, and `resume` goes on with them. Raises StoreError for a log that cannot open.

        async with Runtime("callboard.db", model=AnthropicModel("...")) as runtime:
            outcome = await runtime.run(host, "Which files are here?")
    """

    _starter: SessionStarter | None = None
    _holding: Holding | None = None
    _process = 0  # the id of the one that opened the runtime; 0 before that

    def __init__(
        self,
        log: "str | Path | EventLog" = "callboard.db",
        *,
        model: ModelChoice | str | None = None,
        limits: Limits | None = None,
        durability: Literal["full", "process"] = "full",
        strict_spending: bool = False,
        approve: Approver | None = None,
        secrets: GivenSecrets = (),
        redact_keys: bool = True,
        types: Sequence[object] = (),
        on_agents_changed: AgentsPolicy = "refuse",
        capacity: Mapping[str, Capacity] | None = None,
        budgets: Mapping[str, Budget] | None = None,
        cancel_delay_s: float = 1.0,
        deadline_counts_downtime: bool = True,
        deps: object = None,
        files: FilesChoice = None,
        idle_s: float | None = None,
        keep_requests: bool = False,
        permissions: Bundle | None = None,
        http: Http | None = None,
        memory: MemoryChoice = None,
        check_timeout_s: float = CHECK_TIMEOUT_S,
        telemetry: OpenTelemetry | None = None,
        metrics: bool = False,
        log_content: bool = False,
    ) -> None:
        super().__init__(log_of(log, durability))
        self._settings = Settings(
            model_or_name(model),
            limits_of(limits),
            strict_spending,
            approve,
            tuple(map(output_type, types)),
            checked_policy(on_agents_changed),
            deadline_counts_downtime,
            deps,
            checked_files(files),
            idle_seconds(idle_s),
            keep_requests,
            bundle_of(permissions),
            checked_http(http),
            checked_memory(memory),
            check_seconds(check_timeout_s),
        )
        self._life, self._secrets = ProcessLife(cancel_delay_s), Secrets(secrets, finds_keys=redact_keys)
        self._capacity, self._budgets = SharedCapacity(capacity), budgets_of(budgets, self._log)
        self._observer = Observer(telemetry, is_counting=metrics, has_content=log_content)

    @staticmethod
    def connect(url: str, key: bytes | None = None, *, encryption_key: bytes | None = None) -> Client:
        """Return a client of the sessions on a server, which runs none itself: use it with `async with`.

        Parameters: see `open_log`. Raises MisuseError for a log that is not on a server.
        """
        return Client.at(url, key, encryption_key=encryption_key)

    async def __aenter__(self) -> Self:
        checker = SchemaChecker()
        # Imports hold the interpreter's lock, that of the schema library for 6 ms: better here, beside a wait
        # for the disk, than in the middle of the first session.
        loaded = checker.load()
        await asyncio.gather(self._log.open(), import_for(models_of(self._settings.model)))
        await loaded
        self._process = os.getpid()
        await self._control.open(self._log)
        self._starter = SessionStarter(
            self._settings,
            self._log,
            GroupWriter(self._log, self._observer.on_commit),
            self._live,
            self._life,
            self._secrets,
            checker,
            ToolRunner(),
            self._capacity,
            Budgeting(self._budgets),
            self._observer,
        )
        if isinstance(self._log, PostgresLog):
            self._holding = self._live.leases = Holding(self, self._log)
        self._observer.start(lambda: gauges_of(self.stats()))
        self._life.is_ending = False
        self._catalog.remover.start()  # with the rest of what an earlier process had deleted
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self, *, grace_s: float = DETACH_GRACE_S, cancel: bool = False) -> None:
        """Detach every session, and then close the models that were used and the log.

        grace_s: seconds for the answers under way (`Session.detach`). cancel: True closes the sessions
        instead, their running asks first; a closed session needs `reopen`. Sleeping ones sleep on.

        A failure on the way does not keep the rest open; the first error is raised at the end. Raises
        MisuseError, and closes nothing, on another event loop than that of its sessions.
        """
        if self._process not in (0, os.getpid()):
            return  # a forked child: sessions, models and log belong to its parent's loop
        sessions = self._live.of(self._life)
        for session in sessions:
            session._check_loop()
        self._life.is_ending = True
        starter, self._starter = self._starter, None
        if starter is not None:
            starter.is_closed = True  # a session that is being opened would not be detached any more
        grace = Grace(seconds("grace_s", grace_s))
        leaves = [
            session.close if cancel and not session._is_asleep else partial(session._detach_within, grace)
            for session in sessions
        ]
        work = asyncio.get_running_loop().create_task(self._close(leaves, starter))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            grace.end()
            await asyncio.wait([work])
            raise

    async def _close(
        self, leaves: Sequence[Callable[[], Awaitable[object]]], starter: SessionStarter | None
    ) -> None:
        """Close the runtime, in a task of its own: a caller that is cancelled ends the grace only."""
        errors = await closed([self._control.aclose])
        errors += await closed(leaves)
        errors += await closed([self._catalog.remover.aclose])
        errors += await starter.aclose() if starter else []
        errors += await closed([self._observer.aclose])
        if self._holding is not None:
            errors += await closed([self._holding.aclose])
            self._holding = self._live.leases = None
        self._capacity.close()
        self._budgets.close()
        await self._log.close()
        if errors:
            raise errors[0]

    def open(
        self,
        agent: Agent[Deps, Out],
        *,
        session_id: str | None = None,
        limits: Limits | None = None,
        title: Prompt | None = None,
        tags: Sequence[str] = (),
        metadata: Mapping[str, object] | None = None,
        files: FilesChoice = None,
        memory: MemoryChoice = None,
        resume: bool = False,
        permissions: Bundle | None = None,
    ) -> Opening[Deps, Out]:
        """Open a session with this agent as its host: `await` it, or `async with` it.

        limits: narrower ones than the runtime's hold. resume: True also goes on with a session of this id
        that is not closed, or returns the one that runs in this runtime.
        tags: up to 32 words by which `sessions` finds it. metadata: a small JSON object that it shows. Both
        are logged, and neither is shown to a model. files, memory: for its tools; None for the
        runtime's. permissions: a bundle that bounds every agent of the session, beside that of the runtime.

        Raises InvalidAgent, SessionExists, and MisuseError where no model is given; with `resume` also what
        `Runtime.resume` raises.
        """
        new = NewSession(session_id or "", limits, title, resume, tags, metadata, files, memory, permissions)
        return Opening(lambda: self._started().open(agent, new))

    def resume(
        self,
        session_id: str,
        agent: Agent[Deps, Out],
        *,
        limits: Limits | None = None,
        extend: float = 0.0,
        accept_changes: bool = False,
        steal: bool = False,
        deps: Deps | None = None,
        files: FilesChoice = None,
        memory: MemoryChoice = None,
        permissions: Bundle | None = None,
        on_diverged: OnDiverged = "wait",
    ) -> Opening[Deps, Out]:
        """Resume a session that another process left: `await` it, or `async with` it.

        `await session.outcome` is its unfinished ask, if there is one; an idle conversation goes on with the
        next `ask`. Nothing durable is done again. Model calls that were cut off are made again, those of a
        crash charged in full; `read` and `idempotent` tools run again; `write` tools that had started do not,
        their calls are `interrupted`. docs/resume.md has the whole table.

        agent: the host, as it was recorded. limits: of the session from now on. extend: seconds added to each
        deadline, since time counts also while no process runs the session. accept_changes: True goes on with
        agents that have changed, and records that, whichever `Runtime(on_agents_changed=...)` applies. steal:
        True takes a session over that runs in this process or in a worker. deps, files, memory: for its
        tools; None for the runtime's. permissions: one more bundle, beside those recorded, for agents that
        begin from now on.

        Raises AgentsChanged for agents that differ from the recorded ones, MissingType and MissingDeps for an
        unfinished ask whose output type or deps are not given, MissingFiles without files of the recorded
        name, SessionEnded for a closed session, SessionBusy for one that runs here, SessionNotFound,
        CorruptLog, Diverged if the code does not do what the log says, and SessionFailed if the supervisor's
        decider raises. on_diverged: `"crash"` ends an ask whose programs do otherwise than recorded;
        with `"hold"` nothing starts before the ask has ended, so that it can be cancelled without its code.
        """
        refuse_on_diverged(on_diverged)
        given = (deps, files, memory, permissions)
        how = Continuing(limits, extend, accept_changes, steal, *given, on_diverged=on_diverged)
        return Opening(lambda: self._started().resume(session_id, agent, how))

    def reopen(
        self,
        session_id: str,
        agent: Agent[Deps, Out],
        *,
        limits: Limits | None = None,
        accept_changes: bool = False,
        deps: Deps | None = None,
        files: FilesChoice = None,
        memory: MemoryChoice = None,
    ) -> Opening[Deps, Out]:
        """Continue the conversation of a closed session: `await` it, or `async with` it.

        A session that is not closed is resumed. Parameters and errors are those of `resume`.
        """
        how = Continuing(limits, 0.0, accept_changes, False, deps, files, memory, reopens=True)
        return Opening(lambda: self._started().resume(session_id, agent, how))

    def _started(self) -> SessionStarter:
        if self._starter is None:
            raise MisuseError("the runtime is not open; use `async with Runtime(...) as runtime:`")
        return self._starter
