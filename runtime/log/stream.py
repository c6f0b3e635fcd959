"""One session as its writer sees it: its durable head, staged events, waiting callers and error."""

import asyncio
import heapq
from collections.abc import Callable
from typing import Final

import msgspec

from callboard.actors.protocol.errors import SessionFailed, StoreFailed
from callboard.actors.protocol.events import Event
from callboard.actors.session.budget_keys import SpendingChange
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.protocol import Append, Carried, Head

EVERYTHING: Final = 1 << 62  # a seq that no session reaches

OnDurable = Callable[[Head], None]
OnFailure = Callable[[Exception], None]


class Stream(msgspec.Struct, eq=False):
    """A session that is being written."""

    session_id: str
    epoch: int
    head: Head
    staged: list[Event] = []
    spending: list[SpendingChange] = []
    usage: list[Charge] = []
    carried: list[Carried] = []
    error: Exception | None = None
    on_durable: OnDurable = lambda head: None
    on_failure: OnFailure = lambda error: None
    _waiters: list[tuple[int, int, asyncio.Future[None]]] = []
    _tickets: int = 0

    def take(self) -> Append:
        """Return all staged events as one append, and forget them."""
        events, self.staged = self.staged, []
        first = events[0].seq - 1
        if not (self.spending or self.usage or self.carried):
            return Append(self.session_id, first, self.epoch, events)
        spending, self.spending = self.spending, []
        usage, self.usage = self.usage, []
        carried, self.carried = self.carried, []
        return Append(self.session_id, first, self.epoch, events, spending, usage, carried)

    def check(self) -> None:
        """Raise the error of a dead session."""
        if self.error is not None:
            # Without its traceback, which would grow with every caller that gets the error.
            raise self.error.with_traceback(None)

    @property
    def is_awaited(self) -> bool:
        """True while a caller waits for more than is durable."""
        return bool(self._waiters)

    async def wait(self, seq: int) -> Head:
        """Wait until it is durable up to `seq`. Raises its error, or SessionFailed if it was forgotten."""
        if self.head.seq < seq:
            self.check()
            self._tickets += 1
            future = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiters, (seq, self._tickets, future))
            await future
            if self.head.seq < seq:
                self.check()
                raise SessionFailed(f"session {self.session_id} was forgotten before event {seq} was durable")
        return self.head

    def wake(self, seq: int) -> None:
        """Wake all callers that wait for no more than this seq."""
        while self._waiters and self._waiters[0][0] <= seq:
            release(heapq.heappop(self._waiters)[2])

    def unwritten(self) -> StoreFailed:
        """Return the error for a session with a cancelled commit that the log did not finish."""
        return StoreFailed(
            f"session {self.session_id}: writing was cancelled; acknowledged events are stored, later ones "
            f"are not: look at them with `callboard show`, continue with `callboard resume`"
        )


def release(future: "asyncio.Future[None]") -> None:
    """Wake the caller that waits for the future, unless it was cancelled."""
    if not future.done():
        future.set_result(None)
