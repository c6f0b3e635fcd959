"""How actors share an event loop: inboxes, the run_queue that gives each its turn, and ways to wait.

What of an actor has nothing to do with Pykka; `loop_actor` puts it together.

Rules
  - A loop has one run queue. Once per pass it lets the actors that have messages take turns, in the
    order they became ready, until `PASS_MESSAGES_MAX` messages are handled by all of them together. So
    neither one actor nor ten thousand keep the loop from its sockets and timers.
  - What is to be said at the end of a pass (`at_end`) is said when no actor has a message, or enough were
    handled: what many actors decide goes to the log and on to others together, for the price of one.
  - What comes from outside and can wait (the answers of models) is let in when no actor has a message: work
    that was begun is finished before more is begun. Of a thousand agents whose models answer at once, the
    first have asked again before the last are heard, and not all of them wait for the slowest step of all.
  - An inbox is in the order of its posts; its messages are handled one at a time on the loop's thread, in
    the context (`contextvars`) its actor was started in, not in that of whoever posted first.
  - Posts come from any thread, without a lock: a post appends first and looks at the flag after, a turn
    clears the flag first and looks at the queue after, so that one of the two sees the other. When two
    foreign threads both find the flag down, a turn or a pass too many is scheduled and finds less to do.

One `call_soon` per pass and not per message is what makes sparse traffic cheap, the usual case of agents
that wait for models: to 10,000 actors with one message each, a message took 4 us with a handle for each
and takes 1 us with a run queue (`deliver` to an empty handler, CPython 3.11, a small shared machine).
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
"""How many of those that wait for idle actors are let in together: what they lead to is posted together."""

Worker: TypeAlias = Callable[[deque[Any], int], int]
"""Takes at most so many messages from the queue, and says how many it took."""

running_loop = asyncio._get_running_loop
"""`asyncio.get_running_loop`, with None in place of an exception."""

_run_queues: dict[AbstractEventLoop, "RunQueue"] = {}


class RunQueue:
    """Who is next on one loop."""

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
        """Do something as soon as no actor has a message: at once if that is so, else one after the other.

        On the loop's own thread only.
        """
        if self._ready or self._later or self._is_scheduled:
            self._later.append(then)
        else:
            then()

    def at_end(self, then: Callable[[], object]) -> None:
        """Call `then` once, when no actor has a message, or this pass has handled enough of them.

        It may give actors messages; those are handled in the same pass. On the loop's own thread only.
        """
        self._ends.append(then)
        if not self._is_scheduled:
            self._schedule()

    def after_pass(self, then: Callable[[], object]) -> None:
        """Call `then` once, when no `at_end` is left and no actor has a message, or they were enough.

        On the loop's own thread only.
        """
        self._passed.append(then)
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        is_here = running_loop() is self._loop
        try:
            (self._loop.call_soon if is_here else self._loop.call_soon_threadsafe)(self._pass)
        except RuntimeError:  # closed
            self._is_scheduled = False
            raise

    def _pass(self) -> None:
        left, ready, later = PASS_MESSAGES_MAX, self._ready, self._later
        try:
            while True:
                if ready and left > 0:
                    left -= ready.popleft().take_turn(left) or 1  # one without messages may be an `on_start`
                elif self._ends:
                    _call_all(self._ends)
                elif self._passed:
                    _call_all(self._passed)
                elif later and left > 0:
                    for _ in range(min(len(later), LET_IN_MAX, left)):
                        left -= 1
                        later.popleft()()
                else:
                    return
        finally:  # an actor's SystemExit goes through here; the others stay on the rota
            self._is_scheduled = False
            if ready or later or self._ends or self._passed:
                self._schedule()


def _call_all(calls: deque[Callable[[], object]]) -> None:
    """Call those that are there now. If one raises, those behind it stay for the next pass."""
    for _ in range(len(calls)):
        calls.popleft()()


def run_queue_of(loop: AbstractEventLoop) -> RunQueue:
    """The loop's one run_queue."""
    run_queue = _run_queues.get(loop)
    if run_queue is None:
        for closed in [known for known in list(_run_queues) if known.is_closed()]:
            _run_queues.pop(closed, None)
        run_queue = _run_queues.setdefault(loop, RunQueue(loop))
    return run_queue


class LoopInbox:
    """An actor's messages in order. Until it is opened they wait; then its worker handles them in turns."""

    __slots__ = ("_context", "_is_ready", "_queue", "_run_queue", "loop", "worker")

    def __init__(self) -> None:
        self._queue: deque[Any] = deque()
        self._is_ready = True  # as far as posts are concerned, until `open`
        self.loop: AbstractEventLoop | None = None

    def open(self, loop: AbstractEventLoop, worker: Worker) -> None:
        """Ask for a first turn, whether or not there are messages. The worker may be changed later."""
        self.loop, self.worker = loop, worker
        self._context = contextvars.copy_context()
        self._run_queue = run_queue_of(loop)
        self._run_queue.add(self)

    def put(self, item: Any, /) -> None:
        """Append a message; from any thread."""
        self._queue.append(item)
        if not self._is_ready:
            self._is_ready = True
            self._run_queue.add(self)

    def get(self) -> Any:
        """Take the first message out."""
        return self._queue.popleft()

    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._queue

    def take_turn(self, messages_max: int) -> int:
        """Let the worker handle some messages; how many they were."""
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
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self._queue = _NO_MESSAGES

    def put(self, item: Any, /) -> None:
        """Append a message; from any thread."""
        loop = self.loop
        if loop is not None and running_loop() is not loop:
            loop.call_soon_threadsafe(self.put, item)
            return
        if self._queue is _NO_MESSAGES:
            self._queue = deque()
        super().put(item)

    def take_turn(self, messages_max: int) -> int:
        """Let the worker handle some messages; return how many they were."""
        try:
            return super().take_turn(messages_max)
        finally:
            if not self._queue:
                self._queue = _NO_MESSAGES


_NO_MESSAGES: Final[deque[Any]] = deque(maxlen=0)
"""Stands for the queue of every empty `LeanInbox`; it takes nothing in."""


class StopFlag(threading.Event):
    """`actor_stopped` of an actor outside the registry: an Event without a lock of its own.

    An Event takes 1.1 us to make and 1.2 KiB to keep, this a seventh. All share one condition: who waits is
    woken by every stop and looks again, and in a session nobody waits.
    """

    _cond = threading.Condition()

    def __init__(self) -> None:
        self._flag = False

    def wait(self, timeout: float | None = None) -> bool:
        """Block until set; False if the timeout, in seconds, came first."""
        with self._cond:
            return self._cond.wait_for(self.is_set, timeout)


class Gate:
    """Opens once, on any thread; can be awaited on any loop, by many."""

    __slots__ = ("_lock", "_waiters", "is_open")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: set[asyncio.Future[None]] = set()
        self.is_open = False

    def open(self) -> None:
        """Let everybody who waits go on."""
        with self._lock:
            self.is_open = True
            waiters = list(self._waiters)
        for waiter in waiters:
            if running_loop() is (loop := waiter.get_loop()):
                _release(waiter)
            else:
                with contextlib.suppress(RuntimeError):  # closed, so that nobody waits there any more
                    loop.call_soon_threadsafe(_release, waiter)

    def __await__(self) -> Generator[Any, None, None]:
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
    """The given loop, else the one that runs here. Raises MisuseError if there is neither."""
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
            f"{what} would block the event loop that has to answer it, for ever; "
            f"use block=False and await the future, or call from another thread"
        )
