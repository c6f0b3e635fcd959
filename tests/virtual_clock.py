"""Live sessions on a virtual clock: when nothing is ready, the time jumps to the next timer.

So a test of waits takes no time of its own, and its figures are exact however busy the machine is. The
sessions are real ones. The time stands while an executor of the loop works, a check of programs, a tool that
is not async or a check of a report. It does not wait for other threads and for processes, so that the log
must be in memory, and no schema so large or so broken that a worker checks it.
"""

import asyncio
import selectors
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

import pytest

from callboard.runtime import clock
from callboard.runtime.programs.session_check import CHECK_THREAD
from callboard.runtime.tools.threads import Job, Threads

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Time:
    """Stands for the module `time` in the clock of the runtime."""

    strftime = staticmethod(time.strftime)
    gmtime = staticmethod(time.gmtime)

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop
        self._began = time.time_ns() - round(loop.time() * 1e9)

    def time_ns(self) -> int:
        return self._began + self.monotonic_ns()

    def monotonic_ns(self) -> int:
        return round(self._loop.time() * 1_000_000) * 1_000


_POLL_S: Final = 0.01  # real seconds between two looks at a thread, which does not tell that it has stopped


class _Selector(selectors.DefaultSelector):
    """Waits for executors and for threads at work only; instead the time jumps."""

    def __init__(self, jump: Callable[[float], None]) -> None:
        super().__init__()
        self._jump = jump
        self.in_executors = 0
        self.jobs: list[Job] = []

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or self.in_executors:
            return super().select(None if timeout else timeout)
        if timeout > 0 and self._is_a_thread_at_work():
            return super().select(_POLL_S)
        found = super().select(0)
        if not found and timeout > 0:
            self._jump(timeout)
        return found

    def _is_a_thread_at_work(self) -> bool:
        self.jobs = [job for job in self.jobs if not job.is_done and not job.is_given_up]
        return bool(self.jobs) or any(one.name == CHECK_THREAD for one in threading.enumerate())


_SUBMIT: Final = Threads.submit


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time stands still while anything is ready."""

    def __init__(self) -> None:
        self._now = 1_000.0
        self._waits = _Selector(self._advance)
        super().__init__(self._waits)

    def time(self) -> float:
        return self._now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        self._waits.in_executors += 1
        work = super().run_in_executor(executor, func, *args)
        work.add_done_callback(self._executed)
        return work

    def submit(self, threads: Threads, job: Job) -> None:
        """Start a job on threads of tools or schemas, as `Threads.submit` does."""
        self._waits.jobs.append(job)
        _SUBMIT(threads, job)

    def _executed(self, work: asyncio.Future[Any]) -> None:
        self._waits.in_executors -= 1

    def _advance(self, seconds: float) -> None:
        self._now += seconds


def run_virtually(work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """Run a coroutine, and return its result and the virtual seconds that it took."""
    loop = VirtualLoop()
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner(loop_factory=lambda: loop) as runner:
        patch.setattr(clock, "time", _Time(loop))
        patch.setattr(Threads, "submit", lambda threads, job: loop.submit(threads, job))
        began = loop.time()
        result = runner.run(work)
        return result, loop.time() - began
