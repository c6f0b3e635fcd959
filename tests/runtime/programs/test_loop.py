"""The loop of a run: order, time, hashes, and the loop around it."""

import asyncio
import contextlib
import gc
import itertools
import logging
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.programs.loop import (
    EndlessStep,
    ProgramLoop,
    due_ms,
)
from tests.tables import table


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


def test_a_step_that_is_late_for_two_deadlines_lets_the_first_end_the_wait_for_the_second() -> None:
    loop, seen = ProgramLoop(), list[str]()

    async def main() -> None:
        async with asyncio.timeout(2):
            await asyncio.sleep(1)
            seen.append("slept")
        seen.append("in time")

    loop.run_step(0, lambda: loop.create_task(main()))
    loop.run_step(3_000, lambda: None)
    assert seen == ["slept", "in time"]
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


@pytest.mark.parametrize("kept", [1, 1_000])
def test_many_cancelled_timers_are_forgotten_a_part_at_a_time(kept: int) -> None:
    loop, sizes = ProgramLoop(), list[int]()

    def begin() -> None:
        for _ in range(kept):
            loop.call_later(1, print)
        for _ in range(2_000):
            loop.call_later(9, print).cancel()
            sizes.append(len(loop._timers))

    loop.run_step(0, begin)
    assert max(sizes) <= 2 * kept + 200
    drops = sum(later < before for before, later in itertools.pairwise(sizes))
    assert 0 < drops <= 40, "each drop goes through all timers"


def test_tasks_that_have_ended_are_forgotten_a_part_at_a_time() -> None:
    loop, sizes = ProgramLoop(), list[int]()

    async def nothing() -> None: ...

    async def many() -> None:
        for _ in range(500):
            await loop.create_task(nothing())
            sizes.append(len(loop._tasks))

    loop.run_step(0, lambda: loop.create_task(many()))
    assert max(sizes) <= 40
    assert sum(later < before for before, later in itertools.pairwise(sizes)) <= 60


def test_tasks_are_named_by_their_number_unless_they_are_given_a_name() -> None:
    loop, names = ProgramLoop(7), list[str]()

    async def nothing() -> None: ...

    def begin() -> None:
        loop.create_future()
        for name in (None, "mine", 5):
            names.append(loop.create_task(nothing(), name=name).get_name())

    loop.run_step(0, begin)
    assert names == ["Task-2", "mine", "5"]


def test_a_loop_runs_inside_a_step_only() -> None:
    loop, seen = ProgramLoop(), list[bool]()
    loop.run_step(0, lambda: seen.append(loop.is_running()))
    assert (seen, loop.is_running(), loop.is_closed()) == ([True], False, False)
    with pytest.raises(MisuseError, match="a program runs only while it handles an answer"):
        loop.call_soon(print)


def test_a_generator_that_is_left_is_closed_in_the_step() -> None:
    loop, seen = ProgramLoop(), list[str]()

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            seen.append("closed")

    async def first() -> None:
        async for _ in numbers():
            break

    loop.run_step(0, lambda: loop.create_task(first()))
    assert seen == ["closed"]


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


@pytest.mark.parametrize(("last", "is_over"), [(40, False), (41, True)])
def test_the_cap_of_callbacks_counts_those_of_all_deadlines(last: int, is_over: bool) -> None:
    loop = ProgramLoop()

    def begin() -> None:
        for ms, count in ((1, 20), (2, 40), (3, last)):
            for _ in range(count):
                loop.call_later(ms / 1_000, len, ())

    loop.run_step(0, begin)
    with pytest.raises(EndlessStep) if is_over else contextlib.nullcontext():
        loop.run_step(5, lambda: None, callbacks_max=100)


@table(
    ("call", "what"),
    [
        (lambda loop: loop.run_in_executor(None, print), "run_in_executor: a program has no threads"),
        (lambda loop: loop.call_soon_threadsafe(print), "no calls from other threads"),
        (lambda loop: loop.add_reader(0, print), "no network or files"),
        (lambda loop: loop.create_connection(print), "no network or files"),
        (lambda loop: loop.subprocess_shell(print, "ls"), "no subprocesses"),
        (lambda loop: loop.add_signal_handler(2, print), "no signals"),
        (lambda loop: loop.run_until_complete(None), "no way to run or end its loop"),
        (lambda loop: loop.stop(), "no way to run or end its loop"),
        (lambda loop: loop.close(), "no way to run or end its loop"),
        (lambda loop: loop.shutdown_asyncgens(), "no way to run or end its loop"),
        (lambda loop: loop.shutdown_default_executor(), "no threads"),
        (lambda loop: loop.set_debug(True), "no settings of its loop"),
        (lambda loop: loop.set_task_factory(None), "no settings of its loop"),
        (lambda loop: loop.set_exception_handler(None), "no settings of its loop"),
    ],
)
def test_all_else_of_a_loop_is_refused(call: Callable[[ProgramLoop], object], what: str) -> None:
    with pytest.raises(MisuseError, match=f"{what}, .*write a @tool"):
        call(ProgramLoop())


def test_a_generator_that_is_left_is_closed_by_the_loop_in_a_later_turn() -> None:
    seen: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            seen.append("closed")

    async def first() -> None:
        async for _ in numbers():
            break
        seen.append("left")
        await asyncio.sleep(0)

    loop = ProgramLoop()
    loop.run_step(0, lambda: loop.create_task(first()))
    assert seen == ["left", "closed"]


def test_the_first_refusal_of_io_is_kept() -> None:
    loop, refused = ProgramLoop(), list[MisuseError]()
    for name in ("stop", "add_reader", "create_server"):
        with pytest.raises(MisuseError) as caught:
            getattr(loop, name)()
        refused.append(caught.value)
    assert loop.refused is refused[1]


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
        loop.call_exception_handler({"message": "it was late"})
        loop.call_exception_handler({})
    assert seen == ["on"]
    assert "ValueError: no" in caplog.text
    assert caplog.messages[1:] == ["in a program: it was late", "in a program: an error"]


def test_an_ended_loop_takes_callbacks_and_forgets_them() -> None:
    loop, seen = ProgramLoop(), list[str]()
    loop.end()
    loop.call_soon(seen.append, "late")
    assert (seen, loop.is_closed(), loop.live_tasks) == ([], True, [])


def test_a_time_of_day_is_counted_from_the_time_of_the_step() -> None:
    loop, seen = ProgramLoop(), list[int]()
    loop.run_step(7_000, lambda: loop.call_by_clock(3, seen.append, 1), left_out_ms=2_000)
    assert loop.wake_ms == 10_000
    loop.run_step(9_999, lambda: None, left_out_ms=2_500)
    assert (seen, loop.wake_ms) == ([], 10_000)
    loop.run_step(10_000, lambda: None, left_out_ms=2_500)
    assert seen == [1]


# --- what a loop holds ----------------------------------------------------------------


def test_timers_that_are_kept_fire_in_their_order_whichever_of_them_were_cancelled() -> None:
    loop, seen = ProgramLoop(), list[int]()
    times = Random(7).sample(range(1, 1_000), 200)

    def begin() -> None:
        handles = {ms: loop.call_later(ms / 1_000, seen.append, ms) for ms in times}
        for ms in sorted(times)[:160]:
            handles[ms].cancel()
        assert len(loop._timers) < 200, "some were forgotten"

    loop.run_step(0, begin)
    loop.run_step(1_000, lambda: None)
    assert seen == sorted(times)[160:]


def test_timers_that_are_kept_fire_after_the_cancelled_ones_were_forgotten() -> None:
    loop, seen = ProgramLoop(), list[int]()

    def begin() -> None:
        kept = [loop.call_later(ms / 1_000, seen.append, ms) for ms in (5, 3, 4)]
        for handle in [loop.call_later(1, seen.append, 0) for _ in range(200)]:
            handle.cancel()
        assert len(kept) == 3

    loop.run_step(0, begin)
    assert loop._cancelled_timers == sum(timer[2].cancelled() for timer in loop._timers)
    loop.run_step(10, lambda: None)
    assert seen == [3, 4, 5]
    loop.run_step(2_000, lambda: None)
    assert (loop._timers, loop._cancelled_timers) == ([], 0)


def test_a_timer_that_has_fired_is_not_counted_when_it_is_cancelled() -> None:
    loop, seen = ProgramLoop(), list[str]()
    handles: list[asyncio.TimerHandle] = []

    def begin() -> None:
        handles.extend(loop.call_later(0.001, seen.append, name) for name in ("first", "cancelled"))

    loop.run_step(0, begin)
    handles[1].cancel()
    loop.run_step(1, lambda: None)
    assert seen == ["first"]
    for handle in handles:
        handle.cancel()
    assert loop._cancelled_timers == 0


def test_a_new_loop_stands_and_takes_nothing() -> None:
    loop = ProgramLoop()
    assert (loop.is_running(), loop.is_closed(), loop.get_debug(), loop.time()) == (False, False, False, 0)
    with pytest.raises(MisuseError, match="nothing else may set its events"):
        loop.call_soon(print)


def test_callbacks_that_are_ready_go_with_the_tasks_that_are_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop, seen, ended = ProgramLoop(), list[str](), list[str]()

    async def waits() -> None:
        try:
            await loop.create_future()
        finally:
            ended.append("closed")

    async def raises() -> None:
        try:
            await loop.create_future()
        finally:
            raise ValueError("no end")

    def close() -> None:
        loop.call_soon(seen.append, "ready")
        loop.close_tasks()

    loop.run_step(0, lambda: [loop.create_task(waits()), loop.create_task(raises())])
    loop.run_step(1, close)
    assert (seen, ended) == ([], ["closed"])
    assert "a program is closed: ValueError: no end" in caplog.text


def test_a_generator_that_is_read_to_its_end_is_not_closed_before() -> None:
    loop, seen = ProgramLoop(), list[int]()

    async def numbers() -> AsyncGenerator[int, None]:
        for number in range(3):
            yield number
            await asyncio.sleep(0)

    async def reads() -> None:
        async for number in numbers():
            seen.append(number)

    loop.run_step(0, lambda: loop.create_task(reads()))
    assert seen == [0, 1, 2]


def test_tasks_of_an_ended_loop_go_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    loop = ProgramLoop()

    async def waits() -> None:
        await loop.create_future()

    loop.run_step(0, lambda: loop.create_task(waits()))
    assert len(loop.live_tasks) == 1
    loop.end()
    assert loop.live_tasks == []
    gc.collect(1)
    assert caplog.messages == []


def test_ended_tasks_are_looked_for_again_once_there_are_twice_as_many() -> None:
    loop = ProgramLoop()

    async def ends() -> None:
        pass

    async def waits() -> None:
        await loop.create_future()

    def begin() -> None:
        for _ in range(10):
            loop.create_task(waits())
        for _ in range(6):
            loop.create_task(ends())

    loop.run_step(0, begin)
    assert (len(loop._tasks), loop._prune_at) == (16, 16)
    loop.run_step(1, lambda: loop.create_task(ends()))
    assert (len(loop._tasks), loop._prune_at) == (11, 36)


def test_a_brain_runs_functions_in_the_step_and_a_plain_program_none() -> None:
    async def main() -> list[object]:
        loop = asyncio.get_running_loop()
        assert loop.get_task_factory() is None
        found: list[object] = [await loop.run_in_executor(None, int, "5"), await asyncio.to_thread(abs, -1)]
        for wrong in ("x", None):
            try:
                await asyncio.to_thread(int, wrong)  # type: ignore[arg-type]  # on purpose
            except (TypeError, ValueError) as error:
                found.append(type(error))
        return found

    loop = ProgramLoop()
    loop.runs_functions = True
    tasks: list[asyncio.Task[list[object]]] = []
    loop.run_step(0, lambda: tasks.append(loop.create_task(main())))
    assert tasks[0].result() == [5, 1, ValueError, TypeError]


def test_a_brain_may_have_its_functions_run_elsewhere() -> None:
    handed: list[tuple[object, asyncio.Future[int]]] = []
    loop = ProgramLoop()
    loop.runs_functions = True
    loop.runs_function = lambda call, future: handed.append((call(), future))
    loop.run_step(0, lambda: handed.append((None, loop.run_in_executor(None, int, "5"))))
    (value, future), (_, given) = handed
    assert (value, future is given, given.done()) == (5, True, False)
