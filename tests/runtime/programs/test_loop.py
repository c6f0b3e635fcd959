"""The loop of a run: order, time, hashes, and the loop around it."""

import asyncio
import gc
import logging
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.programs.loop import EndlessStep, ProgramLoop, due_ms


def test_callbacks_run_first_in_first_out_and_timers_by_deadline_then_by_age() -> None:
    loop, seen = ProgramLoop(), list[str]()

    def begin() -> None:
        for name, delay in (("late", 0.2), ("second", 0.1), ("third", 0.1)):
            loop.call_later(delay, seen.append, name)
        loop.call_soon(seen.append, "first")

    loop.run_step(0, begin)
    assert (seen, loop.wake_ms) == (["first"], 100)
    loop.run_step(300, lambda: loop.call_soon(seen.append, "now"))
    assert seen == ["first", "now", "second", "third", "late"]
    assert loop.wake_ms is None


@given(st.lists(st.tuples(st.integers(1, 50), st.booleans()), max_size=200))
def test_cancelled_timers_never_fire_and_never_wake(timers: list[tuple[int, bool]]) -> None:
    loop, seen = ProgramLoop(), list[int]()

    def begin() -> None:
        handles = [loop.call_later(ms / 1_000, seen.append, ms) for ms, _ in timers]
        for handle, (_, is_cancelled) in zip(handles, timers, strict=True):
            if is_cancelled:
                handle.cancel()

    loop.run_step(0, begin)
    kept = sorted(ms for ms, is_cancelled in timers if not is_cancelled)
    assert loop.wake_ms == (kept[0] if kept else None)
    loop.run_step(50, lambda: None)
    assert seen == kept


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_deadline_is_due_at_the_millisecond_it_names(now: int, wait: int) -> None:
    assert due_ms(now / 1_000 + wait / 1_000) == now + wait


@given(st.lists(st.tuples(st.integers(1, 50), st.booleans()), max_size=30), st.integers(1, 30))
def test_after_a_time_left_out_every_timer_fires_at_its_time_by_the_clock(
    timers: list[tuple[int, bool]], left_out: int
) -> None:
    loop, seen = ProgramLoop(), list[int]()

    def begin() -> None:
        for place, (ms, is_by_clock) in enumerate(timers):
            (loop.call_by_clock if is_by_clock else loop.call_later)(ms / 1_000, seen.append, place)

    loop.run_step(0, begin)
    due = [ms + (0 if is_by_clock else left_out) for ms, is_by_clock in timers]
    for now in range(left_out, 81):
        loop.run_step(now, lambda: None, left_out_ms=left_out)
        assert loop.time() == (now - left_out) / 1_000
        assert sorted(seen) == [place for place, when in enumerate(due) if when <= now]
    assert [due[place] for place in seen if due[place] > left_out] == sorted(
        when for when in due if when > left_out
    )


def test_many_cancelled_timers_are_forgotten() -> None:
    loop = ProgramLoop()

    def begin() -> None:
        for _ in range(10_000):
            loop.call_later(9, print).cancel()

    loop.run_step(0, begin)
    assert len(loop._timers) < 200


def test_tasks_and_futures_hash_by_their_number_and_the_salt_keeps_runs_apart() -> None:
    async def nothing() -> None: ...

    def hashes(salt: int) -> list[int]:
        loop, found = ProgramLoop(salt), list[int]()

        def begin() -> None:
            found.extend(hash(loop.create_future()) for _ in range(2))
            found.append(hash(loop.create_task(nothing())))

        loop.run_step(0, begin)
        return found

    assert hashes(5) == hashes(5) != hashes(6)
    assert [one & 0xFFFF for one in hashes(5)] == [1, 2, 3]


def test_the_running_loop_its_task_and_its_hooks_are_as_before_also_after_an_error() -> None:
    async def around() -> None:
        outer, task, hooks = asyncio.get_running_loop(), asyncio.current_task(), sys.get_asyncgen_hooks()
        loop = ProgramLoop()

        def inside() -> None:
            assert asyncio.get_running_loop() is loop
            assert asyncio.current_task() is None
            assert not gc.isenabled()

        def broken() -> None:
            raise KeyboardInterrupt

        loop.run_step(0, inside)
        with pytest.raises(KeyboardInterrupt):
            loop.run_step(0, broken)
        assert (asyncio.get_running_loop(), asyncio.current_task()) == (outer, task)
        assert sys.get_asyncgen_hooks() == hooks
        assert gc.isenabled()

    asyncio.run(around())


def test_a_step_has_a_cap_of_callbacks() -> None:
    loop = ProgramLoop()

    def again() -> None:
        loop.call_soon(again)

    with pytest.raises(EndlessStep):
        loop.run_step(0, again, callbacks_max=100)


@pytest.mark.parametrize(
    "call",
    [
        lambda loop: loop.run_in_executor(None, print),
        lambda loop: loop.call_soon_threadsafe(print),
        lambda loop: loop.add_reader(0, print),
        lambda loop: loop.create_connection(print),
        lambda loop: loop.subprocess_shell(print, "ls"),
        lambda loop: loop.add_signal_handler(2, print),
        lambda loop: loop.run_until_complete(None),
        lambda loop: loop.set_debug(True),
        lambda loop: loop.set_task_factory(None),
        lambda loop: loop.shutdown_default_executor(),
    ],
)
def test_all_else_of_a_loop_is_refused(call: Callable[[ProgramLoop], object]) -> None:
    with pytest.raises(MisuseError, match="write a @tool"):
        call(ProgramLoop())


def test_no_method_of_a_loop_is_left_without_an_answer() -> None:
    public = [name for name in dir(asyncio.AbstractEventLoop) if not name.startswith("_")]
    assert [
        name for name in public if getattr(ProgramLoop, name) is getattr(asyncio.AbstractEventLoop, name)
    ] == []


def test_an_endless_time_is_refused() -> None:
    loop = ProgramLoop()
    with pytest.raises(MisuseError, match="cannot wait until inf"):
        loop.run_step(0, lambda: loop.call_later(float("inf"), print))


def test_an_error_of_a_callback_is_logged_and_the_step_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    loop, seen = ProgramLoop(), list[str]()

    def broken() -> None:
        raise ValueError("no")

    def begin() -> None:
        loop.call_soon(broken)
        loop.call_soon(seen.append, "on")

    with caplog.at_level(logging.WARNING, "callboard.programs"):
        loop.run_step(0, begin)
    assert seen == ["on"]
    assert "ValueError: no" in caplog.text


def test_an_ended_loop_takes_callbacks_and_forgets_them() -> None:
    loop, seen = ProgramLoop(), list[str]()
    loop.end()
    loop.call_soon(seen.append, "late")
    assert (seen, loop.is_closed(), loop.live_tasks) == ([], True, [])
