import queue
import subprocess
import sys
import threading

import pytest

from callboard.runtime.tools.threads import (
    Job,
    Threads,
)
from tests.waiting import block_until


class Held(Job):
    """A job that runs until it is let go."""

    __slots__ = ("begun", "go")

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()
        super().__init__(self._hold)

    def _hold(self) -> None:
        self.begun.set()
        assert self.go.wait(5)


def ours() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "test-pool"]


@pytest.fixture
def threads() -> Threads:
    return Threads(2, "test-pool")


def test_jobs_run_on_at_most_so_many_threads_which_are_used_again(threads: Threads) -> None:
    seen: queue.SimpleQueue[int] = queue.SimpleQueue()
    for _ in range(20):
        threads.submit(Job(lambda: seen.put(threading.get_ident())))
    assert len({seen.get(timeout=5) for _ in range(20)}) <= 2
    threads.close()
    block_until(lambda: not ours())


def test_jobs_beyond_the_threads_wait_for_one(threads: Threads) -> None:
    held = [Held(), Held(), Held()]
    for job in held:
        threads.submit(job)
    assert held[0].begun.wait(5)
    assert held[1].begun.wait(5)
    assert not held[2].is_started
    held[0].go.set()
    assert held[2].begun.wait(5)
    for job in held:
        job.go.set()
    threads.close()
    block_until(lambda: not ours())


def test_an_idle_thread_is_used_before_another_is_made(threads: Threads) -> None:
    for _ in range(5):
        done = threading.Event()
        threads.submit(Job(done.set))
        assert done.wait(5)
        block_until(lambda: threads._idle == 1)
    assert len(ours()) == 1
    threads.close()
    block_until(lambda: not ours())


def test_a_thread_that_is_given_up_gives_its_place_to_another(threads: Threads) -> None:
    stuck, waiting = [Held(), Held()], Held()
    for job in (*stuck, waiting):
        threads.submit(job)
    block_until(lambda: all(job.is_started for job in stuck))
    assert all(threads.give_up(job) for job in stuck)
    assert all(threads.give_up(job) for job in stuck)
    assert threads.stuck == 2
    assert waiting.begun.wait(5)
    for job in (*stuck, waiting):
        job.go.set()
    block_until(lambda: threads.stuck == 0)
    assert all(job.is_done for job in stuck), "what may have changed until then is looked at no longer"
    block_until(lambda: len(ours()) <= 2)
    threads.close()
    block_until(lambda: not ours())


def test_a_waiting_job_that_is_given_up_never_runs(threads: Threads) -> None:
    held, ran = [Held(), Held()], threading.Event()
    for held_job in held:
        threads.submit(held_job)
    job = Job(ran.set)
    threads.submit(job)
    assert not threads.give_up(job)
    for held_job in held:
        held_job.go.set()
    threads.close()
    block_until(lambda: not ours())
    assert not ran.is_set()


def test_giving_up_what_is_done_changes_nothing(threads: Threads) -> None:
    job = Job(lambda: None)
    threads.submit(job)
    block_until(lambda: job.is_done)
    assert threads.give_up(job)
    assert threads.stuck == 0
    threads.close()
    block_until(lambda: not ours())


def test_what_waits_at_the_close_and_what_comes_after_it_still_runs(threads: Threads) -> None:
    seen: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(4):
        threads.submit(Job(lambda number=number: seen.put(number)))  # type: ignore[misc]  # mypy infers no type of a lambda with a default
    threads.close()
    threads.submit(Job(lambda: seen.put(4)))
    assert sorted(seen.get(timeout=5) for _ in range(5)) == [0, 1, 2, 3, 4]
    block_until(lambda: not ours())


def test_a_job_that_raises_does_not_cost_its_thread(threads: Threads) -> None:
    def raising() -> None:
        raise SystemExit(3)

    for _ in range(5):
        threads.submit(Job(raising))
    done = threading.Event()
    threads.submit(Job(done.set))
    assert done.wait(5)
    threads.close()
    block_until(lambda: not ours())


def test_a_thread_that_cannot_start_costs_no_place_and_its_job_never_runs(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    held, ran = [Held(), Held()], threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        for _ in range(2):
            with pytest.raises(RuntimeError):
                threads.submit(Job(ran.set))
    for job in held:
        threads.submit(job)
        assert job.begun.wait(5)
    waiting = Held()
    threads.submit(waiting)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        assert threads.give_up(held[0])
    held[0].go.set()
    block_until(lambda: threads.stuck == 0)
    held[1].go.set()
    assert waiting.begun.wait(5)
    waiting.go.set()
    threads.close()
    block_until(lambda: not ours())
    assert not ran.is_set()


@pytest.mark.slow
def test_a_thread_that_never_ends_does_not_hold_the_interpreter() -> None:
    code = (
        "import threading, time\n"
        "from callboard.runtime.tools.threads import Job, Threads\n"
        "begun = threading.Event()\n"
        "Threads().submit(Job(lambda: (begun.set(), time.sleep(600))))\n"
        "begun.wait()\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=20, check=False).returncode == 0


def test_threads_that_were_given_up_and_ended_leave_the_count_as_it_was() -> None:
    threads = Threads(1, "test-pool")
    for _ in range(2):
        stuck, next_, last = Held(), Held(), Held()
        threads.submit(stuck)
        assert stuck.begun.wait(5)
        threads.submit(next_)
        assert threads.give_up(stuck)
        assert next_.begun.wait(5), "it has the place of the other"
        stuck.go.set()
        block_until(lambda: len(ours()) == 1)
        threads.submit(last)
        assert len(ours()) == 1
        assert not last.is_started
        next_.go.set()
        assert last.begun.wait(5)
        last.go.set()
    threads.close()
    block_until(lambda: not ours())
    for _ in range(2):  # each time another thread
        job = Held()
        threads.submit(job)
        assert job.begun.wait(5)
        job.go.set()
        block_until(lambda: not ours())
