"""The event loop of one run of a program: the same input gives the same order, in every process.

Rules
  - It runs only inside `run_step`, on the thread of the session's loop, until nothing is ready. Then it fires
    the timers that are due, one deadline after the other, and runs until nothing is ready after each.
  - Callbacks run first in, first out. Tasks and futures hash by the number of their creation, so that a set
    of them iterates alike in every process. Python's own would hash by their place in memory.
  - Its time is the time of the step, in seconds since the run began, and stands still within a step. The
    times that are left out are not part of it: a timer set before one is due that much later by the clock. A
    timer for a time of day is not.
  - No sockets, files, threads or subprocesses: each such method raises and names what to write instead.
  - Garbage is not collected inside a step: the moment of a collection is chance, and a finalizer can act.
"""

import asyncio
import contextvars
import functools
import gc
import heapq
import logging
import math
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple, Unpack

from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.failure_text import failure_text
from callboard.runtime.programs.refused_methods import IO, lacking, refusal_of

if TYPE_CHECKING:  # at run time its attributes would cost each parked program a kilobyte
    _Base = asyncio.BaseEventLoop
else:
    _Base = asyncio.AbstractEventLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

CALLBACKS_MAX: Final = 1_000_000
"""Callbacks of one step. A gather of a thousand delegations needs about ten thousand."""

_SALT_BITS: Final = 16  # the creation number stands below; few programs make more tasks in one set
_CANCELLED_TIMERS: Final = 64  # kept in the heap at most, beside half of the timers
_SHOWN_CHARS: Final = 200

logger = logging.getLogger("callboard.programs")


class EndlessStep(MisuseError):
    """A step of a program that does not come to rest."""


class ProgramTask(asyncio.Task[T]):
    """A task that hashes by its number."""

    def __init__(self, coroutine: Coroutine[object, None, T], number: int, **options: Any) -> None:
        self._number = number  # first: the base puts the task into a set
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


class ProgramFuture(asyncio.Future[T]):
    """A future that hashes by its number."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class ClockTimer(asyncio.TimerHandle):
    """A timer for a time of day. `when` counts the times that are left out."""

    __slots__ = ()


class ProgramLoop(_Base):
    """The loop of one run. salt: of the run; it keeps the tasks of many runs apart in Python's own sets.

    runs_functions: True for a brain, whose framework runs functions by `run_in_executor`. runs_function: runs
    one of them, if it may wait for an answer meanwhile.
    refused: the first refusal of I/O, which a framework may have caught.
    """

    def __init__(self, salt: int = 0) -> None:  # the base's would open a selector
        self.runs_functions = False
        self.runs_function: Callable[[Callable[[], object], asyncio.Future[Any]], None] | None = None
        self.refused: MisuseError | None = None
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._cancelled_timers = 0
        self._numbers = salt << _SALT_BITS
        self._made = 0
        self._tasks: list[asyncio.Task[object]] = []
        self._prune_at = 16
        self._is_stepping = False
        self._is_over = False
        self._context = contextvars.Context()
        self._ms = 0
        self._left_out_ms = 0

    # --- one step -------------------------------------------------------------------

    def run_step(
        self,
        ms: int,
        begin: Callable[[], object],
        *,
        left_out_ms: int = 0,
        fires: bool = True,
        callbacks_max: int = CALLBACKS_MAX,
    ) -> None:
        """Run one step: `begin`, then all that is ready, then the due timers.

        ms: its time by the clock, in milliseconds since the run began. left_out_ms: how much of that is left
        out; less than before changes nothing. fires: False leaves timers alone.
        Raises EndlessStep for a step that runs more than `callbacks_max` callbacks.
        """
        self._set_time(ms, left_out_ms)
        outer = asyncio._get_running_loop()
        task = asyncio.current_task(outer) if outer is not None else None
        hooks, collects = sys.get_asyncgen_hooks(), gc.isenabled()
        if outer is not None and task is not None:
            asyncio._leave_task(outer, task)
        gc.disable()
        sys.set_asyncgen_hooks(None, self._close_generator)
        asyncio._set_running_loop(self)
        self._is_stepping = True
        try:
            self._context.run(begin)
            left = self._run_ready(callbacks_max)
            while fires and self._fire_deadline():
                left = self._run_ready(left)
        finally:
            self._is_stepping = False
            asyncio._set_running_loop(outer)
            sys.set_asyncgen_hooks(*hooks)
            if collects:
                gc.enable()
            if outer is not None and task is not None:
                asyncio._enter_task(outer, task)

    def _set_time(self, ms: int, left_out_ms: int) -> None:
        # The time of the loop never goes back, though the machine's clock may have.
        most = self._left_out_ms + max(0, ms - self._ms)
        self._ms = ms
        left_out_ms = min(left_out_ms, most)
        if left_out_ms > self._left_out_ms:
            self._left_out_ms = left_out_ms
            self._timers = [(self._due(timer), number, timer) for _, number, timer in self._timers]
            heapq.heapify(self._timers)

    def _due(self, timer: asyncio.TimerHandle) -> float:
        """Return when a timer is due by the clock, in seconds since the run began."""
        return timer.when() + (0 if isinstance(timer, ClockTimer) else self._left_out_ms / 1_000)

    def _run_ready(self, left: int) -> int:
        ready = self._ready
        while ready:
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()
            left -= 1
            if left < 0:
                raise EndlessStep(
                    "the step never ends: it loops without waiting for anything, as with "
                    "asyncio.sleep(0); wait for an ask or for a time, as with ctx.sleep(1)"
                )
        return left

    def _fire_deadline(self) -> bool:
        """Make the timers of the earliest deadline ready, if it is due."""
        due = self.wake_ms
        if due is None or due > self._ms:
            return False
        when = self._timers[0][0]
        while self._timers and self._timers[0][0] == when:
            self._fire(heapq.heappop(self._timers)[2])
        return True

    def _fire(self, handle: asyncio.TimerHandle) -> None:
        handle._scheduled = False  # type: ignore[attr-defined]  # as each loop does: it tells `cancel`
        if handle.cancelled():
            self._cancelled_timers -= 1
        else:
            self._ready.append(handle)

    @property
    def wake_ms(self) -> int | None:
        """Return the earliest deadline by the clock, in milliseconds since the run began; None for none."""
        self._forget_cancelled()
        return due_ms(self._timers[0][0]) if self._timers else None

    @property
    def live_tasks(self) -> list[asyncio.Task[object]]:
        """Return the tasks that have not ended, in the order of their creation."""
        return [task for task in self._tasks if not task.done()]

    def close_tasks(self) -> None:
        """Close the coroutines of the tasks that live. Call it as the `begin` of a step."""
        for task in self.live_tasks:
            task.cancel()  # its future forgets it; the handle that wakes it is dropped below
            coroutine = task.get_coro()
            try:
                if coroutine is not None:
                    coroutine.close()
            except Exception as error:
                logger.warning("a program is closed: %s", failure_text(error))
        self._ready.clear()

    def end(self) -> None:
        """Run nothing any more. Forget the tasks, which may live."""
        self._is_over = True
        self._tasks.clear()
        self._ready.clear()
        self._timers.clear()

    # --- the parts of a loop that asyncio uses -----------------------------------------

    def time(self) -> float:
        """Return the time of the step, in seconds since the run began, without those left out."""
        return (self._ms - self._left_out_ms) / 1_000

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Run a callback in this step. Outside a step only an ended run takes one, and forgets it."""
        handle = asyncio.Handle(callback, args, self, context)
        if self._is_stepping:
            self._ready.append(handle)
        elif not self._is_over:
            raise MisuseError(
                "a program runs only while it handles an answer: nothing else may set its events, futures "
                "and queues; let a tool return the value, and await ctx.call(tool)"
            )
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback in the first step that is this many seconds later, or more."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback in the first step at this time or later."""
        if not math.isfinite(when):
            raise MisuseError(f"a program cannot wait until {when!r}; give a number of seconds")
        return self._add(asyncio.TimerHandle(when, callback, args, self, context))

    def call_by_clock(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts
    ) -> asyncio.TimerHandle:
        """Run a callback in the first step that is this many seconds later by the clock, or more."""
        return self._add(ClockTimer(self._ms / 1_000 + delay, callback, args, self))

    def _add(self, timer: asyncio.TimerHandle) -> asyncio.TimerHandle:
        timer._scheduled = True  # type: ignore[attr-defined]  # a private part of asyncio
        heapq.heappush(self._timers, (self._due(timer), self._number(), timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if not handle._scheduled:  # type: ignore[attr-defined]  # a private part of asyncio
            return
        self._cancelled_timers += 1
        if self._cancelled_timers > max(_CANCELLED_TIMERS, len(self._timers) // 2):
            self._timers = [timer for timer in self._timers if not timer[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled_timers = 1  # this one, which is marked as cancelled after this call

    def _forget_cancelled(self) -> None:
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
            self._cancelled_timers -= 1

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future with the next number."""
        return ProgramFuture(self._number(), self)

    def create_task(
        self, coro: Any, *, name: object = None, context: contextvars.Context | None = None, **options: Any
    ) -> asyncio.Task[Any]:
        """Make a task with the next number, which is its name, too, if it gets no other."""
        number = self._number()
        called = f"Task-{self._made}" if name is None else str(name)
        task: asyncio.Task[Any] = ProgramTask(
            coro, number, loop=self, name=called, context=context, **options
        )
        # A run says itself which tasks it abandons; at the end of a process it is dropped with its tasks.
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # a private part of asyncio
        if len(self._tasks) >= self._prune_at:
            self._tasks = self.live_tasks
            self._prune_at = 2 * len(self._tasks) + 16
        self._tasks.append(task)
        return task

    def _number(self) -> int:
        self._made += 1
        return self._numbers + self._made

    def get_debug(self) -> bool:
        """Return False: the source of each future would be kept."""
        return False

    def get_task_factory(self) -> None:
        """Return None: the loop alone makes tasks. Libraries ask for it before they make their own."""
        return

    def run_in_executor(
        self, executor: object, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run a function at once, in this step, if the program is a brain. Else raises MisuseError.

        A framework leads its synchronous functions here: they are steps of the brain like the others.
        """
        if not self.runs_functions:
            raise refusal_of("run_in_executor")
        future: asyncio.Future[T] = self.create_future()
        if self.runs_function is not None:
            self.runs_function(functools.partial(func, *args), future)
            return future
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Run a callback in this step, for a brain on its own thread. Else raises MisuseError."""
        if not self.runs_functions or asyncio._get_running_loop() is not self:
            raise refusal_of("call_soon_threadsafe")
        return self.call_soon(callback, *args, context=context)

    def is_running(self) -> bool:
        """Return True inside a step."""
        return self._is_stepping

    def is_closed(self) -> bool:
        """Return True once the run has ended."""
        return self._is_over

    def call_exception_handler(self, context: dict[str, object]) -> None:
        """Log the error of a callback, or of a task whose error no one awaited."""
        error = context.get("exception")
        told = f": {failure_text(error)}" if isinstance(error, BaseException) else ""
        logger.warning("in a program: %s%s", context.get("message", "an error"), told)

    def _close_generator(self, generator: AsyncGenerator[object, object]) -> None:
        self.create_task(generator.aclose())


def due_ms(when: float) -> int:
    """Return the first whole millisecond at which a deadline of the loop is due."""
    return math.ceil(round(when * 1_000, 6))  # a sum of seconds is off by a part of a nanosecond


def _refused(name: str) -> Callable[..., object]:
    def refuse(self: ProgramLoop, *args: object, **options: object) -> object:
        error = refusal_of(name)
        if lacking(name) == IO:  # libraries look for settings of a loop, and do without them
            self.refused = self.refused or error
        raise error

    refuse.__doc__ = f"Refuse {name}. Raises MisuseError."
    return refuse


for _name in dir(asyncio.AbstractEventLoop):
    if not _name.startswith("_") and _name not in vars(ProgramLoop):
        setattr(ProgramLoop, _name, _refused(_name))
