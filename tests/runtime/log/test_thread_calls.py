"""Results of a store's thread reach the loop that asked, if it still runs."""

import asyncio

import pytest

from callboard.runtime.log.thread_calls import answer


def test_results_and_errors_reach_the_loop_and_a_closed_one_is_left_alone() -> None:
    async def ask() -> None:
        loop = asyncio.get_running_loop()
        good, bad, cancelled = (loop.create_future() for _ in range(3))
        cancelled.cancel()
        answer(loop, good, lambda: 7)
        answer(loop, bad, lambda: 1 // 0)
        answer(loop, cancelled, lambda: 8)
        assert await good == 7
        with pytest.raises(ZeroDivisionError):
            await bad

    loop = asyncio.new_event_loop()
    loop.run_until_complete(ask())
    left = loop.create_future()
    loop.close()
    answer(loop, left, lambda: 9)
    assert not left.done()
