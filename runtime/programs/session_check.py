"""The check of a whole session: do its programs of today repeat their recorded steps?

It executes them in a thread of its own, for a bounded time: their code is a stranger to this process, and an
event loop that waits for it would hold up every session. Nothing is asked, and nothing is written.

Checks that run side by side, as those of a fleet after a deploy do, share one interpreter. So the time of a
check is its share of the time that passes: many of them are not over their time because they are many.
"""

import asyncio
import ctypes
import gc
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeAlias

from callboard.actors.protocol.errors import Diverged
from callboard.runtime.agent import Agent
from callboard.runtime.clock import monotonic_ms
from callboard.runtime.programs.checking import RecordedAgent, RunCheck, check_run
from callboard.runtime.programs.program import Program
from callboard.runtime.programs.replaying import CheckStopped, ProgramDiverged

CHECK_TIMEOUT_S: Final = 30.0  # as `callboard check-program --timeout`
CHECK_THREAD: Final = "callboard check"
"""The name of the thread of each check."""

_LOOK_S: Final = 0.1  # how often the time of a check is counted

Find: TypeAlias = Callable[[str], Program[object] | None]
"""Returns the program of today by its name, None for a name that is gone."""


def finder(agents: Mapping[str, Agent]) -> Find:
    """Return the function that finds a program among agents, by name."""

    def found(name: str) -> Program[object] | None:
        agent = agents.get(name)
        return agent if isinstance(agent, Program) else None

    return found


async def check_programs(
    recorded: Sequence[RecordedAgent], find: Find, timeout_s: float = CHECK_TIMEOUT_S
) -> list[RunCheck]:
    """Execute the recorded runs of a session's programs again, off the event loop.

    recorded: as `programs_of` returns them. timeout_s: of this check alone.
    Returns the check of each run that is not as recorded. Raises TimeoutError for a session that is over its
    time; its check is stopped.
    """
    if not recorded:
        return []
    loop = asyncio.get_running_loop()
    done: asyncio.Future[list[RunCheck]] = loop.create_future()
    thread = _CheckThread(partial(_check, recorded, find, loop, done))
    with _without_collection():
        thread.start()
        try:
            return await _in_time(done, timeout_s)
        except BaseException:  # its time is over, or its caller has left
            thread.stop()
            raise


async def _in_time(done: "asyncio.Future[list[RunCheck]]", timeout_s: float) -> list[RunCheck]:
    left_s = timeout_s
    while not done.done():
        began, checks = monotonic_ms(), _under_way
        await asyncio.wait({done}, timeout=min(_LOOK_S, left_s * checks))
        left_s -= (monotonic_ms() - began) / 1_000 / checks
        if left_s <= 0 and not done.done():
            raise TimeoutError
    return done.result()


_checks = threading.Lock()
_under_way = 0
_was_enabled = False


@contextmanager
def _without_collection() -> Iterator[None]:
    """Collect no garbage while a check runs: `ProgramLoop` leaves it so, and its steps overlap with ours.

    Not done by the thread itself, which may be stopped anywhere.
    """
    global _under_way, _was_enabled
    with _checks:
        if not _under_way:
            _was_enabled = gc.isenabled()
            gc.disable()
        _under_way += 1
    try:
        yield
    finally:
        with _checks:
            _under_way -= 1
            if _was_enabled and not _under_way:
                gc.enable()


def _check(
    recorded: Sequence[RecordedAgent],
    find: Find,
    loop: asyncio.AbstractEventLoop,
    done: "asyncio.Future[list[RunCheck]]",
) -> None:
    """Check each run, in the thread, and hand the result to the loop."""
    try:
        checked = [check_run(find(one.program), one.program, one.address, one.messages) for one in recorded]
        told = partial(_settle, done, [one for one in checked if one.result != "ok"], None)
    except CheckStopped:
        raise
    except BaseException as error:
        told = partial(_settle, done, [], error)
    if not loop.is_closed():
        loop.call_soon_threadsafe(told)


def _settle(
    done: "asyncio.Future[list[RunCheck]]", found: list[RunCheck], error: BaseException | None
) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(found)
    else:
        done.set_exception(error)


class _CheckThread(threading.Thread):
    """Does some work, and can be stopped at its next line of Python."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(name=CHECK_THREAD, daemon=True)
        self._work = work
        self._lock = threading.Lock()
        self._is_stopped = False
        self._is_at_work = False

    def run(self) -> None:
        """Do the work, unless it was stopped before."""
        try:
            with self._lock:
                self._is_at_work = not self._is_stopped
            if self._is_at_work:
                self._work()
            with self._lock:
                self._is_at_work = False
        except CheckStopped:
            return

    def stop(self) -> None:
        """Raise `CheckStopped` in the work. Nowhere else: there it would be printed as an error."""
        with self._lock:
            self._is_stopped = True
            if self._is_at_work:
                assert self.ident is not None
                thread = ctypes.c_ulong(self.ident)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(CheckStopped))


def diverged(session_id: str, found: Sequence[RunCheck]) -> Diverged:
    """Return the error for a session whose programs are not as recorded. found: what differs, not empty."""
    first, others = found[0], len(found) - 1
    more = f" ({others} more of its programs differ, too)" if others else ""
    if first.result == "missing":
        return waits(session_id, first.address, f"there is no program {first.program!r} any more{more}")
    told = (first.step, first.recorded, first.now)
    return waits(session_id, first.address, f"{ProgramDiverged(*told, by_chance=first.by_chance)}{more}")


def overdue(session_id: str, timeout_s: float) -> Diverged:
    """Return the error for a session whose check was over its time."""
    limit = f"{timeout_s:g} s (Runtime(check_timeout_s=...))"
    return waits(session_id, "", f"its programs did not repeat their recorded steps within {limit}")


def waits(session_id: str, address: str, why: str) -> Diverged:
    """Return the error for a session that waits for its code."""
    where = f"session {session_id}{', ' if address else ''}{address}"
    return Diverged(
        f"{where}: {why}. The session stays unfinished and waits for its code: resume it under code that "
        f'fits, fork it, or end it with `resume({session_id!r}, agent, on_diverged="crash")`'
    )
