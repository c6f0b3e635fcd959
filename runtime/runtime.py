"""The runtime: a log, and the sessions that run on it."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal, Self

from callboard.actors.protocol.addresses import APPROVALS, MODEL, SCHEMA, SUPERVISOR, TOOLS
from callboard.actors.protocol.errors import InsideLoop, MisuseError, SessionNotFound
from callboard.actors.protocol.limits import Limits, narrow
from callboard.actors.session.port_gate import PortGate
from callboard.actors.supervisor.state import SupervisorState
from callboard.runtime import event_loop
from callboard.runtime.agent import Agent, checked_name, limits_of, prompt_json, schema_json
from callboard.runtime.approvals import Approver
from callboard.runtime.clock import new_session_id, now_ms
from callboard.runtime.log.opening import open_log
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.log.writer import GroupWriter
from callboard.runtime.models.protocol import Model, model_named
from callboard.runtime.ports.approval_port import ApprovalPort
from callboard.runtime.ports.clock_port import ClockPort
from callboard.runtime.ports.model_port import ModelPort
from callboard.runtime.ports.schema_port import SchemaPort
from callboard.runtime.ports.tool_port import ToolPort
from callboard.runtime.sanitize import clean_text
from callboard.runtime.schemas.checker import SchemaChecker
from callboard.runtime.secrets.refs import SecretPattern, SecretRef
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.detaching import DETACH_GRACE_S, Grace, ProcessLife, seconds
from callboard.runtime.sessions.live_sessions import live_sessions_of
from callboard.runtime.sessions.opening import Opening
from callboard.runtime.sessions.outcome import Outcome, with_head
from callboard.runtime.sessions.resuming import (
    Continuing,
    continuation,
    downtime_ms,
    extension_ms,
    recover_session,
    take_over,
)
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.session_agents import SessionAgents, agents_of_session, refuse_unasked
from callboard.runtime.tools.execution import ToolRunner

_TITLE_CHARS_MAX: Final = 200


class Runtime:
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
    cancel_delay_s: seconds after which the ask of a cancelled caller is cancelled, and a session closed that
        an exception has left, unless the runtime is ending by then.
    deadline_counts_downtime: False lets the time without a process not count: a resume extends every running
        deadline by the time since the last event.

    Use it as an async context manager; many sessions may run in it at once. Leaving it, in any way, detaches
    its sessions: nothing is lost, and `resume` goes on with them. Raises StoreError when the log cannot be
    opened.

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
        cancel_delay_s: float = 1.0,
        deadline_counts_downtime: bool = True,
    ) -> None:
        self._secrets = Secrets(secrets, finds_keys=redact_keys)
        self._log = open_log(log, durability) if isinstance(log, str | Path) else log
        self._model = model_named(model) if isinstance(model, str) else model
        self._limits = limits_of(limits)
        self._is_strict = strict_spending
        self._approver = approve
        self._is_closing = False
        self._process = os.getpid()
        self._writer: GroupWriter | None = None
        self._life = ProcessLife(cancel_delay_s)
        self._counts_downtime = deadline_counts_downtime
        self._live = live_sessions_of(self._log)
        self._models: dict[int, Model] = {}
        self._tools = ToolRunner()
        self._checker = SchemaChecker()

    @property
    def log(self) -> EventLog:
        """Return the log of the sessions."""
        return self._log

    async def __aenter__(self) -> Self:
        checker = SchemaChecker()
        # The import of the schema library holds the interpreter's lock for 6 ms: better here, beside a wait
        # for the disk, than in the middle of the first session.
        loaded = checker.load()
        await self._log.open()
        await loaded
        self._process = os.getpid()
        self._writer = GroupWriter(self._log)
        self._tools, self._checker = ToolRunner(), checker  # `aclose` ended those before, if any
        self._is_closing = self._life.is_ending = False
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def stopping(self) -> None:
        """Mark the runtime as ending: from now on a cancelled caller does not cancel its ask.

        For the shutdown hook of a server that cancels its requests before it closes the runtime.
        """
        self._life.is_ending = True

    async def aclose(self, *, grace_s: float = DETACH_GRACE_S, cancel: bool = False) -> None:
        """Detach every session, then close the models that were used, then the log.

        grace_s: seconds for the answers under way (`Session.detach`). cancel: True closes the sessions
        instead, their running asks first; a closed session needs `reopen`.

        A failure on the way does not keep the rest open; the first error is raised at the end. Raises
        MisuseError, and closes nothing, on another event loop than that of its sessions.
        """
        if self._process != os.getpid():
            return  # a forked child: sessions, models and log belong to its parent's loop
        sessions = self._live.of(self._life)
        for session in sessions:
            session.check_loop()
        self._is_closing = self._life.is_ending = True
        grace = Grace(seconds("grace_s", grace_s))
        leaves = [session.close if cancel else partial(session.detach_within, grace) for session in sessions]
        work = asyncio.get_running_loop().create_task(self._close(leaves))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            grace.end()
            await asyncio.wait([work])
            raise

    async def _close(self, leaves: Sequence[Callable[[], Awaitable[object]]]) -> None:
        """Close the runtime, in a task of its own: a caller that is cancelled ends the grace only."""
        models, self._models = self._models, {}
        writer, self._writer = self._writer, None
        errors = await _closed(leaves)
        errors += await _closed(model.aclose for model in models.values())
        for held in (writer, self._checker, self._tools):
            errors += await _closed([held.aclose] if held else [])
        await self._log.close()
        if errors:
            raise errors[0]

    # --- running ------------------------------------------------------------------

    async def run(
        self,
        agent: Agent,
        prompt: str | Sequence[Mapping[str, object]],
        *,
        output_schema: Mapping[str, object] | None = None,
        limits: Limits | None = None,
        session_id: str = "",
        request_id: str = "",
    ) -> Outcome:
        """Run one prompt to one outcome, in a session of its own. `open` and `ask` have these parameters."""
        # Checked before `open`: a bad argument must not leave an empty session in the log.
        prompt_json(prompt)
        schema_json(output_schema)
        if self._approver is None:
            refuse_unasked(agent)
        async with self.open(agent, session_id=session_id, limits=limits, title=prompt) as session:
            outcome = await session.ask(prompt, output_schema=output_schema, request_id=request_id)
            head = await session.close()
        return with_head(outcome, head)

    def run_sync(
        self,
        agent: Agent,
        prompt: str | Sequence[Mapping[str, object]],
        *,
        output_schema: Mapping[str, object] | None = None,
        limits: Limits | None = None,
        session_id: str = "",
        request_id: str = "",
    ) -> Outcome:
        """Open the log, run one prompt, close the log: `run` for programs without an event loop.

        Ctrl-C and SIGTERM detach the session; SIGTERM ends the program by SystemExit unless it handles it.
        Raises InsideLoop where a loop runs already; use `await runtime.run(...)` there.
        """
        _refuse_inside_loop()

        async def once() -> Outcome:
            async with self:
                return await self.run(
                    agent,
                    prompt,
                    output_schema=output_schema,
                    limits=limits,
                    session_id=session_id,
                    request_id=request_id,
                )

        return event_loop.run_until_signal(once())

    def open(
        self,
        agent: Agent,
        *,
        session_id: str = "",
        limits: Limits | None = None,
        title: "str | Sequence[Mapping[str, object]]" = "",
        resume: bool = False,
    ) -> Opening:
        """Open a session with this agent as its host: `await` it, or `async with` it.

        limits: narrower ones than the runtime's hold. resume: True also goes on with a session of this id
        that is not closed, or returns the one that runs in this runtime.

        Raises InvalidAgent, SessionExists, and MisuseError where no model is given; with `resume` also what
        `Runtime.resume` raises.
        """
        return Opening(lambda: self._open(agent, session_id, limits, title, resume))

    async def _open(
        self, agent: Agent, session_id: str, limits: Limits | None, title: object, resumes: bool
    ) -> Session:
        self._usable()
        found = self._agents_of(agent, limits)
        name = checked_name("session_id", session_id) or new_session_id()
        self._secrets.refuse_in("session_id", name)
        if resumes and (live := self._live.find(name, self._life)):
            live.stay()
            return live
        if resumes and session_id:
            with contextlib.suppress(SessionNotFound):
                return await self._resume(name, agent, Continuing(limits))
        epoch = await self._log.create(name, now_ms(), self._title(title))
        session, board = self._put_together(name, epoch, found)
        board.submit_for_client(found.opened)
        return session

    def resume(
        self,
        session_id: str,
        agent: Agent,
        *,
        limits: Limits | None = None,
        extend: float = 0.0,
        accept_changes: bool = False,
        steal: bool = False,
    ) -> Opening:
        """Resume a session that another process left: `await` it, or `async with` it.

        `await session.outcome` is its unfinished ask, if there is one; an idle conversation goes on with the
        next `ask`. Nothing durable is done again. Model calls that were cut off are made again, those of a
        crash charged in full; `read` and `idempotent` tools run again; `write` tools that had started do not,
        their calls are `interrupted`. docs/resume.md has the whole table.

        agent: the host, as it was recorded. limits: of the session from now on. extend: seconds added to each
        deadline, since time counts also while no process runs the session. accept_changes: True goes on with
        agents that have changed, and records that. steal: True takes a session over that runs in this
        process.

        Raises AgentsChanged for agents that differ from the recorded ones, SessionEnded for a closed session,
        SessionBusy for one that runs here, SessionNotFound, CorruptLog, Diverged if the code does not do what
        the log says, and SessionFailed if the supervisor's decider raises.
        """
        how = Continuing(limits, extend, accept_changes, steal)
        return Opening(lambda: self._resume(session_id, agent, how))

    def reopen(
        self,
        session_id: str,
        agent: Agent,
        *,
        limits: Limits | None = None,
        accept_changes: bool = False,
    ) -> Opening:
        """Continue the conversation of a closed session: `await` it, or `async with` it.

        A session that is not closed is resumed. Parameters and errors are those of `resume`.
        """
        how = Continuing(limits, accept_changes=accept_changes, reopens=True)
        return Opening(lambda: self._resume(session_id, agent, how))

    async def _resume(self, session_id: str, agent: Agent, how: Continuing) -> Session:
        writer = self._usable()
        found = self._agents_of(agent, how.limits)
        more_ms = extension_ms(how.extend)
        with self._live.claim(session_id, how.steal) as former:
            if former is not None and former.has_failed:
                await former.close()
            epoch, head, recorded = await take_over(
                self._log, session_id, found.opened, how.accept_changes, how.reopens
            )
        if not self._counts_downtime:
            more_ms += downtime_ms(recorded)
        first = continuation(recorded, found.opened, how.limits is not None, more_ms)
        recovered = recover_session(session_id, recorded, first, PortGate(self._is_strict))
        writer.attach(session_id, epoch, head)
        session, board = self._put_together(session_id, epoch, found)
        supervisor = recovered.states[SUPERVISOR]
        session.remember(recorded, isinstance(supervisor, SupervisorState) and supervisor.is_closing)
        board.restore(recovered)
        return session

    def _agents_of(self, host: Agent, limits: Limits | None) -> SessionAgents:
        bounds = narrow(self._limits, limits_of(limits))
        return agents_of_session(host, self._model, bounds, self._secrets)

    def _put_together(self, name: str, epoch: int, found: SessionAgents) -> tuple[Session, Board]:
        """Build a session with its board and ports, before its first event in this process."""
        board = Board(name, epoch, self._usable(), self._is_strict)
        # By identity: sessions may share a model, and `aclose` closes it once.
        self._models.update((id(one), one) for one in found.models.values())
        board.secrets = self._secrets
        session = Session(board, self._log, found.unpriced, self._life)
        board.ports[MODEL] = ModelPort(board, found.models, session.on_text)
        board.ports[TOOLS] = ToolPort(board, found.agents, self._tools, session.on_progress)
        board.ports[APPROVALS] = ApprovalPort(board, self._log, self._approver, session.on_approval)
        board.ports[SCHEMA] = SchemaPort(board, self._checker)
        board.clock = ClockPort(board)
        self._live.add(session)
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
