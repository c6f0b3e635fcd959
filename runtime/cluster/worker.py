"""A worker: it claims submitted sessions, runs them in a runtime, and holds them by a lease that it renews.

    register -> [ renew each quarter, claim while slots are free ] -> drain
                     | lease not renewed in time: leave all sessions, register again

Rules
  - No port starts unless the lease is fresh. The check is made at the start itself, so that a process that
    was stopped and wakes up starts nothing before it has noticed.
  - A worker that could not renew in time leaves its sessions before its lease ends, and claims again under
    another number. Its late appends are refused if another worker has the session by then.
  - Sessions are claimed as they can be opened, a few at a time: after the loss of a worker with thousands of
    them, none who takes over is too busy to renew its lease, and all who have free slots take part.
  - A session that this worker has and does not run is given back with the next renewal.
  - The calls that limited models may have in flight are shared by all workers of the log.
  - The ask of a session has the id of its request, so that it is asked once, by whichever worker.
"""

import asyncio
import logging
import os
import platform
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from callboard.actors.cluster.claims import LOSSES_MAX
from callboard.actors.cluster.leases import LEASE_MS, Lease
from callboard.actors.protocol.errors import (
    MisuseError,
    SessionBusy,
    SessionDetached,
    SessionEnded,
    SessionFailed,
    StoreError,
    StoreFailed,
    StoreLocked,
)
from callboard.actors.protocol.limits import Limits, fill, millis
from callboard.actors.session.capacity import check_fair_by
from callboard.runtime.agent import Agent
from callboard.runtime.clock import monotonic_ms
from callboard.runtime.cluster.announcing import Announcer
from callboard.runtime.cluster.commands import SessionCommands
from callboard.runtime.cluster.shared_capacity import WorkerCapacity
from callboard.runtime.failure_text import failure_text
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.leases import Claim, LeaseTables
from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.call_options import limits_of_ask
from callboard.runtime.sessions.detaching import DETACH_GRACE_S
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.session_agents import check_models
from callboard.runtime.statistics import WorkerStats

SLOTS: Final = 100
POLL_MS: Final = 500  # between two claims of a worker that has free slots
OPENING_MAX: Final = 32  # sessions that it opens at a time
QUIET_TURNS: Final = 3  # without work, after which a worker gives a session back that was not asked to close

T = TypeVar("T")
logger: Final = logging.getLogger("callboard.worker")


class ClusterWorker:
    """Runs submitted sessions in an open runtime, whose log is the one of the leases.

    hosts: the agents whose sessions it claims, by their names. slots: the sessions that it runs at a time.
    limits: of its sessions; without any, one that is taken over keeps its own. losses_max: the workers in a
    row that may end while they run a session, before it is left alone; 0 for no limit. fair_by: a pattern of
    tags, as in `Capacity`, which have an equal part of the slots; None for the oldest sessions.
    Raises MisuseError for hosts of the same name, none at all, or no slot, and for another pattern; and what
    `check_models` raises for a host that could run no session.
    """

    def __init__(
        self,
        runtime: Runtime,
        leases: Leases,
        hosts: Sequence[Agent],
        *,
        slots: int = SLOTS,
        lease_ms: int = LEASE_MS,
        limits: Limits | None = None,
        losses_max: int = LOSSES_MAX,
        fair_by: str | None = None,
        name: str = "",
    ) -> None:
        if fair_by is not None:
            check_fair_by("ClusterWorker", fair_by)
        self.hosts = {host.name: host for host in hosts}
        if not hosts or len(self.hosts) < len(hosts) or slots < 1:
            raise MisuseError("a worker needs agents of different names, and at least one slot")
        for host in hosts:
            check_models(host, runtime._settings.model)
        self.name = name or f"{platform.node()}:{os.getpid()}"
        self.number = 0
        self._runtime, self._leases, self.slots = runtime, leases, slots
        self._limits, self._losses_max, self._fair_by = limits, losses_max, fair_by or ""
        self._lease = Lease(monotonic_ms(), lease_ms)
        self._has_lapsed = True  # until it is registered
        self._lost_leases = 0
        # No session that it opens has a longer call: each agent's own limits only narrow these.
        timeout_ms = millis(fill(limits or Limits()).model_timeout_s)
        self._capacity = WorkerCapacity(leases, runtime._capacity, timeout_ms)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._opening: set[str] = set()
        self._is_due = asyncio.Event()  # since there is room for other sessions
        self._commands: SessionCommands
        self._announcer: Announcer

    def may_start(self) -> bool:
        """Return whether a port may start a request. Once it may not, the sessions are left."""
        if self._lease.standing(monotonic_ms()) != "acts":
            self._has_lapsed = True
        return not self._has_lapsed

    def stats(self) -> WorkerStats:
        """Return the figures of this worker."""
        passed_ms = monotonic_ms() - self._lease.sent_ms
        left_ms = 0 if self._has_lapsed else max(0, self._lease.lease_ms - passed_ms)
        return WorkerStats(
            name=self.name,
            number=self.number,
            sessions=len(self._tasks),
            slots=self.slots,
            lease_left_ms=left_ms,
            lost_leases=self._lost_leases,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Claim and run sessions until `stop` is set; then give them back at once.

        A server that fails for a while is tried again. Raises StoreError for one that fails at the beginning,
        and for a log that cannot be used any more.
        """
        writer = self._runtime._usable()
        writer.may_start = self.may_start
        self._runtime._worker = self.stats
        self._commands = SessionCommands(self._runtime, writer, self._change)
        self._announcer = Announcer(self._runtime, self._leases.address)
        writer.on_stored = self._announcer.on_stored
        try:
            await self._run(stop)
        finally:
            await self._announcer.aclose()

    async def _run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await self._register()
                try:
                    async with self._capacity.held_by(self.number):
                        await self._serve(stop)
                finally:
                    await self._leave(DETACH_GRACE_S if stop.is_set() else 0.0)
                    await self._capacity.give_back()
            except (StoreFailed, StoreLocked) as error:
                if not self.number:
                    raise
                logger.warning("worker %s tries again: %s", self.name, failure_text(error))
                await _first_of(POLL_MS / 1_000, stop)

    # --- the lease ----------------------------------------------------------------

    async def _register(self) -> None:
        sent, names, lease_ms = monotonic_ms(), list(self.hosts), self._lease.lease_ms
        self.number = await self._change(lambda one: one.register(self.name, names, self.slots, lease_ms))
        self._lease, self._has_lapsed = self._lease.renewed(sent), False
        if isinstance(log := self._runtime._log, PostgresLog):
            log.worker = self.number  # it resumes only sessions that it has claimed

    async def _serve(self, stop: asyncio.Event) -> None:
        """Renew and claim, until the worker stops or could not renew in time."""
        while not stop.is_set():
            turn = asyncio.ensure_future(self._turn())
            stops_in_ms = self._lease.lease_ms * 3 // 4 - (monotonic_ms() - self._lease.sent_ms)
            await asyncio.wait({turn}, timeout=max(0, stops_in_ms) / 1_000)
            if not turn.done():
                turn.add_done_callback(_ignore)
            elif turn.result() and self.may_start():
                pause_ms = min(POLL_MS, self._lease.renews_in_ms(monotonic_ms()))
                await _first_of(pause_ms / 1_000, stop, self._is_due)
                continue
            self._has_lapsed = True
            self._lost_leases += 1
            logger.warning("worker %s could not renew its lease in time; it leaves its sessions", self.name)
            return

    async def _turn(self) -> bool:
        """Renew the lease if it is due, claim, and post commands. Return False if the lease has ended."""
        self._is_due.clear()
        number, sent, running = self.number, monotonic_ms(), list(self._tasks)
        renews = self._lease.renews_in_ms(sent) == 0
        room = min(self.slots - len(running), OPENING_MAX - len(self._opening))

        def work(tables: LeaseTables) -> list[Claim] | None:
            if renews:
                if not tables.renew(number, len(running), is_draining=False):
                    return None
                tables.keep_only(number, running)
            return tables.claim(number, room, self._losses_max, self._fair_by) if room > 0 else []

        if renews or room > 0:
            claimed = await self._change(work)
            if claimed is None:
                return False
            if renews:
                self._lease = self._lease.renewed(sent)
            for claim in claimed:
                if number == self.number and not self._has_lapsed:
                    self._begin(claim)
        look = self._announcer.look(number, self._tasks)
        self._announcer.take(await self._commands.turn(number, look), self._leases.cipher)
        return True

    async def _leave(self, grace_s: float) -> None:
        """Detach all sessions, and give them back once this process no longer runs them."""
        number, self._has_lapsed = self.number, True
        self._commands.leave()
        live = self._runtime.live_sessions
        own = [live[name] for name in self._tasks if name in live]
        patience_s = grace_s + self._lease.lease_ms / 8_000
        if leaving := [asyncio.ensure_future(session.detach(grace_s)) for session in own]:
            await asyncio.wait(leaving, timeout=patience_s)
        for one in leaving:
            one.add_done_callback(_ignore)
        for task in (tasks := list(self._tasks.values())):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=patience_s)
        self._tasks.clear()
        self._opening.clear()
        await self._change(lambda one: one.leave(number))

    def _change(self, work: Callable[[LeaseTables], T]) -> Awaitable[T]:
        return self._leases.change(work)

    # --- sessions -----------------------------------------------------------------

    def _begin(self, claim: Claim) -> None:
        task = asyncio.get_running_loop().create_task(self._run_one(claim, self.number))
        self._tasks[claim.session] = task
        self._opening.add(claim.session)

        def ended(task: asyncio.Task[None]) -> None:
            if self._tasks.get(claim.session) is task:
                del self._tasks[claim.session]
                self._note_opened(claim.session)
            _ignore(task)

        task.add_done_callback(ended)

    def _note_opened(self, session: str) -> None:
        self._opening.discard(session)
        if len(self._opening) <= OPENING_MAX // 2:
            self._is_due.set()

    async def _run_one(self, claim: Claim, number: int) -> None:
        """Run a session to the end of its request, then take it out of those that workers share."""
        name = claim.session
        try:
            await self._asked(claim, number)
        except SessionDetached:
            return  # it is given back with all others of this worker
        except Exception as error:
            why = failure_text(error)
            if _is_passing(error):
                logger.warning("worker %s lost session %s: %s", self.name, name, why)
                await self._change(lambda one: one.give_back(number, name))
                return
            logger.warning("worker %s cannot run session %s: %s", self.name, name, why)
            await self._change(lambda one: one.refuse(number, name, why))

    async def _asked(self, claim: Claim, number: int) -> None:
        """Run a session for its request, or without one until no ask runs in it and no command waits."""
        host, name, tags, limits = self.hosts[claim.host], claim.session, claim.tags, self._limits
        request, is_finished = claim.request_id, False
        while not is_finished:
            try:
                live = await self._runtime.open(host, session_id=name, limits=limits, resume=True, tags=tags)
                self._note_opened(name)
                if self._has_lapsed or number != self.number:
                    await live.detach(0)  # `_leave` has not seen it
                    return
                if request:
                    own = limits_of_ask(limits)
                    await live.ask(claim.prompt, limits=own, request_id=request, on_cancel="detach")
                    await live.close()
                else:
                    await self._until_idle(live)
                    await live.detach(0)
            except SessionEnded as ended:  # perhaps by an earlier worker, which died before it could say so
                await self._commands.refuse_all(number, name, ended)
            is_finished = await self._leases.finish(number, name)

    async def _until_idle(self, session: Session) -> None:
        """Wait until a session has had nothing to do for a while, in which commands are looked for."""
        quiet = 0
        while quiet < QUIET_TURNS:
            await asyncio.sleep(POLL_MS / 1_000)
            is_busy = session.activity == "running" or self._commands.is_busy(session.id)
            quiet = 0 if is_busy else quiet + 1
            session._check_open()


def _is_passing(error: Exception) -> bool:
    """Return True if a session may go on later: its owner or its store was in the way."""
    if isinstance(error, SessionFailed):
        return isinstance(error.__cause__, StoreError)
    return isinstance(error, SessionBusy | StoreError)


def _ignore(task: "asyncio.Future[Any]") -> None:
    """Mark the error of a task as seen: its session is another worker's by now."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.debug("a task of a session that was left has ended: %s", failure_text(error))


async def _first_of(timeout_s: float, *events: asyncio.Event) -> None:
    """Wait for one of some events, for some time at most."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
