"""Sleep: an idle session leaves memory, and comes back by itself when it is used again.

Rules
  - A session is idle while no ask runs, no request is open, and no caller reads it or waits for it.
  - It falls asleep as by `detach` and wakes as by `resume`: the log gets `Resumed` and nothing else.
  - Its board, actors, ports and stream go. The `Session` stays, with its agents and its ended asks by id.
  - A caller that uses it while it falls asleep or wakes waits for that: it wakes once for all callers.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.session.permissions import Permission
from callboard.actors.session.shared_state import NO_STATE, SharedState
from callboard.runtime.log.protocol import EMPTY, Head
from callboard.runtime.ports.approval_port import ApprovalPort
from callboard.runtime.scheduling.rounds import Rounds
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.budgeting import UNBOUND
from callboard.runtime.sessions.detaching import Grace, detach
from callboard.runtime.sessions.streaming import StreamHub

CUT_OFF_S: Final = 0.25  # seconds that cancelled tools have to end when their session leaves the process


class LiveParts(NamedTuple):
    """The working parts of a session: dropped when it falls asleep, made again when it wakes."""

    board: Board
    hub: StreamHub
    approvals: ApprovalPort


class Slept(NamedTuple):
    """The part of a session's live parts that stays in memory while it sleeps."""

    head: Head = EMPTY
    permissions: tuple[Permission, ...] = ()
    shared: SharedState = NO_STATE


class Rest(NamedTuple):
    """The sleep of a session. rounds: look after it once in `idle_s`; None for never. wake: connects it."""

    rounds: Rounds | None
    wake: Callable[[Any], Awaitable[None]]


class SessionSleep(ABC):
    """The part of a session that holds its live parts. on_sleep: called once these have gone."""

    def __init__(self, session_id: str, rest: Rest) -> None:
        self.session_id: Final = session_id
        self._on_sleep: Callable[[], object] = lambda: None
        self._slept = Slept()
        self._bound = UNBOUND
        self._loop = asyncio.get_running_loop()
        self._rest = rest
        self._live: LiveParts | None = None
        self._moving: asyncio.Task[None] | None = None  # it falls asleep, or wakes
        self._users = 0

    @abstractmethod
    def _check_open(self) -> None:
        """Refuse a call on a session that has ended."""

    @abstractmethod
    def _may_sleep(self) -> bool:
        """Return whether nothing runs in the session, and it has not begun to end."""

    @property
    def id(self) -> str:
        """Return the session's id in the log."""
        return self.session_id

    @property
    def _is_asleep(self) -> bool:
        """Return whether the session has left memory; the next use brings it back."""
        return self._live is None

    @property
    def _error(self) -> BaseException | None:
        """Return the error of a session that can go no further in this process."""
        return self._live.board.error if self._live else None

    @property
    def _has_failed(self) -> bool:
        """Return True if the session can go no further in this process."""
        return self._error is not None

    @property
    def seq(self) -> int:
        """Return the seq of the newest event, which may not be on disk yet; 0 before the first ask."""
        return self._live.board.seq if self._live else self._slept.head.seq

    @property
    def _hub(self) -> StreamHub:
        """Return the stream of a session that is awake."""
        return self._parts.hub

    @property
    def _approval_port(self) -> ApprovalPort:
        """Return the approvals of a session that is awake."""
        return self._parts.approvals

    @property
    def _board(self) -> Board:
        return self._parts.board

    @property
    def _parts(self) -> LiveParts:
        assert self._live is not None, "this needs a session that is awake"
        return self._live

    @property
    def _on_its_way(self) -> "asyncio.Task[None] | None":
        """Return the task in which the session falls asleep or wakes."""
        return self._moving if self._moving is not None and not self._moving.done() else None

    def _check_loop(self) -> None:
        """Refuse a call from another event loop or thread. Raises MisuseError."""
        if asyncio.get_running_loop() is not self._loop:
            raise MisuseError(
                f"session {self.session_id} belongs to the event loop that it was opened on; from another "
                "thread use asyncio.run_coroutine_threadsafe(..., loop) with that loop"
            )

    # --- in use ---------------------------------------------------------------------

    @asynccontextmanager
    async def _in_use(self) -> AsyncIterator[LiveParts]:
        """Wake the session if it sleeps, and keep it awake. Raises what `Runtime.resume` raises."""
        self._users += 1
        try:
            await self._awake()
            yield self._parts
        finally:
            self._users -= 1

    @asynccontextmanager
    async def _hub_in_use(self) -> AsyncIterator[StreamHub]:
        """Keep the session awake while its stream is read."""
        async with self._in_use() as live:
            yield live.hub

    async def _awake(self) -> None:
        """Wake the session if it sleeps. Until the caller waits again, it stays awake."""
        self._users += 1
        try:
            while (moving := self._on_its_way) or self._live is None:
                if moving is None:
                    self._check_open()
                    moving = self._moving = self._moves(self._wake())
                await asyncio.shield(moving)
        finally:
            self._users -= 1

    async def _settled(self) -> None:
        """Wait until the session is awake or asleep, and not on its way."""
        while moving := self._on_its_way:
            await asyncio.wait([moving])

    def _connect(self, parts: LiveParts) -> None:
        """Take live parts, when the session begins or wakes."""
        self._live = parts

    # --- falling asleep ---------------------------------------------------------------

    def _note_idle(self) -> None:
        """Count the idle time from now on."""
        if self._rest.rounds is not None:
            self._rest.rounds.add(self._sleep_if_idle)

    def _note_busy(self) -> None:
        """Count no idle time from now on."""
        if self._rest.rounds is not None:
            self._rest.rounds.remove(self._sleep_if_idle)

    def _sleep_if_idle(self) -> None:
        """Let the session fall asleep, unless it is in use: then it is looked after in the next round."""
        live = self._live
        if live is None or self._on_its_way or self._users or not self._may_sleep():
            return
        if not live.board.gate.open and not live.board.running():
            self._note_busy()
            self._moving = self._moves(self._fall_asleep(live))

    def _moves(self, step: Coroutine[object, object, None]) -> "asyncio.Task[None]":
        """Begin to fall asleep or to wake, in a task of its own: those who wait for it may be cancelled."""
        task = self._loop.create_task(step)
        task.add_done_callback(self._moved)
        return task

    def _moved(self, task: "asyncio.Task[None]") -> None:
        # Its error is seen: the caller of `_awake` shields the task, which looks at it.
        if self._moving is task:
            self._moving = None

    async def _fall_asleep(self, live: LiveParts) -> None:
        head = EMPTY
        try:
            head = await detach(live.board, Grace(0))
            await live.board.aclose(CUT_OFF_S)
        except Exception as error:
            live.board.fail(error)  # it has its own error if the log failed
        if live.board.error is None:
            self._slept = Slept(head, live.approvals.permissions, live.board.gate.shared)
            self._let_go(live)
            self._on_sleep()

    def _let_go(self, live: LiveParts) -> None:
        """Forget the live parts."""
        self._live = None

    async def _wake(self) -> None:
        await self._rest.wake(self)
