"""The run queue of an event loop: it gives each actor with messages its turn. Also inboxes and gates.

These are the parts of an actor that do not depend on Pykka; `loop_actor` puts them together.

Rules
  - A loop has one run queue. Once per pass the actors that have messages take turns, in the order in which
    they became ready, until all of them together have handled `PASS_MESSAGES_MAX` messages. So neither one
    actor nor ten thousand keep the loop from its sockets and timers.
  - A call of `at_end` is made when no actor has a message or the pass has handled enough. So the decisions of
    many actors go to the log together, for the price of one.
  - A call of `when_idle` (the answers of models) is made when no actor has a message: begun work is finished
    before more begins. When a thousand models answer at once, the first agents have asked again before the
    last are heard.
  - An inbox keeps the order of its posts. Its messages are handled one at a time on the loop's thread, in the
    context (`contextvars`) in which its actor was started; those of a `LeanInbox` in none of its own.
  - Posts come from any thread, without a lock.
"""

import asyncio
import contextlib
import contextvars
import threading
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias

from callboard.actors.protocol.errors import InsideLoop, MisuseError

PASS_MESSAGES_MAX = 64
"""Messages handled per pass of the loop. A pass costs 4 us: 4.2 us a message with 1, 0.37 with 64, 0.22 with
1,024. With handlers of 50 us, 64 let the loop look at its sockets every 3 ms."""

LET_IN_MAX: Final = 32
"""The most calls of `when_idle` made together: the posts that they lead to are published together."""

Worker: TypeAlias = Callable[[deque[object], int], int]
"""Handles at most the given number of messages of a queue, and returns the number handled."""

running_loop = asyncio._get_running_loop
"""`asyncio.get_running_loop`, with None in place of an exception."""

_run_queues: dict[AbstractEventLoop, "RunQueue"] = {}


class RunQueue:
    """The actors of one loop that have messages, in the order of their turns."""

    __slots__ = ("_ends", "_is_scheduled", "_later", "_loop", "_passed", "_ready")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._ready: deque[LoopInbox] = deque()
        self._later: deque[Callable[[], object]] = deque()
        self._ends: deque[Callable[[], object]] = deque()
        self._passed: deque[Callable[[], object]] = deque()
        self._is_scheduled = False

    def add(self, inbox: "LoopInbox") -> None:
        """Give the inbox a turn after those that wait already."""
        self._ready.append(inbox)
        if not self._is_scheduled:
            self._schedule()

    def when_idle(self, then: Callable[[], object]) -> None:
        """Call `then` as soon as no actor has a message, in the order of these requests.

        On the loop's own thread only.
        """
        if self._ready or self._later or self._is_scheduled:
            self._later.append(then)
        else:
            then()

    def at_end(self, then: Callable[[], object]) -> None:
        """Call `then` once, when no actor has a message or this pass has handled enough of them.

        It may post to actors, which handle that in the same pass. On the loop's own thread only.
        """
        self._ends.append(then)
        if not self._is_scheduled:
            self._schedule()

    def after_pass(self, then: Callable[[], object]) -> None:
        """Call `then` once, after all `at_end`, when no actor has a message or the pass has handled enough.

        On the loop's own thread only.
        """
        self._passed.append(then)
        if not self._is_scheduled:
            self._schedule()

    def hold(self) -> bool:
        """Schedule no pass until `release`. Return False, and hold nothing, if one is scheduled already."""
        is_held = not self._is_scheduled
        self._is_scheduled = True
        return is_held

    def release(self) -> None:
        """End a `hold`: make the pass at once, if there is anything to do."""
        self._pass()

    def _schedule(self) -> None:
        # One handle per pass, not per message: with one message for each of 10,000 actors, a message took
        # 4 us with a handle of its own and takes 1 us so (empty handler, CPython 3.11, a shared machine).
        self._is_scheduled = True
        is_here = running_loop() is self._loop
        try:
            (self._loop.call_soon if is_here else self._loop.call_soon_threadsafe)(self._pass)
        except RuntimeError:  # closed
            self._is_scheduled = False
            raise

    def _pass(self) -> None:
        left, ready, later = PASS_MESSAGES_MAX, self._ready, self._later
        ends, passed = self._ends, self._passed
        try:
            while True:
                if ready and left > 0:
                    left -= ready.popleft().take_turn(left) or 1  # one without messages may be an `on_start`
                elif ends:
                    ends.popleft()()
                elif passed:
                    passed.popleft()()
                elif later and left > 0:
                    for _ in range(min(len(later), LET_IN_MAX, left)):
                        left -= 1
                        later.popleft()()
                else:
                    return
        finally:  # an actor's SystemExit goes through here; the others stay in the queue
            self._is_scheduled = False
            if ready or later or ends or passed:
                self._schedule()


def run_queue_of(loop: AbstractEventLoop) -> RunQueue:
    """Return the one run queue of a loop."""
    run_queue = _run_queues.get(loop)
    if run_queue is None:
        for closed in [known for known in list(_run_queues) if known.is_closed()]:
            _run_queues.pop(closed, None)
        run_queue = _run_queues.setdefault(loop, RunQueue(loop))
    return run_queue


class LoopInbox:
    """An actor's messages in order. They wait until it is opened; then its worker handles them in turns."""

    __slots__ = ("_context", "_is_ready", "_queue", "_run_queue", "loop", "worker")

    def __init__(self) -> None:
        self._queue: deque[object] = deque()
        self._is_ready = True  # as far as posts are concerned, until `open`
        self.loop: AbstractEventLoop | None = None

    def open(self, loop: AbstractEventLoop, worker: Worker) -> None:
        """Ask for a first turn, even without messages.

        worker: handles the messages. It may be replaced later.
        """
        # Not the context of the first post: that caller's variables are not a concern of the actor.
        self._context = contextvars.copy_context()
        self._join(loop, worker)

    def _join(self, loop: AbstractEventLoop, worker: Worker) -> None:
        self.loop, self.worker = loop, worker
        self._run_queue = run_queue_of(loop)
        self._run_queue.add(self)

    def put(self, item: object, /) -> None:
        """Append a message; from any thread."""
        # Append first, read the flag after. A turn clears the flag first and reads the queue after. So one of
        # the two sees the other, without a lock; two threads at once may schedule one turn too many.
        self._queue.append(item)
        if not self._is_ready:
            self._is_ready = True
            self._run_queue.add(self)

    def get(self) -> Any:
        """Remove the first message and return it."""
        return self._queue.popleft()

    def empty(self) -> bool:
        """Return True if no message waits."""
        return not self._queue

    def take_turn(self, messages_max: int) -> int:
        """Let the worker handle at most `messages_max` messages. Return the number handled."""
        try:
            return self._context.run(self.worker, self._queue, messages_max)
        finally:
            self._is_ready = False
            if self._queue:
                self._is_ready = True
                self._run_queue.add(self)


class LeanInbox(LoopInbox):
    """An inbox that holds no queue while it is empty, for actors that are many and mostly idle.

    An empty deque takes 760 bytes. It can be left out only if all messages arrive on the loop's thread, so
    messages from other threads are passed on to the loop first, in their order.

    Its worker must read no context variable: it has no context of its own.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self._queue = _NO_MESSAGES

    def open(self, loop: AbstractEventLoop, worker: Worker) -> None:
        """Ask for a first turn, even without messages. worker: handles the messages."""
        self._join(loop, worker)

    def put(self, item: object, /) -> None:
        """Append a message; from any thread."""
        loop = self.loop
        if loop is not None and running_loop() is not loop:
            loop.call_soon_threadsafe(self.put, item)
        else:
            self.put_here(item)

    def put_here(self, item: object, /) -> None:
        """Append a message; on the loop's own thread only."""
        # Not `super().put`: these few lines run for every event of a session.
        if self._queue is _NO_MESSAGES:
            self._queue = deque()
        self._queue.append(item)
        if not self._is_ready:
            self._is_ready = True
            self._run_queue.add(self)

    def take_turn(self, messages_max: int) -> int:
        """Let the worker handle some messages; return how many they were."""
        try:
            return self.worker(self._queue, messages_max)
        finally:
            if self._queue:
                self._run_queue.add(self)
            else:
                self._queue, self._is_ready = _NO_MESSAGES, False


_NO_MESSAGES: Final[deque[object]] = deque(maxlen=0)
"""Stands for the queue of every empty `LeanInbox`; it takes nothing in."""


class StopFlag(threading.Event):
    """`actor_stopped` of an actor outside the registry: an Event without a lock of its own.

    An Event takes 1.1 us to make and 1.2 KiB to keep, a StopFlag a seventh.
    """

    # Shared by all flags: every stop wakes every waiting thread, but in a session no thread waits.
    _cond = threading.Condition()

    def __init__(self) -> None:
        self._flag = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until set. Return False if the timeout, in seconds, comes first."""
        with self._cond:
            return self._cond.wait_for(self.is_set, timeout)


class Gate:
    """A gate that opens once, on any thread, and can be awaited by many tasks, on any loop."""

    __slots__ = ("_lock", "_waiters", "is_open")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: set[asyncio.Future[None]] = set()
        self.is_open = False

    def open(self) -> None:
        """Open the gate and wake every task that waits."""
        with self._lock:
            self.is_open = True
            waiters = list(self._waiters)
        for waiter in waiters:
            if running_loop() is (loop := waiter.get_loop()):
                _release(waiter)
            else:
                with contextlib.suppress(RuntimeError):  # closed, so that no task waits there any more
                    loop.call_soon_threadsafe(_release, waiter)

    def __await__(self) -> Generator[object, None, None]:
        with self._lock:
            if self.is_open:
                return
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
        try:
            yield from waiter
        finally:
            with self._lock:
                self._waiters.discard(waiter)


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():  # it may be cancelled
        waiter.set_result(None)


def loop_for(actor: type, given: AbstractEventLoop | None) -> AbstractEventLoop:
    """Return the given loop, else the one that runs here. Raises MisuseError without either."""
    if (loop := given or running_loop()) is not None:
        return loop
    raise MisuseError(
        f"{actor.__name__}: no event loop is running here; start the actor inside one or set event_loop"
    )


def refuse_to_block(loop: AbstractEventLoop | None, what: str) -> None:
    """Raise InsideLoop if `loop` runs on this thread, or if some loop does and `loop` is unknown."""
    running = running_loop()
    if running is not None and (loop is None or loop is running):
        raise InsideLoop(
            f"{what} would block the event loop that has to answer it, forever; "
            f"use block=False and await the future, or call from another thread"
        )
