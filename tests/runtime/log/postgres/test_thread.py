"""The thread of a connection runs what it was given, in order, also for callers that are gone."""

import asyncio

import pytest

from callboard.runtime.log.postgres.thread import Worker


def test_functions_run_in_order_and_a_cancelled_caller_stops_none() -> None:
    done: list[int] = []

    async def main() -> None:
        worker = Worker("test")
        calls = [asyncio.ensure_future(worker.run(lambda at=at: done.append(at))) for at in range(3)]  # type: ignore[misc]  # bound now
        await asyncio.sleep(0)
        calls[1].cancel()
        with pytest.raises(ZeroDivisionError):
            await worker.run(lambda: 1 // 0)
        assert done == [0, 1, 2]
        worker.stop(lambda: done.append(3))
        worker.join()

    asyncio.run(main())
    assert done == [0, 1, 2, 3]


def test_a_result_for_a_loop_that_is_closed_is_dropped() -> None:
    worker, done = Worker("test"), list[int]()

    async def leave() -> None:
        task = asyncio.ensure_future(worker.run(lambda: done.append(1)))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(leave())
    asyncio.run(worker.run(lambda: done.append(2)))
    assert done == [1, 2]
    worker.stop(lambda: None)
    worker.join()


def test_the_thread_has_its_name_and_keeps_no_program_alive() -> None:
    worker = Worker("log of a test")
    assert (worker._thread.name, worker._thread.daemon) == ("log of a test", True)
    worker.stop(lambda: None)
    worker.join()
    assert not worker._thread.is_alive()
