"""Work for port requests that seldom waits: many pieces of it share one task.

A task costs 7 us to make, schedule and forget, even if its coroutine never waits, and most tools that are
coroutines never do. So pieces are stepped one after the other by one task. One that really waits keeps that
task for itself, and what is behind it gets another.

To the work that is no difference: `asyncio.current_task()` is a task, each piece has a copy of its own of
the context variables, and a cancellation reaches the one it is meant for.
"""

import asyncio
import contextvars
import logging
import types
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

from callboard.runtime.ports.tasks import GRACE_S, close_unawaited

logger = logging.getLogger("callboard.ports")


class _Piece:
    """One piece of work. task: that steps it, once it has begun."""

    __slots__ = ("context", "inner", "seq", "task", "work")

    def __init__(self, seq: int, work: Coroutine[Any, Any, None], inner: Awaitable[Any]) -> None:
        self.seq = seq
        self.work = work
        self.inner = inner
        self.context = contextvars.copy_context()
        self.task: asyncio.Task[Any] | None = None


class SharedTasks:
    """Work by the seq of its request. lost: told of work that ended without having answered, and why."""

    def __init__(self, lost: Callable[[int, BaseException], None]) -> None:
        self._lost = lost
        self._pieces: dict[int, _Piece] = {}
        self._line: deque[_Piece] = deque()
        self._stepper: asyncio.Task[None] | None = None

    def spawn(self, seq: int, work: Coroutine[Any, Any, None], inner: Awaitable[Any]) -> None:
        """Run the work for a request, from the next pass of the loop on.

        inner: what the work awaits, to be closed if the work never starts.
        """
        piece = self._pieces[seq] = _Piece(seq, work, inner)
        self._line.append(piece)
        self._step_on()

    def cancel(self, seq: int) -> bool:
        """Give up what runs for a request; False if nothing does, or if it has not begun."""
        piece = self._pieces.get(seq)
        if piece is None:
            return False
        if piece.task is not None:
            piece.task.cancel()
            return True
        del self._pieces[seq]
        piece.work.close()
        close_unawaited(piece.inner)
        return False

    async def aclose(self) -> None:
        """Give up all, and wait until it is over; what ignores that is left behind after a grace."""
        tasks = {piece.task for piece in self._pieces.values() if piece.task is not None}
        for seq in list(self._pieces):
            self.cancel(seq)
        if self._stepper is not None:  # it finds nothing to do
            tasks.add(self._stepper)
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=GRACE_S)
            for task in left:
                logger.warning("%r ignores that it was cancelled, and is left behind", task)

    def _step_on(self) -> None:
        if self._line and self._stepper is None:
            self._stepper = asyncio.get_running_loop().create_task(self._step_all())
            self._stepper.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """If it was cancelled before its first step, as by the end of `asyncio.run`, so are all in line."""
        if not task.cancelled():
            task.exception()  # an interrupt, which the loop has raised: it is not lost
        if self._stepper is task:
            self._stepper = None
            for piece in self._line:
                self.cancel(piece.seq)
            self._line.clear()

    async def _step_all(self) -> None:
        """Step the pieces in line, until there are none or one of them keeps this task."""
        task = asyncio.current_task()
        assert task is not None
        try:
            while self._line and not task.cancelling():
                piece = self._line.popleft()
                if self._pieces.get(piece.seq) is piece:
                    piece.task = task
                    await self._stepped(piece)
                    if self._stepper is not task:
                        return
        finally:
            if self._stepper is task:
                self._stepper = None
            self._step_on()

    async def _stepped(self, piece: _Piece) -> None:
        """Run one piece. As soon as it waits, the others are somebody else's."""
        try:
            waiting = piece.context.run(piece.work.send, None)
            self._stepper = None
            self._step_on()
            await _carried_on(piece, waiting)
        except StopIteration:
            pass  # it has ended without waiting, as most do
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._lost(piece.seq, error)
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
        finally:
            self._pieces.pop(piece.seq, None)


@types.coroutine
def _carried_on(piece: _Piece, waiting: object) -> Generator[object, None, None]:
    """Do for a coroutine that has begun what `await` does, in its own context."""
    work, run = piece.work, piece.context.run
    try:
        while True:
            try:
                yield waiting
            except BaseException as error:
                waiting = run(work.throw, error)
            else:
                waiting = run(work.send, None)
    except StopIteration:
        return
