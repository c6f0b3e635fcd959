"""Work for port requests that seldom waits: many pieces share one task.

One task steps the pieces one after the other. A piece that waits keeps that task for itself, and the pieces
behind it get another.

A piece does not notice that: `asyncio.current_task()` is a task, each piece has its own copy of the context
variables, and a cancellation reaches the piece that it is meant for.
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
    """One piece of work. task: the one that steps it, once it has begun."""

    __slots__ = ("context", "inner", "seq", "task", "work")

    def __init__(self, seq: int, work: Coroutine[Any, Any, None], inner: Awaitable[Any]) -> None:
        self.seq = seq
        self.work = work
        self.inner = inner
        self.context = contextvars.copy_context()
        self.task: asyncio.Task[Any] | None = None


# A task costs 7 us to make, schedule and forget, even if its coroutine never waits, as most async tools.
class SharedTasks:
    """Work by the seq of its request. lost: gets the seq and the exception of work that gave no answer."""

    def __init__(self, lost: Callable[[int, BaseException], None]) -> None:
        self._lost = lost
        self._pieces: dict[int, _Piece] = {}
        self._line: deque[_Piece] = deque()
        self._stepper: asyncio.Task[None] | None = None

    def spawn(self, seq: int, work: Coroutine[Any, Any, None], inner: Awaitable[Any]) -> None:
        """Run the work for a request, from the next pass of the loop on.

        inner: the awaitable inside the work, closed if the work never starts.
        """
        piece = self._pieces[seq] = _Piece(seq, work, inner)
        self._line.append(piece)
        self._step_on()

    def cancel(self, seq: int) -> bool:
        """Cancel the work for a request. Return False for work that is missing or has not begun."""
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
        """Cancel all work and wait for its end. Work that ignores the cancellation is left after a grace."""
        tasks = {piece.task for piece in self._pieces.values() if piece.task is not None}
        for seq in list(self._pieces):
            self.cancel(seq)
        if self._stepper is not None:  # it finds no work and ends
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
        """Run one piece. Once it waits, another task steps the others."""
        try:
            waiting = piece.context.run(piece.work.send, None)
            self._stepper = None
            self._step_on()
            await _carried_on(piece, waiting)
        except StopIteration:
            pass  # the end of a piece that did not wait, as most
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
    """Await a coroutine that has begun, in its own context."""
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
