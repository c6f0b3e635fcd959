"""The polite end of a process: its sessions stand still, get a grace, and are cut off. Nothing is lost.

Rules
  - From the beginning no actor decides and no port starts. Answers that come within the grace are recorded,
    and the next process acts on them.
  - After the grace every open model call is answered as `detached`, with the usage of its stream so far.
    Tools that still run are cancelled and stay without an answer, as after a crash.
  - A caller that is cancelled stops waiting at once. Ctrl-C and a failing task group cancel tasks before
    anything else happens, so its ask is cancelled only if the process still lives `cancel_delay_s` later.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal, TypeAlias, get_args

from callboard.actors.protocol.errors import MisuseError, SessionDetached
from callboard.runtime.log.protocol import Head
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.call_options import OnCancel
from callboard.runtime.sessions.outcomes import Outcome

DETACH_GRACE_S: Final = 1.0  # seconds for answers under way, unless the caller says otherwise


OnDiverged: TypeAlias = Literal["wait", "crash", "hold"]
"""The ways to go on with a session whose programs may differ from their recording.

`wait`: it waits for its code. `crash`: it goes on, and what differs ends as `crashed`. `hold`: nothing starts
in it until its ask has ended, so that it can be cancelled or closed without its code.
"""


class ProcessLife:
    """The way in which a runtime ends its sessions.

    is_ending: it detaches, so that cancelled callers cancel nothing.
    """

    def __init__(self, cancel_delay_s: float) -> None:
        self.cancel_delay_s = seconds("cancel_delay_s", cancel_delay_s)
        self.is_ending = False
        self._served: dict[Callable[[], None], asyncio.AbstractEventLoop] = {}

    def end(self) -> None:
        """Mark it as ending, and end the streams that it serves. It may be called in a handler of signals."""
        self.is_ending = True
        for leave, loop in list(self._served.items()):
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(leave)

    @contextmanager
    def serving(self, leave: Callable[[], None]) -> Iterator[None]:
        """Call `leave` on this event loop once the process ends, so that a server can stop."""
        self._served[leave] = asyncio.get_running_loop()
        if self.is_ending:
            leave()
        try:
            yield
        finally:
            del self._served[leave]


class Grace:
    """The time that sessions have for answers under way; None for any. Make it inside the event loop."""

    def __init__(self, grace_s: float | None) -> None:
        loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = loop.create_future()
        self._timer = loop.call_later(grace_s, self.end) if grace_s else None
        if grace_s == 0:
            self.end()

    def end(self) -> None:
        """End the grace now."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._over.done():
            self._over.set_result(None)

    async def wait_for(self, running: "Callable[[], set[asyncio.Task[Any]]]") -> None:
        """Wait until nothing runs any more, or the grace is over."""
        while not self._over.done() and (tasks := running()):
            await asyncio.wait({*tasks, self._over}, return_when=asyncio.FIRST_COMPLETED)


async def detach(board: Board, grace: Grace, writes: Grace | None = None) -> Head:
    """Detach a session and return its durable head. A cancellation ends the grace, not the detaching.

    writes: a further grace for the running calls that write.
    """
    board.stand_still()
    try:
        await grace.wait_for(board.running)
        if writes is not None:
            await writes.wait_for(board.writing)
    finally:
        board.cut_off()
    return await board.durable()


class Callers:
    """The callers that wait for the asks of one session. cancel: gets the id of an ask without a caller."""

    def __init__(self, life: ProcessLife, cancel: Callable[[str], None]) -> None:
        self._life = life
        self._cancel = cancel
        self._waiting: Counter[str] = Counter()

    async def wait(
        self, request_id: str, outcome: "asyncio.Future[Outcome]", on_cancel: OnCancel = "cancel"
    ) -> Outcome:
        """Wait for an outcome. A cancelled caller leaves at once; its ask is cancelled some time later."""
        self._waiting[request_id] += 1
        try:
            return await asyncio.shield(outcome)
        except asyncio.CancelledError:
            if on_cancel == "cancel" and not outcome.done():
                outcome.get_loop().call_later(self._life.cancel_delay_s, self._give_up, request_id)
            raise
        finally:
            self._waiting[request_id] -= 1

    def _give_up(self, request_id: str) -> None:
        if not self._waiting[request_id] and not self._life.is_ending:
            self._cancel(request_id)


def detached(session_id: str) -> SessionDetached:
    """Return the error for callers of a session that its process has left."""
    return SessionDetached(
        f"this process has left session {session_id}; nothing is lost: continue with "
        f"`await runtime.resume({session_id!r}, agent)` or `callboard resume {session_id}`"
    )


def closed_before(session_id: str) -> SessionDetached:
    """Return the error for a call that opens a session while its runtime closes."""
    return SessionDetached(
        f"the runtime was closed before session {session_id} could begin in it; nothing is lost: open or "
        "resume it in an open runtime"
    )


def seconds(name: str, value: float) -> float:
    """Return a number of seconds, 0 or more. Raises MisuseError for any other value."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < float("inf"):
        raise MisuseError(f"{name}={value!r}: a number of seconds from 0 up")
    return value


def idle_seconds(idle_s: float | None) -> float | None:
    """Return `Runtime(idle_s=...)`. Raises MisuseError for other values than None and numbers above 0."""
    if idle_s is not None and not seconds("idle_s", idle_s):
        raise MisuseError("idle_s=0: a number of seconds above 0, or None for never")
    return idle_s


def refuse_on_cancel(on_cancel: str) -> None:
    """Refuse a word that is no `OnCancel`. Raises MisuseError."""
    if on_cancel not in ("cancel", "detach"):
        raise MisuseError(f'on_cancel is "cancel" or "detach", not {on_cancel!r}')


def refuse_on_diverged(on_diverged: str) -> None:
    """Refuse a word that is no `OnDiverged`. Raises MisuseError."""
    if on_diverged not in get_args(OnDiverged):
        raise MisuseError(f"on_diverged={on_diverged!r:.80}: use one of {', '.join(get_args(OnDiverged))}")


def check_seconds(check_timeout_s: float) -> float:
    """Return `Runtime(check_timeout_s=...)`. Raises MisuseError for other values than numbers above 0."""
    if not seconds("check_timeout_s", check_timeout_s):
        raise MisuseError("check_timeout_s=0: a number of seconds above 0")
    return check_timeout_s


async def closed(closers: Iterable[Callable[[], Awaitable[object]]]) -> list[BaseException]:
    """Close what can be closed together. Return the errors."""
    found = await asyncio.gather(*(close() for close in closers), return_exceptions=True)
    return [error for error in found if isinstance(error, BaseException)]
