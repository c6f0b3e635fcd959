"""The parts of a polite end by themselves: what a process serves, graces, and the values of options."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.sessions.detaching import (
    Grace,
    ProcessLife,
    check_seconds,
    closed,
    detach,
    idle_seconds,
    refuse_on_diverged,
)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(20):
            await work()

    asyncio.run(main())


def test_what_is_served_is_left_after_the_process_is_marked_as_ending() -> None:
    life, found = ProcessLife(0), list[bool]()
    loop: Any = SimpleNamespace(call_soon_threadsafe=lambda leave: leave())  # the one of a quick thread
    life._served[lambda: found.append(life.is_ending)] = loop
    life.end()
    assert found == [True]


def test_an_end_at_the_very_moment_of_the_serving_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    life, left = ProcessLife(0), list[str]()

    def ends() -> None:
        monkeypatch.undo()
        life.end()  # in a handler of signals

    monkeypatch.setattr(asyncio, "get_running_loop", ends)
    with life.serving(lambda: left.append("left")):
        assert left == ["left"]


def test_what_is_served_is_left_once_when_the_process_ends_or_has_ended() -> None:
    async def work() -> None:
        left: list[str] = []
        life = ProcessLife(0.5)
        assert (life.is_ending, life.cancel_delay_s) == (False, 0.5)
        with life.serving(lambda: left.append("before")):
            pass
        with life.serving(lambda: left.append("first")):
            assert left == []
            life.end()
            assert left == [], "in the next pass of its loop: the end may come in a handler of signals"
            await asyncio.sleep(0)
            assert left == ["first"]
            with life.serving(lambda: left.append("second")):
                assert left == ["first", "second"]
        life.end()
        await asyncio.sleep(0)
        assert (left, life.is_ending) == (["first", "second"], True)

    run(work)


def test_the_end_of_a_process_leaves_out_loops_that_are_closed() -> None:
    life = ProcessLife(0)
    serving = life.serving(lambda: None)

    async def begin() -> None:
        serving.__enter__()

    asyncio.run(begin())
    life.end()
    assert life.is_ending


def test_a_grace_without_a_time_ends_when_it_is_told_and_a_timer_goes_with_its_grace() -> None:
    async def work() -> None:
        assert Grace(0)._over.done()
        assert Grace(None)._timer is None
        grace = Grace(60)
        timer = grace._timer
        assert timer is not None
        call = asyncio.create_task(asyncio.sleep(60))
        waiting = asyncio.create_task(grace.wait_for(lambda: {call}))
        await asyncio.sleep(0)
        assert not waiting.done()
        grace.end()
        grace.end()
        await waiting
        assert timer.cancelled()
        call.cancel()

    run(work)


def test_calls_that_write_have_their_own_grace_after_that_of_all_calls() -> None:
    async def work() -> None:
        done: list[str] = []
        call = asyncio.create_task(asyncio.sleep(60))
        board: Any = SimpleNamespace(
            stand_still=lambda: done.append("still"), cut_off=lambda: done.append("cut off"),
            running=set, writing=lambda: {call}, durable=lambda: asyncio.sleep(0, "head"),
        )  # fmt: skip
        writes = Grace(None)
        leaving = asyncio.create_task(detach(board, Grace(None), writes))
        for _ in range(3):
            await asyncio.sleep(0)
        assert done == ["still"]
        writes.end()
        assert await leaving == "head"  # type: ignore[comparison-overlap]  # a stand-in's head
        assert done == ["still", "cut off"]
        assert await detach(board, Grace(None)) == "head"  # type: ignore[comparison-overlap]  # a stand-in's head
        call.cancel()

    run(work)


def test_seconds_of_sleep_and_of_checks_are_above_0() -> None:
    assert [idle_seconds(one) for one in (None, 0.5, 3)] == [None, 0.5, 3]
    assert check_seconds(0.5) == 0.5
    for value in (0, -1, True, float("inf"), "1"):
        with pytest.raises(MisuseError, match=r"^idle_s="):
            idle_seconds(value)  # type: ignore[arg-type]  # a wrong value
        with pytest.raises(MisuseError, match=r"^check_timeout_s="):
            check_seconds(value)  # type: ignore[arg-type]  # a wrong value


def test_the_ways_to_go_on_are_three() -> None:
    for one in ("wait", "crash", "hold"):
        refuse_on_diverged(one)
    with pytest.raises(MisuseError, match="on_diverged='stop': use one of wait, crash, hold"):
        refuse_on_diverged("stop")


def test_all_is_closed_together_and_all_errors_are_returned() -> None:
    done: list[str] = []

    async def fails() -> None:
        done.append("fails")
        raise ValueError("x")

    async def ends() -> None:
        await asyncio.sleep(0)
        done.append("ends")

    async def work() -> None:
        (error,) = await closed([fails, ends])
        assert isinstance(error, ValueError)
        assert done == ["fails", "ends"]

    run(work)
