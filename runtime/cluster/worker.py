"""A worker: it claims submitted sessions, runs them in a runtime, and holds them by a lease that it renews.

    register -> [ renew each quarter, claim while slots are free ] -> drain
                     | lease not renewed in time: leave all sessions, register again

Rules
  - No port starts unless the lease is fresh. The check is made at the start itself, so that a process that
    was stopped and wakes up starts nothing before it has noticed.
  - A worker that could not renew in time leaves its sessions before its lease ends, and claims again under
    another number. Its late appends are refused if another worker has the session by then.
  - The ask of a session has the id of its request, so that it is asked once, by whichever worker.
"""

import asyncio
import logging
import os
import platform
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from callboard.actors.cluster.leases import LEASE_MS, Lease
from callboard.actors.protocol.errors import (
    CallboardError,
    MisuseError,
    SessionBusy,
    SessionDetached,
    SessionEnded,
    SessionFailed,
    StoreError,
)
from callboard.actors.protocol.limits import Limits
from callboard.runtime.agent import Agent
from callboard.runtime.clock import monotonic_ms
from callboard.runtime.cluster.commands import SessionCommands
from callboard.runtime.failure_text import failure_text
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.leases import Claim, LeaseTables
from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.call_options import limits_of_ask
from callboard.runtime.sessions.detaching import DETACH_GRACE_S
from callboard.runtime.sessions.session import Session

SLOTS: Final = 100
POLL_MS: Final = 500  # between two claims of a worker that has free slots
QUIET_TURNS: Final = 3  # without work, after which a worker gives a session back that was not asked to close
_LEFT_BY_ITSELF: Final = (SessionBusy, SessionFailed, StoreError)  # not for a fault of the worker's agents

logger: Final = logging.getLogger("callboard.worker")


class ClusterWorker:
    """Runs submitted sessions in an open runtime, whose log is the one of the leases.

    hosts: the agents whose sessions it claims, by their names. slots: the sessions that it runs at a time.
    limits: of the sessions that it opens.
    Raises MisuseError for hosts of the same name, none at all, or no slot.
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
        name: str = "",
    ) -> None:
        self.hosts = {host.name: host for host in hosts}
        if not hosts or len(self.hosts) < len(hosts) or slots < 1:
            raise MisuseError("a worker needs agents of different names, and at least one slot")
        self.name = name or f"{platform.node()}:{os.getpid()}"
        self.number = 0
        self._runtime, self._leases, self._slots = runtime, leases, slots
        self._limits = limits
        self._lease = Lease(monotonic_ms(), lease_ms)
        self._has_lapsed = True  # until it is registered
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._commands: SessionCommands

    def may_start(self) -> bool:
        """Return whether a port may start a request. Once it may not, the sessions are left."""
        if self._lease.standing(monotonic_ms()) != "acts":
            self._has_lapsed = True
        return not self._has_lapsed

    async def run(self, stop: asyncio.Event) -> None:
        """Claim and run sessions until `stop` is set; then give them back at once. Raises StoreError."""
        writer = self._runtime._usable()
        writer.may_start = self.may_start
        self._commands = SessionCommands(self._runtime, writer, self._change)
        while not stop.is_set():
            await self._register()
            try:
                await self._serve(stop)
            finally:
                await self._leave(DETACH_GRACE_S if stop.is_set() else 0.0)

    # --- the lease ----------------------------------------------------------------

    async def _register(self) -> None:
        sent, names, lease_ms = monotonic_ms(), list(self.hosts), self._lease.lease_ms
        self.number = await self._change(lambda one: one.register(self.name, names, self._slots, lease_ms))
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
                await _first(stop.wait(), pause_ms / 1_000)
                continue
            self._has_lapsed = True
            logger.warning("worker %s could not renew its lease in time; it leaves its sessions", self.name)
            return

    async def _turn(self) -> bool:
        """Renew the lease if it is due, and claim. Return False if the lease has ended."""
        number = self.number
        if self._lease.renews_in_ms(monotonic_ms()) == 0:
            sent, running = monotonic_ms(), len(self._tasks)
            if not await self._change(lambda one: one.renew(number, running, is_draining=False)):
                return False
            self._lease = self._lease.renewed(sent)
        if len(self._tasks) < self._slots:
            for claim in await self._change(lambda one: one.claim(number)):
                if number == self.number and not self._has_lapsed:
                    self._begin(claim)
        await self._commands.turn(number)
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
        await self._change(lambda one: one.leave(number))

    def _change(self, work: Callable[[LeaseTables], Any]) -> Awaitable[Any]:
        return self._leases.change(work)

    # --- sessions -----------------------------------------------------------------

    def _begin(self, claim: Claim) -> None:
        task = asyncio.get_running_loop().create_task(self._run_one(claim, self.number))
        self._tasks[claim.session] = task

        def ended(task: asyncio.Task[None]) -> None:
            if self._tasks.get(claim.session) is task:
                del self._tasks[claim.session]
            _ignore(task)

        task.add_done_callback(ended)

    async def _run_one(self, claim: Claim, number: int) -> None:
        """Run a session to the end of its request, then take it out of those that workers share."""
        name = claim.session
        try:
            await self._asked(claim, number)
        except SessionDetached:
            return  # it is given back with all others of this worker
        except _LEFT_BY_ITSELF as error:
            logger.warning("worker %s lost session %s: %s", self.name, name, failure_text(error))
            await self._change(lambda one: one.give_back(number, name))
        except CallboardError as error:
            why = failure_text(error)
            logger.warning("worker %s cannot run session %s: %s", self.name, name, why)
            await self._change(lambda one: one.refuse(number, name, why))

    async def _asked(self, claim: Claim, number: int) -> None:
        """Run a session for its request, or without one until no ask runs in it and no command waits."""
        host, name, limits = self.hosts[claim.host], claim.session, self._limits
        is_finished = False
        while not is_finished:
            try:
                session = await self._runtime.open(host, session_id=name, limits=limits, resume=True)
                if claim.request_id:
                    own = limits_of_ask(limits)
                    await session.ask(
                        claim.prompt, limits=own, request_id=claim.request_id, on_cancel="detach"
                    )
                    await session.close()
                else:
                    await self._until_idle(session)
                    await session.detach(0)
            except SessionEnded as ended:  # perhaps by an earlier worker, which died before it could say so
                await self._commands.refuse_all(number, name, ended)
            is_finished = await self._change(lambda one: one.finish(number, name))

    async def _until_idle(self, session: Session) -> None:
        """Wait until a session has had nothing to do for a while, in which commands are looked for."""
        quiet = 0
        while quiet < QUIET_TURNS:
            await asyncio.sleep(POLL_MS / 1_000)
            is_busy = session.activity == "running" or self._commands.is_busy(session.id)
            quiet = 0 if is_busy else quiet + 1
            session._check_open()


def _ignore(task: "asyncio.Future[Any]") -> None:
    """Mark the error of a task as seen: its session is another worker's by now."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.debug("a task of a session that was left has ended: %s", failure_text(error))


async def _first(wait: Coroutine[Any, Any, Any], timeout_s: float) -> None:
    """Wait for a coroutine, for some time at most."""
    try:
        await asyncio.wait_for(wait, timeout_s)
    except TimeoutError:
        return
