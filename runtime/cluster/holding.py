"""The lease of a runtime on a server: it holds the sessions that a program opens, as a worker holds its own.

    first session -> register -> [ renew each quarter, carry out commands ] -> leave, when the runtime closes
                                    | not renewed in time: leave all sessions

A session that the program leaves in the middle of an ask, or that a command waits for, waits for a worker
from then on. Any other is shared no longer.
"""

import asyncio
import logging
import os
import platform
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from callboard.actors.cluster.leases import LEASE_MS, Lease
from callboard.actors.protocol.errors import StoreError
from callboard.runtime.clock import monotonic_ms
from callboard.runtime.cluster.announcing import Announcer
from callboard.runtime.cluster.commands import SessionCommands
from callboard.runtime.control.server import Controlled
from callboard.runtime.failure_text import failure_text
from callboard.runtime.log.postgres.leases import LeaseTables
from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.writer import GroupWriter
from callboard.runtime.sessions.session import Session

LEAVE_S: Final = 2.0  # for the answer of the server, at the end of a runtime
TURN_MS: Final = 1_000  # between two looks at the commands that wait

T = TypeVar("T")
logger: Final = logging.getLogger("callboard.worker")


class Holder(Controlled, Protocol):
    """A runtime that holds sessions."""

    def _usable(self) -> GroupWriter: ...


class Holding:
    """The lease of one runtime. A worker that uses the runtime has a lease of its own in its place."""

    def __init__(self, runtime: Holder, log: PostgresLog, *, lease_ms: int = LEASE_MS) -> None:
        self._runtime, self._log, self._lease_ms = runtime, log, lease_ms
        self._leases = log.leases()
        self._number = 0
        self._lease = Lease(0, lease_ms)
        self._has_lapsed = False
        self._held: dict[str, int] = {}  # the numbers under which sessions were taken
        self._beginning = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[object]] = set()
        writer = runtime._usable()
        writer.may_start = self.may_start
        self._commands = SessionCommands(runtime, writer, self._change)
        self._announcer = Announcer(runtime, log.address)
        writer.on_stored = self._announcer.on_stored

    def may_start(self) -> bool:
        """Return whether a port may start a request. Once it may not, the sessions are left."""
        if self._number and self._lease.standing(monotonic_ms()) != "acts":
            self._has_lapsed = True
        return not self._has_lapsed

    async def hold(self, session: str, host: str, *, steal: bool) -> str:
        """Take the lease of a session. Return the name of the live owner that has it; empty once it is ours.

        steal: True takes it from a live owner, too. Raises StoreError.
        """
        if self._log.worker and not self._number:  # of a worker, which claims its sessions
            return "" if steal else await self._log.owner(session)
        async with self._beginning:
            number = await self._registered()
        owner = await self._change(lambda one: one.hold(number, session, host, steal=steal))
        if not owner:
            self._held[session] = number
        return owner

    def on_live(self, session: Session) -> None:
        """Leave a session that is live from now on, if the lease has ended since `hold`."""
        if self._held.get(session.session_id, self._number) != self._number or not self.may_start():
            self._in_background(session.detach(0))

    def let_go(self, session: str) -> None:
        """Give the lease of a session back, some time soon. A worker does that for its own sessions."""
        self._held.pop(session, None)
        if number := self._number:
            self._in_background(self._change(lambda one: one.let_go(number, session)))

    async def aclose(self) -> None:
        """Give everything back, and end the lease."""
        self._commands.leave()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._announcer.aclose()
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=LEAVE_S)
        number, self._number = self._number, 0
        if self._leases.is_open:
            if number:  # a server that does not answer ends the lease by itself
                self._in_background(self._change(lambda one: one.leave(number)))
                await asyncio.wait(self._leaving, timeout=LEAVE_S)
            await self._leases.__aexit__()

    async def _registered(self) -> int:
        """Register, unless that is done. Return the number."""
        if not self._leases.is_open:
            await self._leases.__aenter__()
        if not self._number:
            sent, name = monotonic_ms(), f"{platform.node()}:{os.getpid()}"
            self._number = await self._change(lambda one: one.register(name, (), 0, self._lease_ms))
            self._lease, self._has_lapsed = Lease(sent, self._lease_ms), False
            self._log.worker = self._number
            self._task = asyncio.get_running_loop().create_task(self._keep(), name="callboard lease")
        return self._number

    async def _keep(self) -> None:
        """Renew the lease, and carry out commands, until the lease ends."""
        while await self._is_kept():
            pass
        self._has_lapsed, self._task = True, None
        logger.warning("this runtime could not renew its lease in time; it leaves its sessions")
        await self._lapse()

    async def _is_kept(self) -> bool:
        """Wait for the next turn, and take it. Return False once the lease has ended."""
        pause_ms = min(TURN_MS, self._lease.renews_in_ms(monotonic_ms()))
        await asyncio.sleep(pause_ms / 1_000)
        turn = asyncio.ensure_future(self._turn())
        acts_ms = self._lease_ms * 3 // 4 - (monotonic_ms() - self._lease.sent_ms)
        await asyncio.wait({turn}, timeout=max(0, acts_ms) / 1_000)
        turn.add_done_callback(_ignore)
        if turn.done() and turn.exception() is None:
            return turn.result()
        return self.may_start()  # an error may pass before the lease ends

    async def _turn(self) -> bool:
        """Renew the lease if it is due, and carry out commands. Return False if the lease has ended."""
        number, running = self._number, len(self._runtime.live_sessions)
        if self._lease.renews_in_ms(monotonic_ms()) == 0:
            sent = monotonic_ms()
            if not await self._change(lambda one: one.renew(number, running, is_draining=False)):
                return False
            self._lease = self._lease.renewed(sent)
        look = self._announcer.look(number, self._runtime.live_sessions)
        self._announcer.take(await self._commands.turn(number, look), self._leases.cipher)
        return True

    async def _lapse(self) -> None:
        """Detach all sessions: another owner may have them. The next one that is opened registers again."""
        self._number = self._log.worker = 0
        self._commands.leave()
        leaving = [asyncio.ensure_future(one.detach(0)) for one in self._runtime.live_sessions.values()]
        if leaving:
            await asyncio.wait(leaving)
        for one in leaving:
            _ignore(one)

    def _change(self, work: Callable[[LeaseTables], T]) -> Awaitable[T]:
        return self._leases.change(work)

    def _in_background(self, work: Awaitable[object]) -> None:
        task = asyncio.ensure_future(work)
        self._leaving.add(task)
        task.add_done_callback(self._left)

    def _left(self, task: "asyncio.Task[object]") -> None:
        self._leaving.discard(task)
        _ignore(task)


def _ignore(task: "asyncio.Future[Any]") -> None:
    """Mark the error of a task as seen: the lease ends by itself."""
    if not task.cancelled() and isinstance(error := task.exception(), StoreError):
        logger.debug("a lease was not given back: %s", failure_text(error))
