"""Daemon threads for functions that may never return.

`concurrent.futures` joins its threads when the interpreter ends, so one tool that hangs would hang the
whole program; its threads are also lost to all others for ever. Here threads are daemons, and a thread
that is given up no longer counts: another may take its place. Python cannot end a thread from outside.
"""

import collections
import contextlib
import threading
from collections.abc import Callable
from typing import Final

MAX_THREADS: Final = 32
"""Functions that run at the same time."""

MAX_STUCK: Final = 1_000
"""Threads that were given up and still run; beyond that their places are not filled again."""


class Job:
    """A function that waits for a thread, runs on it, or did so. What it raises is lost."""

    __slots__ = ("is_done", "is_given_up", "is_started", "run")

    def __init__(self, run: Callable[[], None]) -> None:
        self.run = run
        self.is_started = False
        self.is_done = False
        self.is_given_up = False


class Threads:
    """At most so many threads, made when they are needed, kept until `close`."""

    def __init__(self, max_threads: int = MAX_THREADS, name: str = "callboard-tool") -> None:
        self._max = max_threads
        self._name = name
        self._changed = threading.Condition()
        self._jobs: collections.deque[Job] = collections.deque()
        self._count = 0
        self._idle = 0
        self._stuck = 0
        self._is_closed = False

    @property
    def stuck(self) -> int:
        """Threads that were given up and have not returned."""
        return self._stuck

    def submit(self, job: Job) -> None:
        """Run the job as soon as a thread is free."""
        with self._changed:
            self._jobs.append(job)
            self._find_thread()

    def give_up(self, job: Job) -> bool:
        """Nobody waits for this job any more. Whether it had started: if not, it never will."""
        with self._changed:
            if job.is_started and not job.is_given_up and not job.is_done:
                self._stuck += 1
                job.is_given_up = True
                self._find_thread()
            job.is_given_up = True
            return job.is_started

    def close(self) -> None:
        """Let threads go once nothing waits for them. What runs, runs on."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _find_thread(self) -> None:
        if self._idle >= len(self._jobs):
            self._changed.notify()
        elif self._count - min(self._stuck, MAX_STUCK) < self._max:
            self._count += 1
            threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            with contextlib.suppress(BaseException):
                job.run()
            with self._changed:
                job.is_done = True
                if job.is_given_up:  # this thread's place is another's by now
                    self._stuck -= 1
                    self._count -= 1
                    return

    def _next(self) -> Job | None:
        with self._changed:
            while True:
                while self._jobs:
                    job = self._jobs.popleft()
                    if not job.is_given_up:
                        job.is_started = True
                        return job
                if self._is_closed:
                    self._count -= 1
                    return None
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
