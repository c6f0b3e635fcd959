"""The life of a session in one process: it is closed, detached, or left by an exception; or it fails.

A fork also has inputs: what the client gave to the session that was forked is posted again.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Self

from callboard.actors.protocol.client_messages import Ask, Close
from callboard.actors.protocol.errors import Diverged, StoreError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.runtime.log.protocol import Head
from callboard.runtime.programs.session_check import waits
from callboard.runtime.schemas.output_types import output_type
from callboard.runtime.sessions.board import PATIENCE_S
from callboard.runtime.sessions.detaching import (
    DETACH_GRACE_S,
    Grace,
    OnDiverged,
    ProcessLife,
    detach,
    detached,
    seconds,
)
from callboard.runtime.sessions.outcomes import Outcome
from callboard.runtime.sessions.session_sleep import CUT_OFF_S, LiveParts, Rest, SessionSleep
from callboard.runtime.sessions.session_types import SessionTypes, TypeName

_LOOP_END_S: Final = 0.05  # a loop that has cancelled all its tasks ends sooner


class SessionLife(SessionSleep, AbstractAsyncContextManager[Any]):
    """The part of a session that ends it. on_release: called once it has left this process."""

    def __init__(self, session_id: str, rest: Rest, life: ProcessLife) -> None:
        super().__init__(session_id, rest)
        self._life = life
        self._on_release: Callable[[], object] = lambda: None
        self._running = ""  # request id of the running ask
        self._last: asyncio.Future[Outcome] = self._loop.create_future()  # of the running or the latest ask
        self._closed: asyncio.Future[Head] = self._loop.create_future()
        self._closing: asyncio.Task[Head] | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._detaching: asyncio.Task[Head] | None = None
        self._is_closing = False
        self._is_over = False
        self._ends: list[Callable[[], None]] = []
        self._when_diverged: OnDiverged = "wait"
        self._on_waits: Callable[[Diverged], Awaitable[object]]
        self._on_goes_on: Callable[[], Awaitable[object]]
        self._diverged: Diverged | None = None
        self._writes: Grace | None = None

    def _connect(self, parts: LiveParts) -> None:
        """Take live parts, when the session begins or wakes."""
        super()._connect(parts)
        self._ends.append(parts.hub.end)
        parts.board.on_failure = self._on_failure
        parts.board.on_cut_off = self._on_cut_off
        parts.board.on_diverged = self._on_diverged
        parts.board.is_held = self._when_diverged == "hold"

    def _let_go(self, live: LiveParts) -> None:
        super()._let_go(live)
        self._ends.remove(live.hub.end)

    def _may_sleep(self) -> bool:
        is_ending = self._is_over or self._is_closing or self._closing is not None or self._lingering
        return not (self._running or is_ending or self._detaching is not None or self._has_failed)

    async def __aenter__(self) -> Self:
        """Return the session."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._is_over or self._diverged is not None:
            return
        if kind is None or self._has_failed:
            await self.close()
        else:
            # By now a process that ends has cancelled its tasks and has not closed its runtime yet.
            self._lingering = self._loop.call_later(self._life.cancel_delay_s, self._close_unwanted)

    async def close(self) -> Head:
        """End the session, its running ask first, and return the final head. May be called twice.

        Raises SessionDetached if this process has left the session, MisuseError on another event loop than
        the session's.
        """
        self._check_loop()
        self._stay()
        await self._take_up_to_end()
        if self._detaching is not None:
            raise detached(self.session_id)
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())
        return await asyncio.shield(self._closing)

    async def _close(self) -> Head:
        """Close the session, in a task of its own."""
        try:
            await self._awake()
        except BaseException:
            self._closing = None  # it sleeps on; a later call tries again
            raise
        # A caller that is cancelled while it waits for the end must not leave the session open.
        if not self._has_failed and not self._is_closing:
            self._is_closing = True
            self._board.submit_for_client(Close())
        if self._has_failed:
            self._end_at(Head(0, b""))
        try:
            return await self._closed
        finally:
            if self._detaching is None:
                await self._leave(PATIENCE_S)

    async def _leave(self, patience_s: float) -> None:
        """End the feeds, the ports and the actors of the session, and release its place."""
        self._is_over = True
        self._note_busy()
        self._end_feeds()
        try:
            if self._live:
                await self._live.board.aclose(patience_s)
        finally:
            self._on_release()

    def _stay(self) -> None:
        """Keep a session open that an exception would close soon."""
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None

    def _close_unwanted(self) -> None:
        """Close the session that an exception has left, unless its process ends as well."""
        self._lingering = None
        if not self._life.is_ending and not self._is_over and self._closing is None:
            self._closing = self._loop.create_task(self._close())
            self._closing.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def detach(self, grace_s: float = DETACH_GRACE_S) -> Head:
        """Leave the session to a later `resume`, in any process, and return its head. Nothing is lost.

        From now on nothing is decided or started. grace_s: seconds for the answers under way, which are
        recorded. Then a model call is charged what its stream has told, and asked again by the resume; tools
        are cut off as by a crash. Callers that wait for an ask get SessionDetached.

        Raises MisuseError on another event loop than the session's.
        """
        self._check_loop()
        return await self._detach_within(Grace(seconds("grace_s", grace_s)))

    async def _detach_within(self, grace: Grace) -> Head:
        """Detach as `detach` does. grace: shared with other sessions."""
        self._stay()
        if self._closing is not None and (self._is_over or not self._running):
            return await asyncio.shield(self._closing)
        if self._detaching is None:
            self._detaching = self._loop.create_task(self._detach(grace))
        elif self._writes is not None:
            leaving = self._detaching
            await grace.wait_for(lambda: set() if leaving.done() else {leaving})
            self._writes.end()
        return await asyncio.shield(self._detaching)

    async def _detach(self, grace: Grace) -> Head:
        """Detach the session, in a task of its own."""
        await self._settled()
        try:
            return await detach(self._live.board, grace, self._writes) if self._live else self._slept.head
        finally:
            try:
                await self._leave(CUT_OFF_S)
            finally:  # last, so that a caller who hears of it can resume the session at once
                self._fail_waiters(self._error or self._diverged or detached(self.session_id))

    # --- waiting for its code ---------------------------------------------------------

    def _on_diverged(self, address: str, why: str) -> bool:
        """Detach, since a program does otherwise than recorded. Return False if it is to end as `crashed`."""
        if self._when_diverged == "crash":
            return False
        if self._when_diverged == "wait" and self._detaching is None and not self._is_closing:
            self._diverged = self._board.waits = waits(self.session_id, address, why)
            self._writes = Grace(None)
            self._detaching = self._loop.create_task(self._wait_for_code(self._diverged))
            self._detaching.add_done_callback(lambda task: task.cancelled() or task.exception())
        return True

    async def _wait_for_code(self, error: Diverged) -> Head:
        self._board.stand_still()
        with contextlib.suppress(StoreError):  # the note is for those who list sessions
            await self._on_waits(error)
        return await self._detach(Grace(DETACH_GRACE_S))

    async def _take_up_to_end(self) -> None:
        """Take up a session that waits for its code, for a cancel or a close: nothing starts in it.

        Raises what `Runtime.resume` raises.
        """
        head = None
        if self._diverged is not None and self._detaching is not None:
            head = await asyncio.shield(self._detaching)
        if head is not None and self._diverged is not None:  # else another caller has begun to take it up
            if self._live is not None:
                self._let_go(self._live)
            self._slept = self._slept._replace(head=head)
            self._last, self._closed = self._loop.create_future(), self._loop.create_future()
            self._detaching = self._closing = self._diverged = self._writes = None
            self._when_diverged, self._is_over = "hold", False
        if self._when_diverged == "hold":
            await self._awake()
            await self._on_goes_on()

    def _may_start_again(self) -> None:
        """Let requests start again, once the ask that waited for its code has ended."""
        if self._when_diverged == "hold":
            self._when_diverged, self._board.is_held = "wait", False

    def _end_at(self, head: Head) -> None:
        if not self._closed.done():
            self._closed.set_result(head)

    def _end_feeds(self) -> None:
        for end in self._ends:
            end()

    def _on_failure(self, error: BaseException) -> None:
        self._note_busy()
        self._end_at(Head(0, b""))
        self._fail_waiters(error)
        self._end_feeds()

    def _on_cut_off(self) -> None:
        """Detach the session if the loop lives on, although it has cancelled the work of a port."""
        self._loop.call_later(_LOOP_END_S, self._detach_cut_off)

    def _detach_cut_off(self) -> None:
        if self._detaching is None and not self._is_over:
            self._detaching = self._loop.create_task(self._detach(Grace(0)))

    def _fail_waiters(self, error: BaseException) -> None:
        """Give an error to those who wait for an outcome or for the end of the session."""
        waited: tuple[asyncio.Future[Any], ...] = (self._last,) if self._running else ()
        for future in (*waited, self._closed):
            if not future.done():
                future.set_exception(error)
                future.exception()  # marks it as seen: without a waiting task asyncio would report it


class SessionInputs(SessionLife):
    """The part of a session that posts the recorded inputs of a fork."""

    _types: SessionTypes
    _asking: TypeName  # the type of the running ask's report
    _asks_left: Callable[[], int] = staticmethod(lambda: 0)

    def _expect(self, asks_left: Callable[[], int]) -> None:
        """Expect asks that are posted again, in a fork. asks_left: returns their number."""
        self._asks_left = asks_left

    @property
    def _has_asks(self) -> bool:
        """Return True while an ask runs or is still to be posted again."""
        return bool(self._running or self._asks_left())

    def _runs_ask(self) -> bool:
        """Return True while an ask runs, until its outcome is given."""
        return bool(self._running)

    def _repost(self, event: Event) -> None:
        """Post an input that the client gave to the session that was forked."""
        body: Any = event.body
        if isinstance(body, Ask):
            kind = TypeName(body.output_type, body.schema)
            self._asking = kind if body.schema != NULL else self._types.of_ask(output_type(None))
            if self._last.done():
                self._last = self._loop.create_future()
            self._running = body.request_id
            self._note_busy()
        elif isinstance(body, Close):
            self._is_closing = True
            self._note_busy()
        self._board.submit_for_client(body)
