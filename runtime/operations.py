"""The part of a runtime that looks after all sessions of its log, running here or not."""

import weakref
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from callboard.actors.session.budget_limits import period_at
from callboard.runtime.agent import Agent, roster
from callboard.runtime.budgets import BudgetReport, CapacityReport, SharedBudgets, SharedCapacity
from callboard.runtime.control.server import ControlServer
from callboard.runtime.forks.attended import AttendedSessions
from callboard.runtime.forks.forks import Forks
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.log.session_rows import ForksChoice, SessionQuery, SessionRow, SessionStatus
from callboard.runtime.log.writer import GroupWriter
from callboard.runtime.sessions.catalog import SessionCatalog, time_ms
from callboard.runtime.sessions.detaching import OnDiverged, ProcessLife
from callboard.runtime.sessions.labels import checked_tag
from callboard.runtime.sessions.live_sessions import Opening, live_sessions_of
from callboard.runtime.sessions.outcomes import Outcome, past_outcome
from callboard.runtime.sessions.resume_many import Hosts, Resumption, host_finder, resume_each
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.session_types import SessionTypes
from callboard.runtime.sessions.settings import Settings
from callboard.runtime.sessions.starting import SessionStarter
from callboard.runtime.sessions.usage import UsageBy, UsageReport, checked_by, report_of, tags_of
from callboard.runtime.statistics import RuntimeStats, WorkerStats, stats_of
from callboard.runtime.telemetry.observer import Observer


class Operations(Forks):
    """List, resume, delete and count the sessions of a log."""

    _settings: Settings
    _capacity: SharedCapacity
    _budgets: SharedBudgets
    _life: ProcessLife
    _observer: Observer

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._live = live_sessions_of(log)
        self._catalog = SessionCatalog(log, self._live)
        self._control = ControlServer(weakref.ref(self))
        self._attended = AttendedSessions()
        self._worker: Callable[[], WorkerStats] | None = None

    @property
    def log(self) -> EventLog:
        """Return the log of the sessions."""
        return self._log

    def stopping(self) -> None:
        """Mark the runtime as ending: a cancelled caller does not cancel its ask, and `sse()` streams end.

        Call it as soon as the process is told to end, since a server waits for its streams and cancels its
        requests before it closes the runtime. It may be called in a handler of signals.
        """
        self._life.end()

    @property
    def live_sessions(self) -> Mapping[str, Session]:
        """Return the sessions that run here, by id."""
        return MappingProxyType({session.id: session for session in self._live})

    def running(self, session_id: str) -> Session:
        """Return a session that runs here. Raises Diverged for one that waits for its code, UnknownName."""
        return self._live.running(session_id)

    @abstractmethod
    def _started(self) -> SessionStarter: ...

    def _usable(self) -> GroupWriter:
        return self._started().writer

    @abstractmethod
    def resume(self, session_id: str, agent: Agent, *, on_diverged: OnDiverged = "wait") -> Opening:
        """Resume a session that another process left."""

    async def cancel(self, session_id: str, reason: str = "") -> Outcome[Any] | None:
        """Cancel the ask of a session that runs here, or that waits for its code here; return its outcome.

        None if no ask runs. Raises UnknownName for any other session.
        """
        self._usable()
        waiting = self._live.waiting.get(session_id)
        if waiting is None:
            return await self._live.running(session_id).cancel(reason)
        session = await self.resume(session_id, waiting.agent, on_diverged="hold")
        try:
            return await session.cancel(reason)
        finally:
            await session.detach(0)

    async def sessions(
        self,
        *,
        status: SessionStatus | None = None,
        tag: str | None = None,
        since: datetime | timedelta | None = None,
        limit: int | None = None,
        after: str = "",
    ) -> AsyncIterator[SessionRow]:
        """Yield the sessions of the log, newest first, without reading their events.

        status: `"open"` (no ask is under way), `"unfinished"` (an ask has no outcome, here or since its
        process ended) or `"closed"`. tag: only those with this tag. since: only those with an event since
        then: a timedelta for so long ago, or a datetime with a time zone.
        limit: at most so many. after: the `cursor` of the last row of the page before.

        Raises MisuseError.
        """
        self._usable()
        since_ms = None if since is None else time_ms(since)
        tag = None if tag is None else checked_tag(tag)
        async for row in self._catalog.rows(SessionQuery(status, tag, since_ms, after, limit)):
            yield row

    async def resume_all(self, hosts: Hosts, *, check: bool = False) -> AsyncIterator[Resumption]:
        """Resume every unfinished session that does not run here, a few at a time; yield each with its error.

        hosts: agents, each for the sessions with a host of its name; or a function that gets a `SessionRow`
        and returns the host. One session that cannot be resumed does not keep the others from it.
        check: True resumes none. It yields each session with the error that a resume would raise, before a
        deploy: nothing is posted, and no process that runs the session is disturbed.

            async for found in runtime.resume_all([host]):
                if found.error: print(found.row.session_id, found.error)

        Raises MisuseError for hosts that are not agents.
        """
        starter = self._started()
        find = host_finder(hosts)

        async def one(row: SessionRow) -> Session | None:
            if check:
                await starter.check(row.session_id, find(row))
                return None
            return await self.resume(row.session_id, find(row))

        async for found in resume_each(self._catalog.elsewhere("unfinished"), one):
            yield found

    async def outcome(
        self, session_id: str, request_id: str | None = None, *, agent: Agent | None = None
    ) -> Outcome[Any] | None:
        """Return the outcome of an ask that has ended, read from the log; None while it runs.

        For a service that gets a request twice, also when the session is closed or runs elsewhere. Nothing is
        resumed or recorded. The session's events are read, about 10 us each.

        request_id: of the ask; None for the latest one that ended. agent: the host, if the report's type is
        named by an agent and is not in `Runtime(types=...)`.

        Raises UnknownName for an id that no ask of the session has, SessionNotFound, MissingType for a report
        whose type is not given, CorruptLog, StoreError.
        """
        self._usable()
        agents = roster(agent) if agent else {}
        types = SessionTypes(agents, agent.name if agent else "", self._settings.types)
        return await past_outcome(self._log, session_id, request_id, types)

    async def delete(self, session_id: str, *, forks: ForksChoice = "refuse") -> int:
        """Delete a session permanently. Return the number of its events.

        No list and no command finds it from now on. Its events, and the large values that no other session
        has, are removed and overwritten in small steps; if the log is closed before the end, the next opening
        goes on. forks: `"delete"` deletes its forks, and theirs, too. `"keep"` keeps them: the events that
        they share stay under the id of the session, in no list, and go with the last of them. Raises
        SessionBusy for one that runs here, SessionNotFound, and with `"refuse"` HasForks for a session that
        has forks.
        """
        self._usable()
        return await self._catalog.delete(session_id, forks=forks)

    async def prune(
        self,
        *,
        older_than: timedelta,
        status: SessionStatus | Collection[SessionStatus] | None = "closed",
        tag: str | None = None,
    ) -> int:
        """Delete the sessions without an event for `older_than`. Return their number.

        A session and its forks go together, once all of them are old.

        status: `"closed"`; `"open"` for idle conversations; `"unfinished"` for asks without an outcome;
        several of these, as in `("closed", "open")`; None for all. Sessions that run here stay, and sleeping
        ones go.
        """
        self._usable()
        return await self._catalog.prune(older_than, status, tag)

    async def vacuum(self) -> int:
        """Give the space of deleted sessions back to the file system, in small steps between commits.

        Return the number of bytes by which the log got smaller. Without it new events take that space.
        """
        self._usable()
        return await self._catalog.remover.vacuum()

    async def budgets(self) -> BudgetReport:
        """Return the budgets with the amounts spent and reserved, and the charges that no log holds.

        Scopes of sessions that do not run here are read from the log. Raises CorruptLog for a damaged row.
        """
        self._usable()
        return await self._budgets.report()

    async def usage(
        self,
        *,
        by: UsageBy = "model",
        tag: str | None = None,
        since: datetime | timedelta | None = None,
    ) -> UsageReport:
        """Sum the usage of the log's sessions up, without reading their events.

        by: `"day"` (in UTC), `"model"`, `"profile"`, or `"tag"`, where a session with several tags counts in
        each. tag: only sessions with this tag. since: only from the UTC day of this moment on. Raises
        MisuseError, CorruptLog.
        """
        self._usable()
        by = checked_by(by)
        day = "" if since is None else period_at("day", time_ms(since))
        wanted = None if tag is None else checked_tag(tag)
        tags = tags_of(await self._log.sessions(SessionQuery(tag=wanted)), None)
        return report_of(await self._log.usage(day), tags, by)

    def capacity(self) -> CapacityReport:
        """Return the limited models with their calls in flight and tokens left, and the calls that wait."""
        return self._capacity.report()

    def metrics(self) -> str:
        """Return counters, histograms and gauges of this runtime as text for Prometheus (docs/watch.md).

        They count what has happened in this runtime since it was made. Raises MisuseError without
        `Runtime(metrics=True)`.
        """
        return self._observer.text(self.stats())

    def stats(self) -> RuntimeStats:
        """Return what this runtime does right now, for a health check or a dashboard."""
        worker = self._worker
        return stats_of(self._live, self._usable(), self._log, None if worker is None else worker())
