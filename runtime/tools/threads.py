"""Daemon threads for functions that may never return.

`concurrent.futures` joins its threads when the interpreter ends: one hanging tool hangs the whole program.
Here threads are daemons, and another thread takes the place of one that is given up.
"""

import collections
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MAX_THREADS: Final = 32  # functions that run at a time
MAX_STUCK: Final = 1_000  # threads that were given up and still run; beyond so many, places stay empty


@dataclass(eq=False)
class Job:
    """A function that waits for a thread, runs, or has run. An exception of it is lost."""

    run: Callable[[], None]
    is_started: bool = False
    is_done: bool = False
    is_given_up: bool = False


class Threads:
    """A limited number of threads, started when they are needed and kept until `close`."""

    def __init__(self, max_threads: int = MAX_THREADS, name: str = "callboard-tool") -> None:
        self._max = max_threads
        self._name = name
        self._changed = threading.Condition()
        self._jobs: collections.deque[Job] = collections.deque()
        self._count = 0
        self._idle = 0
        self.stuck = 0  # threads that were given up and still run
        self._is_closed = False

    def submit(self, job: Job) -> None:
        """Run the job as soon as a thread is free. Raises RuntimeError if the system has none left."""
        with self._changed:
            self._jobs.append(job)
            try:
                self._find_thread()
            except RuntimeError:
                job.is_given_up = True
                raise

    def give_up(self, job: Job) -> bool:
        """Give up a job. Return True if it had started; else it never will."""
        with self._changed:
            is_new, job.is_given_up = not job.is_given_up, True
            if job.is_started and is_new and not job.is_done:
                self.stuck += 1
                with contextlib.suppress(RuntimeError):  # those that wait get the next thread that is free
                    self._find_thread()
            return job.is_started

    def close(self) -> None:
        """End threads once no job waits. Running jobs go on."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _find_thread(self) -> None:
        if self._idle >= len(self._jobs):
            self._changed.notify()
        elif self._count - min(self.stuck, MAX_STUCK) < self._max:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
            self._count += 1  # not of one that could not start; this lock is held up to here

    def _work(self) -> None:
        while (job := self._next()) is not None:
            with contextlib.suppress(BaseException):
                job.run()
            with self._changed:
                job.is_done = True
                if job.is_given_up:  # another thread has its place
                    self.stuck -= 1
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
