"""Pipelined group commit: what is posted while one batch is written becomes the next batch.

Rules
  - `stage` never waits: it notes the events and, if nothing is being written, has writing start in one of
    the next passes of the loop. No timers: a single event is written at once, and the busier the disk, the
    larger the batches (one fsync for all of them: 693 events/s one by one, 39,000 in batches of 128).
  - What one call of `stage` hands in is in one batch, in one transaction: the outputs of a decision are
    never split.
  - A session that the log refuses is dead here, and only that one; when the whole batch fails, every session
    in it is. Whoever waits gets the error, what was staged is dropped, and staging more raises it again.
    Nothing is retried: after a failed fsync nobody can say what is on the disk
    (https://www.usenix.org/conference/atc20/presentation/rebello). Resume reads the log.
  - There is a task only while there is something to write, so none is left over when a loop ends.
  - A loop that is never idle gives way to the store's thread (see `GIVE_WAY_EVERY_S`).

Use it on one event loop. It does not own the log: open it before, close it after `aclose`.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from callboard.actors.protocol.errors import Fenced, SessionFailed, SessionNotFound, StoreFailed, StoreLocked
from callboard.actors.protocol.events import Event
from callboard.runtime.log.protocol import EMPTY, Append, EventLog, Head
from callboard.runtime.log.stream import EVERYTHING, OnDurable, OnFailure, Stream, release

UNDURABLE_MAX: Final = 8_192
"""Events that may wait for the disk, over all sessions; beyond that `is_full`, and ports pause."""

PASSES_MAX: Final = 3
FEW: Final = 64
"""For how many passes of the loop a batch of few events is kept open while more come in: one event leads to
the next, and a commit for each would make whoever waits for the last one wait for all of them. The close of
a session is one commit with it and two without, 0.6 ms each; a pass of an idle loop takes 0.02 ms.
"""

GIVE_WAY_EVERY_S: Final = 0.005
GIVE_WAY_FOR_S: Final = 0.000_05
"""How often, and for how long at least, `stage` naps while a commit is under way: some 100 us in 5 ms.

The store's thread needs the interpreter lock between its calls into SQLite. A thread that waits for it may
demand it after 5 ms, but only if the holder did not let go meanwhile, and a busy event loop lets go and
takes it back within a microsecond at every poll: less than another thread needs to wake up. Measured with
a loop that polls every 0.8 ms, two cores, load 2.6: single commits of 4.4 s, 0.65 s the median of 16
events; with naps every 5 ms 0.14 s at most, 4 ms the median. A hundred agents whose models answer at once
take 5 % longer with naps every 3 ms, and 4 % longer with one every 20 ms, since then more is left to write
when they are done. A batch that was just handed over need not wait for its nap. The interpreter's own 5 ms
are `sys.getswitchinterval()`.
"""


class GroupWriter:
    """Writes the events of many sessions in common batches.

    on_failure: told of every session that dies, with its id and the error, unless it was forgotten or
    attached anew. undurable_max: when `is_full`.
    """

    def __init__(
        self,
        log: EventLog,
        on_failure: Callable[[str, Exception], None] | None = None,
        undurable_max: int = UNDURABLE_MAX,
    ) -> None:
        self._log = log
        self._on_failure = on_failure
        self._undurable_max = undurable_max
        self._streams: dict[str, Stream] = {}
        self._ready: list[Stream] = []
        self._task: asyncio.Task[None] | None = None
        self._room: deque[Callable[[], None]] = deque()
        self._gave_way = 0.0
        self._nobody = threading.Lock()
        self._nobody.acquire()
        self._is_closed = False
        self._process = os.getpid()
        self.undurable = 0
        """Events that were staged and are not durable yet."""

    # --- sessions -----------------------------------------------------------------

    def attach(self, session_id: str, epoch: int, head: Head = EMPTY) -> None:
        """Begin to write a session that ends at `head`; whoever writes it under an earlier epoch is fenced.

        A new session needs no `attach`; one that was taken over does, with what `take_over` gave.
        """
        former = self._streams.get(session_id)
        self._streams[session_id] = Stream(session_id, epoch, head)
        if former is not None and former.error is None:
            self._kill(former, Fenced(f"session {session_id} was taken over under epoch {epoch}"))

    def on_durable(self, session_id: str, callback: OnDurable, on_failure: OnFailure | None = None) -> None:
        """Have `callback(head)` called after every commit, and `on_failure(error)` if the session dies.

        A session that was not attached is taken for an empty one, whose epoch the first `stage` tells.
        """
        stream = self._streams.setdefault(session_id, Stream(session_id, 0, EMPTY))
        stream.check()
        stream.callbacks.append(callback)
        if on_failure is not None:
            stream.failures.append(on_failure)

    def forget(self, session_id: str) -> None:
        """Drop what is known of a session. What was staged is still written; no callback hears of it.

        Whoever still waits for one of its events gets SessionFailed.
        """
        stream = self._streams.pop(session_id, None)
        if stream is not None:
            stream.callbacks.clear()
            stream.failures.clear()
            stream.wake(EVERYTHING)

    # --- staging and waiting ------------------------------------------------------

    def stage(self, session_id: str, epoch: int, events: Sequence[Event]) -> None:
        """Have these events written, all in one batch.

        Raises what the session died of, Fenced for another epoch than its own, StoreFailed after `aclose`.
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
        self.undurable += len(events)
        if self._task is None:
            self._begin()
        else:
            self._give_way()

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._gave_way = loop.time()
        self._task = loop.create_task(self._write(), name="callboard group writer")
        self._task.add_done_callback(self._stopped)

    def _usable(self, session_id: str, epoch: int) -> Stream:
        stream = self._streams.setdefault(session_id, Stream(session_id, epoch, EMPTY))
        stream.epoch = stream.epoch or epoch
        if self._is_closed or stream.error is not None or epoch != stream.epoch:
            raise self._refusal(stream, epoch)
        return stream

    def _give_way(self) -> None:
        """Let the store's thread have the interpreter, if it has waited long enough."""
        now = asyncio.get_running_loop().time()
        if now - self._gave_way > GIVE_WAY_EVERY_S:
            self._nobody.acquire(timeout=GIVE_WAY_FOR_S)  # in vain: half the steps of `Event.wait`
            self._gave_way = now

    def _refusal(self, stream: Stream, epoch: int) -> Exception:
        if stream.error is not None:
            return stream.error.with_traceback(None)
        if self._is_closed:
            return StoreFailed(f"session {stream.session_id}: the writer is closed, nothing more is stored")
        return Fenced(f"session {stream.session_id} is written under epoch {stream.epoch}, not {epoch}")

    def durable(self, session_id: str) -> Head:
        """Up to where the session is on disk. Raises SessionNotFound."""
        return self._known(session_id).head

    async def wait(self, session_id: str, seq: int) -> Head:
        """Wait until the session is durable up to `seq`. Raises what it died of, if it does not get there."""
        return await self._known(session_id).wait(seq)

    @property
    def is_full(self) -> bool:
        """Whether so much waits for the disk that ports should start nothing new."""
        return self.undurable >= self._undurable_max

    def when_room(self, then: Callable[[], None]) -> None:
        """Call `then` once there is room: now, or in the pass of the loop in which that comes about."""
        if self.is_full:
            self._room.append(then)
        else:
            then()

    async def wait_room(self) -> None:
        """Wait until it is no longer full."""
        while self.is_full:
            future = asyncio.get_running_loop().create_future()
            self.when_room(partial(release, future))
            await future

    async def flush(self) -> None:
        """Wait until everything staged so far is durable, or has failed."""
        if self._process != os.getpid():  # its tasks run on the parent's loop: waiting would never end
            raise StoreLocked("this writer belongs to the process from which this one was forked")
        while self._task is not None:
            await asyncio.wait({self._task})

    async def aclose(self) -> None:
        """Write what is staged and accept no more. Whoever waits for what never came gets StoreFailed."""
        self._is_closed = True
        await self.flush()
        for stream in list(self._streams.values()):
            if stream.error is None and stream.is_awaited:
                self._kill(stream, StoreFailed(f"session {stream.session_id}: the writer was closed"))

    def _known(self, session_id: str) -> Stream:
        stream = self._streams.get(session_id)
        if stream is None:
            raise SessionNotFound(f"session {session_id!r} is not written here; stage or attach it first")
        return stream

    # --- writing ------------------------------------------------------------------

    async def _write(self) -> None:
        try:
            await self._gather()
            while self._ready:
                streams = [stream for stream in self._ready if stream.staged]
                self._ready = []
                if streams:
                    await self._write_batch(streams)
        finally:
            self._task = None

    async def _gather(self) -> None:
        """Let what the first events lead to come in."""
        for _ in range(PASSES_MAX):
            before = self.undurable
            await asyncio.sleep(0)
            if self.undurable == before or self.undurable > FEW:
                return

    def _stopped(self, task: "asyncio.Task[None]") -> None:
        """Writing was cancelled, as by the end of `asyncio.run`, perhaps before its first step."""
        if task.cancelled():
            self._is_closed = True
            self._task = None
            for stream in list(self._streams.values()):
                if stream.error is None:
                    self._kill(stream, stream.cut_short())

    async def _write_batch(self, streams: list[Stream]) -> None:
        batch = [stream.take() for stream in streams]
        self._gave_way = 0.0
        try:
            answers: Sequence[Head | Exception] = await self._log.append(batch)
            if len(answers) != len(batch):
                raise StoreFailed(f"the log gave {len(answers)} answers to {len(batch)} appends")
        except asyncio.CancelledError:
            self._settle(streams, batch, [stream.cut_short() for stream in streams])
            raise
        except Exception as error:
            answers = [error] * len(batch)
        self._settle(streams, batch, answers)

    def _settle(
        self, streams: list[Stream], batch: list[Append], answers: Sequence[Head | Exception]
    ) -> None:
        """Tell everybody what became of a batch."""
        self.undurable -= sum(len(part.events) for part in batch)
        for stream, answer in zip(streams, answers, strict=True):
            if stream.error is not None:
                continue
            if isinstance(answer, Exception):
                self._kill(stream, answer)
            else:
                stream.head = answer
                stream.wake(answer.seq)
                self._call_back(stream, answer)
        while self._room and not self.is_full:
            self._tell(self._room.popleft(), "going on after a pause")

    def _call_back(self, stream: Stream, head: Head) -> None:
        for callback in tuple(stream.callbacks):
            try:
                callback(head)
            except Exception as error:  # who started what is not known any more: this session stops here
                failure = SessionFailed(f"session {stream.session_id}: {callback!r} raised {error!r}")
                failure.__cause__ = error
                self._kill(stream, failure)
                return

    def _kill(self, stream: Stream, error: Exception) -> None:
        """Give a session up: drop what is staged and tell whoever waits."""
        stream.error = error
        self.undurable -= len(stream.staged)
        stream.staged = []
        stream.wake(EVERYTHING)
        for failure in tuple(stream.failures):
            self._tell(partial(failure, error), f"telling that session {stream.session_id} died")
        if self._on_failure is not None and self._streams.get(stream.session_id) is stream:
            self._tell(partial(self._on_failure, stream.session_id, error), "telling that a session died")

    def _tell(self, callback: Callable[[], None], doing: str) -> None:
        """Call back; what that raises is reported and stops nothing."""
        try:
            callback()
        except Exception as error:
            context = {"message": f"callboard: {doing} raised", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
