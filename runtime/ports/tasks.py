"""Work for port requests: one task for each request that usually waits, one for many that seldom do.

A task that is cancelled before its first step runs no line of its coroutine and cannot answer. Its request
has certainly not started. `cancel` returns False for it, and its caller answers instead.
"""

import asyncio
import contextvars
import inspect
import logging
import sys
import types
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from typing import Any, Final

import msgspec

from callboard.runtime.scheduling.run_queue import run_queue_of

GRACE_S: Final = 5.0  # seconds that cancelled work has to end when its session closes

_NAME: Final = "callboard port"  # of the tasks: a name for each takes 60 bytes
_ENDED: Final = object()

logger = logging.getLogger("callboard.ports")


class _Piece(msgspec.Struct, eq=False):
    """Work for one request, and the callback for the end of its own task.

    task: the one that steps it, once there is one. context: of work in a shared task. ends_at: the time of
    the loop at which it expires.
    """

    owner: "Tasks"
    seq: int
    work: Coroutine[object, None, None]
    inner: Awaitable[object]
    task: asyncio.Task[object] | None = None
    context: contextvars.Context | None = None
    ends_at: float = 0.0
    is_given_up: bool = False

    # Not a `partial`: it would take 200 bytes more for each of ten thousand calls.
    def __call__(self, task: asyncio.Task[None]) -> None:
        self.owner._ended(self.seq, task)


class Tasks:
    """Work by the seq of its request.

    lost: gets the seq and the exception of work that gave no answer. expired: gets the seq and the limit in
    seconds of work whose time is over, before the work is cancelled. It answers in place of the work, which
    may ignore its cancellation.
    """

    def __init__(
        self,
        lost: Callable[[int, BaseException], None],
        expired: Callable[[int, float], None] = lambda seq, limit_s: None,
    ) -> None:
        self._lost = lost
        self._expired = expired
        self._pieces: dict[int, _Piece] = {}
        self._context = contextvars.copy_context()
        self._limited: dict[float, deque[int]] = {}
        self._timers: dict[float, asyncio.TimerHandle] = {}
        self._line: deque[_Piece] = deque()
        self._stepper: asyncio.Task[None] | None = None

    def spawn(
        self,
        seq: int,
        work: Coroutine[object, object, None],
        inner: Awaitable[object],
        limit_s: float | None = None,
    ) -> None:
        """Run the work for a request; from Python 3.12 on, at once up to its first wait.

        inner: the awaitable inside the work, closed if the work never starts. limit_s: seconds it may take.
        """
        loop = asyncio.get_running_loop()
        if sys.version_info >= (3, 12):
            task = asyncio.Task(work, loop=loop, name=_NAME, eager_start=True)
        else:
            task = loop.create_task(work, name=_NAME)
        if task.done():
            self._ended(seq, task)
            return
        piece = self._pieces[seq] = _Piece(self, seq, work, inner, task=task)
        task.add_done_callback(piece, context=self._context)
        if limit_s is not None:
            self._limit(piece, limit_s, loop)

    # A task costs 7 us to make, schedule and forget, even if its coroutine never waits, as most async tools.
    def spawn_shared(self, seq: int, work: Coroutine[object, object, None], inner: Awaitable[object]) -> None:
        """Run work that seldom waits, from the next pass of the loop on, in a task that it shares.

        One task steps the pieces one after the other. A piece that waits keeps that task for itself, and the
        pieces behind it get another. A piece does not notice that: `asyncio.current_task()` is a task, each
        piece has its own copy of the context variables, and a cancellation reaches the piece it is meant for.
        """
        context = contextvars.copy_context()
        piece = self._pieces[seq] = _Piece(self, seq, work, inner, context=context)
        self._line.append(piece)
        self._step_on()

    def cancel(self, seq: int) -> bool:
        """Cancel the work for a request. Return False for work that is missing or has not begun."""
        piece = self._pieces.get(seq)
        if piece is None:
            return False
        piece.is_given_up = True
        has_begun = inspect.getcoroutinestate(piece.work) != inspect.CORO_CREATED
        if piece.task is not None:
            piece.task.cancel()
        else:  # it stands in line
            del self._pieces[seq]
            piece.work.close()
        if not has_begun and callable(close := getattr(piece.inner, "close", None)):
            close()  # else Python warns that it was never awaited
        return has_begun

    def is_orphaned(self, seq: int) -> bool:
        """Return True in work that was cancelled by others, as by the end of the loop."""
        piece, task = self._pieces.get(seq), asyncio.current_task()
        is_cancelled = task is not None and task.cancelling() > 0
        return is_cancelled and piece is not None and not piece.is_given_up

    @property
    def begun(self) -> list[int]:
        """Return the requests whose work is under way."""
        return list(self._pieces)

    @property
    def running(self) -> set[asyncio.Task[object]]:
        """Return the tasks that work on requests."""
        tasks = {piece.task for piece in self._pieces.values()} | {self._stepper}
        return {task for task in tasks if task is not None}

    def of(self, seqs: Iterable[int]) -> set[asyncio.Task[object]]:
        """Return the tasks that work on some of the requests."""
        pieces = (self._pieces.get(seq) for seq in seqs)
        return {piece.task for piece in pieces if piece is not None and piece.task is not None}

    async def aclose(self) -> None:
        """Cancel all work and wait for its end. Work that ignores that is left after a grace."""
        for timer in self._timers.values():
            timer.cancel()
        running = self.running  # with the shared task, which then finds no work
        for seq in self.begun:
            self.cancel(seq)
        if running:
            _, left = await asyncio.wait(running, timeout=GRACE_S)
            for task in left:
                logger.warning("%r ignores that it was cancelled, and is left behind", task)

    def _ended(self, seq: int, task: "asyncio.Task[None]") -> None:
        self._pieces.pop(seq, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._lost(seq, error)

    # --- limits of time -----------------------------------------------------------

    # Most calls have the same limit, so they expire in the order in which they began: one timer for each
    # limit, set for its first call, is enough for ten thousand calls in flight.
    def _limit(self, piece: _Piece, limit_s: float, loop: asyncio.AbstractEventLoop) -> None:
        piece.ends_at = loop.time() + limit_s
        line = self._limited.setdefault(limit_s, deque())
        line.append(piece.seq)
        if limit_s not in self._timers:
            self._timers[limit_s] = loop.call_at(piece.ends_at, self._expire, limit_s)
        elif len(line) > 64 + 2 * len(self._pieces):  # mostly calls that ended long ago
            self._limited[limit_s] = deque(seq for seq in line if seq in self._pieces)

    def _expire(self, limit_s: float) -> None:
        """Cancel the calls whose time is over and wait for the next."""
        loop, line = asyncio.get_running_loop(), self._limited[limit_s]
        del self._timers[limit_s]
        while line:
            seq = line[0]
            piece = self._pieces.get(seq)
            if piece is not None and piece.ends_at > loop.time():
                self._timers[limit_s] = loop.call_at(piece.ends_at, self._expire, limit_s)
                return
            line.popleft()
            if piece is not None:
                self._expired(seq, limit_s)
                self.cancel(seq)

    # --- the shared task ----------------------------------------------------------

    def _step_on(self) -> None:
        if self._line and self._stepper is None:
            self._stepper = asyncio.get_running_loop().create_task(self._step_all())
            self._stepper.add_done_callback(self._stepper_ended)

    def _stepper_ended(self, task: asyncio.Task[None]) -> None:
        """Cancel all pieces in line if their task was cancelled before its first step."""
        if not task.cancelled():  # else the end of `asyncio.run` has cancelled it
            task.exception()  # marks it as seen: the loop itself has raised an interrupt
        if self._stepper is task:
            self._stepper = None
            for piece in self._line:
                self.cancel(piece.seq)
            self._line.clear()

    async def _step_all(self) -> None:
        """Step the pieces in line, until the line is empty or one of them keeps this task."""
        task = asyncio.current_task()
        assert task is not None
        # The answers of pieces that do not wait, as most, are handled together and in this step of the loop.
        run_queue = run_queue_of(task.get_loop())
        is_held = run_queue.hold()
        piece, waiting = None, _ENDED
        try:
            while waiting is _ENDED and self._line and not task.cancelling():
                piece = self._line.popleft()
                if self._pieces.get(piece.seq) is piece:
                    piece.task = task
                    waiting = self._step(piece, piece.work.send, None)
        finally:
            self._stepper = None
            self._step_on()
            if is_held:
                run_queue.release()
        if piece is not None and waiting is not _ENDED:
            await self._rest_of(piece, waiting)
        # The callback is for a task that ends in another way. Making it takes the loop one more pass.
        task.remove_done_callback(self._stepper_ended)

    def _step(self, piece: _Piece, step: Callable[[Any], object], value: object) -> object:
        """Step a piece to its next wait. Return the object that it waits for, or _ENDED."""
        assert piece.context is not None
        try:
            return piece.context.run(step, value)
        except BaseException as error:
            del self._pieces[piece.seq]
            if isinstance(error, asyncio.CancelledError):
                raise
            if not isinstance(error, StopIteration):
                self._lost(piece.seq, error)
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            return _ENDED

    @types.coroutine
    def _rest_of(self, piece: _Piece, waiting: object) -> Generator[object, None, None]:
        """Run a piece that waits to its end."""
        work = piece.work
        while waiting is not _ENDED:
            try:
                yield waiting
            except BaseException as error:
                waiting = self._step(piece, work.throw, error)
            else:
                waiting = self._step(piece, work.send, None)
