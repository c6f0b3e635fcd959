"""The check of a session's programs: off the loop, bounded in time, and with the first place that differs."""

import asyncio
import contextlib
import gc
import threading
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from callboard import Agent, program
from callboard.actors.protocol.immutable import Json
from callboard.runtime.programs import session_check
from callboard.runtime.programs.checking import RecordedAgent, RunCheck
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import Program
from callboard.runtime.programs.run import ProgramRun
from callboard.runtime.programs.session_check import check_programs, diverged, finder, overdue
from callboard.runtime.sanitize import to_json
from tests.runtime.programs.kit import work

Body = Callable[[ProgramContext, str], Awaitable[object]]


def host(body: Body) -> Program[Any]:
    @program(tools=[work])
    async def host(ctx: ProgramContext, prompt: str) -> object:
        return await body(ctx, prompt)

    return host


def recorded(body: Body) -> list[RecordedAgent]:
    """Record the first step of a program."""
    run = ProgramRun(host(body).model.main_of(Json(b'"go"'), lambda most: ()), "1.s.host")
    said = run.step((), 1_700_000_000_000).content()
    run.stop()
    messages = (to_json({"role": "user", "content": "go"}), Json(b'{"role":"assistant","content":%b}' % said))
    return [RecordedAgent("host", "host", messages)]


def checked(was: Body, now: Body, timeout_s: float = 30.0) -> list[RunCheck]:
    return asyncio.run(check_programs(recorded(was), finder({"host": host(now)}), timeout_s))


async def plain(ctx: ProgramContext, prompt: str) -> object:
    return await ctx.call(work, n=1)


def test_a_program_that_repeats_its_steps_has_no_mismatch() -> None:
    assert checked(plain, plain) == []


def test_a_mismatch_names_the_agent_and_the_step() -> None:
    async def changed(ctx: ProgramContext, prompt: str) -> object:
        return await ctx.call(work, n=2)

    (found,) = checked(plain, changed)
    assert (found.address, found.step, found.by_chance) == ("host", 1, False)
    assert (found.recorded, found.now) == ('asked work({"n":1})', 'asked work({"n":2})')


def test_two_long_asks_are_shown_from_the_first_place_that_differs() -> None:
    def asks(word: str) -> Body:
        async def body(ctx: ProgramContext, prompt: str) -> object:
            return await ctx.call("work", n=1, note=f"{'same ' * 400}{word}{' tail' * 400}")

        return body

    (found,) = checked(asks("old"), asks("new"))
    assert "old tail" in found.recorded
    assert "new tail" in found.now
    assert max(len(found.recorded), len(found.now)) <= 60 + len("asked ......")


def test_code_that_is_not_what_differs_depends_on_chance() -> None:
    numbers = count()

    async def chance(ctx: ProgramContext, prompt: str) -> object:
        return await ctx.call(work, n=next(numbers))

    (found,) = checked(chance, chance)
    assert found.by_chance
    said = str(diverged("s", [found]))
    assert said.startswith("session s, host: step 1 is not as recorded. Recorded: asked work")
    assert "depends on chance" in said


def test_the_programs_run_in_another_thread_than_the_loop() -> None:
    threads = []

    async def told(ctx: ProgramContext, prompt: str) -> object:
        threads.append(threading.current_thread())
        return await ctx.call(work, n=1)

    checked(plain, told)
    assert threads
    assert threading.main_thread() not in threads


def test_a_check_that_is_over_its_time_is_stopped() -> None:
    stopped = threading.Event()

    async def endless(ctx: ProgramContext, prompt: str) -> object:
        try:
            while True:
                len(prompt)
        finally:
            stopped.set()

    with pytest.raises(TimeoutError):
        checked(plain, endless, 0.01)
    assert stopped.wait(10), "a thread that nobody waits for must not take the processor for good"


def test_a_check_that_is_stopped_before_it_begins_never_runs_and_prints_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_stopped, errors, held = threading.Event(), list[object](), set[int]()

    def hold(*event: object) -> None:
        """Hold the thread at its first call, which is outside of the check."""
        if threading.get_ident() not in held:
            held.add(threading.get_ident())
            is_stopped.wait(10)

    def never(name: str) -> Program[Any]:
        raise AssertionError(name)

    monkeypatch.setattr(threading, "excepthook", errors.append)
    threading.setprofile(hold)
    try:
        with pytest.raises(TimeoutError):
            asyncio.run(check_programs(recorded(plain), never, 0))
    finally:
        threading.setprofile(None)
        is_stopped.set()
    for thread in threading.enumerate():
        if thread.ident in held:
            thread.join(10)
    assert (len(held), errors) == (1, [])


def test_a_stop_behind_the_end_of_a_check_does_nothing() -> None:
    seen: list[int] = []
    thread = session_check._CheckThread(lambda: seen.append(1))
    thread.start()
    thread.join(10)
    thread.stop()
    assert seen == [1]


@pytest.mark.parametrize(("checks", "is_over"), [(8, False), (1, True)])
def test_checks_side_by_side_have_the_time_that_each_would_have_alone(
    checks: int, is_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a deploy, when those of a fleet share one interpreter."""

    async def waited() -> list[RunCheck]:
        done: asyncio.Future[list[RunCheck]] = asyncio.get_running_loop().create_future()
        looks = count()

        def now_ms() -> int:  # a second passes from one look to the next
            look = next(looks)
            if look == 20:
                done.set_result([])
            return 1_000 * look

        monkeypatch.setattr(session_check, "monotonic_ms", now_ms)
        return await session_check._in_time(done, 3)

    monkeypatch.setattr(session_check, "_LOOK_S", 0.001)
    monkeypatch.setattr(session_check, "_under_way", checks)
    with pytest.raises(TimeoutError) if is_over else contextlib.nullcontext():
        assert asyncio.run(waited()) == []


def test_a_program_that_is_gone_is_a_mismatch() -> None:
    (found,) = asyncio.run(check_programs(recorded(plain), finder({})))
    assert found.result == "missing"
    assert "there is no program 'host' any more" in str(diverged("s", [found]))


def test_no_garbage_is_collected_while_checks_run_side_by_side_and_again_after_the_last() -> None:
    """A finalizer acts at a moment of chance, which would look like a program that differs."""
    enabled = []

    async def seen(ctx: ProgramContext, prompt: str) -> object:
        enabled.append(gc.isenabled())
        return await ctx.call(work, n=1)

    async def both() -> None:
        find = finder({"host": host(seen)})
        await asyncio.gather(*(check_programs(recorded(plain), find) for _ in range(3)))

    asyncio.run(both())
    assert enabled == [False] * 3
    assert gc.isenabled()


def test_collection_is_as_it_was_after_the_last_of_several_checks() -> None:
    with session_check._without_collection():
        with session_check._without_collection():
            assert not gc.isenabled()
        assert not gc.isenabled(), "the first one still runs"
    assert gc.isenabled()
    gc.disable()
    try:
        with session_check._without_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_check_that_was_stopped_before_its_thread_began_does_no_work() -> None:
    seen: list[int] = []
    thread = session_check._CheckThread(lambda: seen.append(1))
    thread.stop()
    thread.start()
    thread.join(10)
    assert seen == []


def test_a_result_that_comes_after_its_caller_has_left_is_dropped() -> None:
    async def main() -> None:
        done: asyncio.Future[list[RunCheck]] = asyncio.get_running_loop().create_future()
        done.cancel()
        for error in (None, ValueError()):
            session_check._settle(done, [], error)

    asyncio.run(main())


def test_a_session_without_programs_needs_no_thread() -> None:
    before = threading.active_count()
    assert asyncio.run(check_programs([], finder({}))) == []
    assert threading.active_count() == before
    assert finder({"host": Agent("host")})("host") is None


def test_an_error_of_the_check_itself_is_raised_where_it_was_asked_for() -> None:
    def broken(name: str) -> Program[Any]:
        raise LookupError(name)

    with pytest.raises(LookupError, match="host"):
        asyncio.run(check_programs(recorded(plain), broken))


def test_a_session_that_is_over_its_time_says_what_it_was_and_what_to_do() -> None:
    said = str(overdue("s", 2.5))
    assert "within 2.5 s (Runtime(check_timeout_s=...)). The session stays unfinished" in said
    assert said.startswith("session s: its programs did not repeat")


def test_several_programs_that_differ_are_counted() -> None:
    missing = RunCheck("host.1", "kid", "missing")
    said = str(diverged("s", [missing, missing, missing]))
    assert said.startswith(
        "session s, host.1: there is no program 'kid' any more (2 more of its programs differ"
    )
    assert "more of its programs" not in str(diverged("s", [missing]))
