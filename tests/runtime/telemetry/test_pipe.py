"""The queue between the sessions and their exporters."""

import asyncio
import threading

from callboard.runtime.telemetry.pipe import BYTES_MAX, Pipe


def test_items_are_consumed_in_order_on_another_thread() -> None:
    seen: list[int] = []
    threads: set[int] = set()

    def consume(item: int) -> None:
        seen.append(item)
        threads.add(threading.get_ident())

    pipe = Pipe(consume, print)
    for number in range(100):
        pipe.put(number)
    assert asyncio.run(pipe.flush(10))
    assert seen == list(range(100))
    assert threads.isdisjoint({threading.get_ident()})
    pipe.close()


def test_a_consumer_that_blocks_delays_no_caller_and_dropped_items_are_counted_and_reported_once() -> None:
    gate, troubles, seen = threading.Event(), list[str](), list[int]()

    def consume(item: int) -> None:
        gate.wait(30)
        seen.append(item)

    pipe = Pipe(consume, troubles.append, items_max=10)
    for number in range(1_000):
        pipe.put(number)
    assert pipe.dropped >= 989
    assert not asyncio.run(pipe.flush(0.01))
    gate.set()
    assert asyncio.run(pipe.flush(10))
    assert len(seen) + pipe.dropped == 1_000
    assert len(troubles) == 1
    assert "dropped" in troubles[0]
    pipe.close()


def test_the_queue_is_full_by_the_size_of_its_items_too() -> None:
    gate, seen = threading.Event(), list[int]()

    def consume(item: int) -> None:
        gate.wait(30)
        seen.append(item)

    pipe = Pipe(consume, print, weigh=lambda item: BYTES_MAX // 3)
    for number in range(10):
        pipe.put(number)
    assert 6 <= pipe.dropped <= 7
    gate.set()
    assert asyncio.run(pipe.flush(10))
    pipe.put(99)  # there is room again
    assert asyncio.run(pipe.flush(10))
    assert seen[-1] == 99
    pipe.close()


def test_a_consumer_that_raises_is_counted_and_said_once_and_the_next_item_follows() -> None:
    troubles, seen = list[str](), list[int]()

    def consume(item: int) -> None:
        if item % 2:
            raise (ValueError if item % 4 == 1 else SystemExit)("https://token@collector")
        seen.append(item)

    pipe = Pipe(consume, troubles.append)
    for number in range(10):
        pipe.put(number)
    assert asyncio.run(pipe.flush(10))
    assert (seen, pipe.failed) == ([0, 2, 4, 6, 8], 5)
    assert troubles == ["telemetry is lost, since its exporter raised ValueError"]
    pipe.close()


def test_a_flush_waits_for_an_item_in_the_hands_of_the_consumer_and_calls_the_last_function() -> None:
    gate, begun, order = threading.Event(), threading.Event(), list[str]()

    def consume(item: str) -> None:
        begun.set()
        gate.wait(30)
        order.append(item)

    async def main() -> None:
        pipe = Pipe(consume, print)
        pipe.put("item")
        await asyncio.to_thread(begun.wait, 10)
        flushed = asyncio.create_task(pipe.flush(10, lambda: order.append("last")))
        await asyncio.sleep(0)
        assert not flushed.done()
        gate.set()
        assert await flushed
        pipe.close()

    asyncio.run(main())
    assert order == ["item", "last"]


def test_a_last_function_that_raises_ends_the_flush() -> None:
    def fail() -> None:
        raise OSError

    troubles: list[str] = []
    pipe: Pipe[int] = Pipe(print, troubles.append)
    assert asyncio.run(pipe.flush(10, fail))
    pipe.close()


def test_a_closed_pipe_ends_its_thread_once_it_is_empty() -> None:
    pipe: Pipe[int] = Pipe(lambda item: None, print)
    pipe.put(1)
    thread = pipe._thread
    assert thread is not None
    assert thread.daemon
    pipe.close()
    thread.join(10)
    assert not thread.is_alive()
