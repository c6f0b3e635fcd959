"""Pipelined group commit: events posted while one batch is written become the next batch.

Rules
  - `stage` never waits. The events of one call of it are in one batch and in one transaction.
  - A session that the log refuses is dead in this writer; the others of its batch are not. If the whole batch
    fails, every session in it is dead. Waiting callers get the error, staged events are dropped, and staging
    more raises the error again.
  - A task exists only while there is something to write, so none is left over when a loop ends.
  - A task that is cancelled, as by the end of `asyncio.run`, is followed by another: what the sessions say in
    their last moments is handed to the log while the loop still runs.

Use it on one event loop. It does not own the log: open it before, close it after `aclose`.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from callboard.actors.protocol.errors import Fenced, SessionFailed, SessionNotFound, StoreFailed, StoreLocked
from callboard.actors.protocol.events import Event
from callboard.actors.session.budget_keys import SpendingChange
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.protocol import EMPTY, Append, Carried, EventLog, Head
from callboard.runtime.log.stream import EVERYTHING, OnDurable, OnFailure, Stream

UNDURABLE_MAX: Final = 8_192  # events of all sessions that may wait for the disk before ports pause

# One event leads to the next, and a commit for each would make a caller that waits for the last one wait for
# all of them: the close of a session is one commit with a batch that stays open, two without, 0.6 ms each. A
# pass of an idle loop takes 0.02 ms.
PASSES_MAX: Final = 3  # of the loop, for which a batch of up to `FEW` events stays open while more come in
FEW: Final = 64
TIMES_MAX: Final = 1_000  # commits whose times are kept
MANY: Final = 200  # events in a batch, from which on it is large

# The store's thread needs the interpreter lock between its calls into SQLite. A waiting thread may demand it
# after 5 ms (`sys.getswitchinterval()`), but only if the holder did not let go meanwhile. A busy event loop
# lets go and takes it back within a microsecond at every poll: less than a thread needs to wake up. Measured
# with a loop that polls every 0.8 ms, two cores, load 2.6: single commits of 4.4 s, 0.65 s the median of 16
# events; with naps every 5 ms 0.14 s at most, 4 ms the median. A hundred agents whose models answer at once
# take 5 % longer with naps every 3 ms. With one every 20 ms they take 4 % longer: more is left to write when
# they are done.
NAP_EVERY_S: Final = 0.005  # after the start of a commit, or after a nap, `stage` naps again
NAP_FOR_S: Final = 0.000_05  # shortest nap; with waking up it takes some 100 us


class GroupWriter:
    """Writes the events of many sessions in common batches.

    on_commit: called with the seconds and the events of each commit; it must not raise.
    """

    def __init__(
        self, log: EventLog, on_commit: Callable[[float, Sequence[Append]], object] = lambda took, batch: None
    ) -> None:
        self._log = log
        self._on_commit = on_commit
        self._streams: dict[str, Stream] = {}
        self._ready: list[Stream] = []
        self._task: asyncio.Task[None] | None = None
        self._room: deque[Callable[[], None]] = deque()
        self._rested = 0.0
        self._never_free = threading.Lock()
        self._never_free.acquire()
        self._is_closed = False
        self._is_hurried = False
        self._in_doubt: list[tuple[Stream, int]] = []
        self._process = os.getpid()
        self.may_start = _always
        """Whether ports may start requests now: not where the right to run sessions may have ended."""

        self.on_staged: dict[str, Callable[[Sequence[Event]], Iterable[Carried]]] = {}
        """By session: finds the commands that new events carry out, for the batch of these events."""

        self.on_stored: Callable[[Sequence[Append]], object] = lambda batch: None
        """Called with each batch that the log has answered, some of whose sessions may be refused."""

        self.undurable = 0  # number of events that were staged and are not durable yet
        self.commit_times: deque[float] = deque(maxlen=TIMES_MAX)  # seconds of the last commits

    # --- sessions -----------------------------------------------------------------

    def attach(self, session_id: str, epoch: int, head: Head = EMPTY) -> None:
        """Begin to write a session that `EventLog.take_over` gave. Fence writers of earlier epochs."""
        former = self._streams.get(session_id)
        self._streams[session_id] = Stream(session_id, epoch, head)
        if former is not None:
            self._kill(former, Fenced(f"session {session_id} was taken over under epoch {epoch}"))

    def on_durable(
        self, session_id: str, callback: OnDurable, on_failure: OnFailure = lambda error: None
    ) -> None:
        """Set the functions that are called after every commit, and when the session dies."""
        # A session that was not attached counts as empty; the first `stage` gives its epoch.
        stream = self._streams.setdefault(session_id, Stream(session_id, 0, EMPTY))
        stream.check()
        stream.on_durable, stream.on_failure = callback, on_failure

    def forget(self, session_id: str, epoch: int = 0) -> None:
        """Drop a session. Staged events are still written; callers that wait for one get SessionFailed.

        epoch: of the writer that leaves; a later one's session stays. 0 for any.
        """
        stream = self._streams.get(session_id)
        if stream is not None and epoch in (0, stream.epoch):
            del self._streams[session_id]
            stream.on_durable, stream.on_failure = lambda head: None, lambda error: None
            stream.wake(EVERYTHING)

    # --- staging and waiting ------------------------------------------------------

    def stage(
        self,
        session_id: str,
        epoch: int,
        events: Sequence[Event],
        spending: Sequence[SpendingChange] = (),
        usage: Sequence[Charge] = (),
    ) -> None:
        """Add events to one batch, the next. Raises the error of a dead session, Fenced, StoreFailed.

        spending: the changes that these events make to the spending of budgets. usage: the charges of the
        calls that they settle.
        """
        stream = self._streams.get(session_id)
        if stream is None or stream.epoch != epoch or stream.error is not None or self._is_closed:
            stream = self._usable(session_id, epoch)
        if not events:
            return
        staged = stream.staged
        if not staged:
            self._ready.append(stream)
        staged += events
        if spending:
            stream.spending += spending
        if usage:
            stream.usage += usage
        if self.on_staged and (carried_by := self.on_staged.get(session_id)) is not None:
            stream.carried += carried_by(events)
        self.undurable += len(events)
        if self._task is not None:
            self._nap_if_due()
            return
        self._start()

    def _start(self) -> None:
        loop = asyncio.get_running_loop()
        self._rested = loop.time()
        self._task = loop.create_task(self._write(), name="callboard group writer")
        self._task.add_done_callback(self._stopped)
        if self._is_hurried:
            # The loop may end before the task. Its events are in the log, so asyncio must not warn of it.
            # `asyncio.gather` sets the same field of its own future.
            self._task._log_destroy_pending = False  # type: ignore[attr-defined]  # no public name for it

    def _usable(self, session_id: str, epoch: int) -> Stream:
        stream = self._streams.setdefault(session_id, Stream(session_id, epoch, EMPTY))
        stream.epoch = stream.epoch or epoch
        stream.check()
        if self._is_closed:
            raise StoreFailed(f"session {session_id}: the writer is closed, nothing more is stored")
        if epoch != stream.epoch:
            raise Fenced(f"session {session_id} is written under epoch {stream.epoch}, not {epoch}")
        return stream

    def _nap_if_due(self) -> None:
        """Give the interpreter to the store's thread if a commit has taken long."""
        now = asyncio.get_running_loop().time()
        if now - self._rested > NAP_EVERY_S:
            self._never_free.acquire(timeout=NAP_FOR_S)  # always in vain; half the steps of `Event.wait`
            self._rested = now

    async def wait(self, session_id: str, seq: int) -> Head:
        """Wait until the session is durable up to `seq`; return its durable head. Raises its error."""
        stream = self._streams.get(session_id)
        if stream is None:
            raise SessionNotFound(f"session {session_id!r} is not written here; stage or attach it first")
        return await stream.wait(seq)

    def hurry(self) -> None:
        """Wait for no further events before a commit from now on, since the loop is about to end."""
        self._is_hurried = True

    @property
    def is_full(self) -> bool:
        """True while so many events wait for the disk that ports should start nothing new."""
        return self.undurable >= UNDURABLE_MAX

    def when_room(self, then: Callable[[], None]) -> None:
        """Call `then` as soon as there is room, which may be now."""
        if self.is_full:
            self._room.append(then)
        else:
            then()

    async def flush(self) -> None:
        """Wait until all staged events are durable or have failed. Raises StoreLocked in a forked child."""
        if self._process != os.getpid():  # the task runs on the parent's loop: waiting would never end
            raise StoreLocked("this writer belongs to the process from which this one was forked")
        while self._task is not None:
            await asyncio.wait({self._task})

    async def aclose(self) -> None:
        """Write all staged events and accept no more. Callers that wait for others get StoreFailed."""
        self._is_closed = True
        await self.flush()
        for stream in list(self._streams.values()):
            if stream.is_awaited:
                self._kill(stream, StoreFailed(f"session {stream.session_id}: the writer was closed"))

    # --- writing ------------------------------------------------------------------

    async def _write(self) -> None:
        try:
            if not self._is_hurried:
                await self._gather()
            while self._ready or self._in_doubt:  # events may come while the log is asked
                streams = [stream for stream in self._ready if stream.staged]
                self._ready = []
                if streams:
                    await self._write_batch(streams)
                else:
                    await self._clear_doubts()
        finally:
            self._task = None

    async def _gather(self) -> None:
        """Wait for the events to which the first ones lead."""
        for _ in range(PASSES_MAX):
            before = self.undurable
            await asyncio.sleep(0)
            if self.undurable == before or self.undurable > FEW:
                return

    def _stopped(self, task: "asyncio.Task[None]") -> None:
        """Go on in another task if this one was cancelled, as by the end of `asyncio.run`."""
        if task.cancelled():  # perhaps before its first step, so `_write_batch` does not see it
            self._is_hurried = True
            if self._task is task:
                self._task = None
            if self._task is None and (self._ready or self._in_doubt):
                self._start()

    async def _write_batch(self, streams: list[Stream]) -> None:
        batch = [stream.take() for stream in streams]
        # After a large batch the next `stage` naps at once: sealing it needs the interpreter lock (w1 x0.91).
        # After a small one the thread is soon done, and a nap only holds the loop up (w3 x0.94 without).
        clock = asyncio.get_running_loop().time
        begun = clock()
        self._rested = begun if self.undurable < MANY else 0.0
        try:
            answers: Sequence[Head | Exception] = await self._log.append(batch)
            if len(answers) != len(batch):
                raise StoreFailed(f"the log gave {len(answers)} answers to {len(batch)} appends")
            self.commit_times.append(took := clock() - begun)
            self._on_commit(took, batch)
            self.on_stored(batch)
        except asyncio.CancelledError:  # the store finishes the batch: `_clear_doubts` asks it
            self._is_hurried = True
            self.undurable -= sum(len(part.events) for part in batch)
            self._in_doubt += [
                (stream, part.events[-1].seq) for stream, part in zip(streams, batch, strict=True)
            ]
            raise
        # Not retried: after a failed fsync the state of the disk is unknown. Resume reads the log.
        # https://www.usenix.org/conference/atc20/presentation/rebello
        except Exception as error:
            answers = [error] * len(batch)
        self._settle(streams, batch, answers)

    async def _clear_doubts(self) -> None:
        """Ask the log how far it got with the batches whose task was cancelled."""
        while self._in_doubt:
            stream, seq = self._in_doubt[-1]
            try:
                head = await self._log.head(stream.session_id)
            except Exception as error:
                self._kill(stream, error)
            else:
                self._acknowledge(stream, head if head.seq >= seq else stream.unwritten())
            self._in_doubt.remove((stream, seq))

    def _acknowledge(self, stream: Stream, answer: Head | Exception) -> None:
        if isinstance(answer, Exception):
            self._kill(stream, answer)
        elif stream.error is None:
            stream.head = answer
            stream.wake(answer.seq)
            self._call_back(stream, answer)

    def _settle(
        self, streams: list[Stream], batch: list[Append], answers: Sequence[Head | Exception]
    ) -> None:
        self.undurable -= sum(len(part.events) for part in batch)
        for stream, answer in zip(streams, answers, strict=True):
            self._acknowledge(stream, answer)
        while self._room and not self.is_full:
            self._notify(self._room.popleft(), "going on after a pause")

    def _call_back(self, stream: Stream, head: Head) -> None:
        try:
            stream.on_durable(head)
        except Exception as error:  # which ports were started is unknown now: this session stops here
            failure = SessionFailed(f"session {stream.session_id}: {stream.on_durable!r} raised {error!r}")
            failure.__cause__ = error
            self._kill(stream, failure)

    def _kill(self, stream: Stream, error: Exception) -> None:
        """End a session, unless it is dead already."""
        if stream.error is not None:
            return
        stream.error = error
        self.undurable -= len(stream.staged)
        stream.staged = []
        stream.wake(EVERYTHING)
        told = partial(stream.on_failure, error)
        self._notify(told, f"reporting the death of session {stream.session_id}")

    def _notify(self, callback: Callable[[], None], doing: str) -> None:
        try:
            callback()
        except Exception as error:
            context = {"message": f"callboard: {doing} raised", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)


def _always() -> bool:
    return True
