"""The queue of one reader: its bound, its cut, and its cost."""

import asyncio
import tracemalloc
from collections.abc import Callable

import pytest

from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.runtime.sessions.stream_choice import StreamChoice
from callboard.runtime.sessions.stream_items import StreamEvent, TextDelta
from callboard.runtime.sessions.stream_reader import LARGE_BYTES, QUEUE_BYTES_MAX, Reader

MIB = 1_024 * 1_024
EVERYTHING = StreamChoice("*")


def event(seq: int, size: int) -> StreamEvent:
    return StreamEvent(Event(seq, 0, "client", "supervisor", 0, Ask("r", Json(b'"%b"' % (b"x" * size)))))


def test_items_come_in_their_order_and_the_last_id_is_noted() -> None:
    reader = Reader(None, EVERYTHING)
    text = TextDelta("host", 1, 1, 0, "hi")
    for item in (event(4, 1), text, event(5, 1)):
        reader.put(item)
    assert reader.take() == event(4, 1)
    assert reader.last == 4
    assert reader.take() == text
    assert reader.last == 4
    assert reader.take() == event(5, 1)
    assert (reader.last, reader.take(), reader._bytes) == (5, None, 0)


def test_a_queue_takes_what_fits_and_the_next_byte_cuts_it() -> None:
    def filled(rest: int) -> Reader:
        reader = Reader(3, EVERYTHING)
        seq = 4
        while reader._bytes + 50_500 < QUEUE_BYTES_MAX:
            reader.put(event(seq, 50_000))
            seq += 1
        around = len(event(seq, 0).to_sse()) + 64
        reader.put(event(seq, QUEUE_BYTES_MAX - reader._bytes - around + rest))
        return reader

    assert not filled(0).is_cut
    cut = filled(1)
    assert cut.is_cut
    assert cut.is_over
    assert cut.take() is None
    cut.put(event(99, 1))
    assert cut.take() is None
    assert cut.last == 3


def test_a_reader_that_reads_nothing_costs_less_than_1_mib() -> None:
    tracemalloc.start()
    try:
        reader = Reader(0, EVERYTHING)
        for seq in range(1, 100_000):
            reader.put(event(seq, seq % 200))
            assert reader._bytes <= QUEUE_BYTES_MAX
            if reader.is_cut:
                break
            if seq == 2_000:
                assert tracemalloc.get_traced_memory()[0] < 2 * MIB  # text and bytes of shared items included
        assert reader.is_cut
        assert tracemalloc.get_traced_memory()[0] < MIB // 4
    finally:
        tracemalloc.stop()


def test_a_large_event_waits_as_its_seq() -> None:
    reader = Reader(0, EVERYTHING)
    reader.put(event(1, LARGE_BYTES))
    reader.put(event(2, 1))
    assert reader._bytes < 1_000
    assert reader.take() is None
    assert reader.take_large() == 1
    assert reader.take_large() is None
    assert reader.take() == event(2, 1)
    assert (reader.last, reader._bytes) == (2, 0)


def test_text_so_far_comes_first_and_is_made_in_its_turn() -> None:
    reader, made = Reader(0, EVERYTHING), []

    def so_far() -> TextDelta:
        made.append(1)
        return TextDelta("host", 1, 1, 0, "so far")

    reader.start(so_far)
    reader.put(event(1, 1))
    assert not made
    assert reader.take() == TextDelta("host", 1, 1, 0, "so far")
    assert reader.take() == event(1, 1)


async def asleep(reader: Reader) -> "asyncio.Task[bool]":
    """Return a task that waits on this reader, and sleeps."""
    waiting = asyncio.create_task(reader.wait())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    return waiting


@pytest.mark.parametrize("wake", [lambda one: one.put(event(1, 1)), Reader.end])
def test_a_reader_sleeps_until_there_is_an_item_or_the_end(wake: Callable[[Reader], None]) -> None:
    async def main() -> None:
        reader = Reader(0, EVERYTHING)
        waiting = await asleep(reader)
        wake(reader)
        assert not await asyncio.wait_for(waiting, 1)
        assert not await asyncio.wait_for(reader.wait(), 1)  # nothing was taken

    asyncio.run(main())


def test_a_sign_of_life_wakes_a_reader_once() -> None:
    async def main() -> None:
        reader = Reader(0, EVERYTHING)
        waiting = await asleep(reader)
        reader.give_sign()
        assert await asyncio.wait_for(waiting, 1)
        waiting = await asleep(reader)
        reader.end()
        assert not await asyncio.wait_for(waiting, 1)

    asyncio.run(main())


def test_a_sign_of_life_that_finds_a_reader_awake_waits_for_it() -> None:
    async def main() -> None:
        reader = Reader(0, EVERYTHING)
        reader.give_sign()
        assert await asyncio.wait_for(reader.wait(), 1)
        (await asleep(reader)).cancel()

    asyncio.run(main())


def test_a_reader_that_is_sent_away_is_done_at_once_and_one_that_ends_once_it_has_all() -> None:
    reader = Reader(0, EVERYTHING)
    assert not reader.is_done
    reader.put(event(1, 1))
    reader.start(lambda: TextDelta("host", 1, 1, 0, "so far"))
    reader.end()
    assert not reader.is_done
    assert reader.take() == TextDelta("host", 1, 1, 0, "so far")
    assert not reader.is_done
    assert reader.take() == event(1, 1)
    assert reader.is_done
    late = Reader(0, EVERYTHING)
    late.start(lambda: TextDelta("host", 1, 1, 0, "so far"))
    late.end()
    assert not late.is_done, "the text is still to come"
    away = Reader(0, EVERYTHING)
    away.put(event(1, 1))
    away.leave()
    assert (away.is_left, away.is_done, away.is_over) == (True, True, False)


def test_a_reader_that_is_sent_away_while_it_waits_wakes_and_does_not_wait_again() -> None:
    async def main() -> None:
        reader = Reader(0, EVERYTHING)
        waiting = await asleep(reader)
        reader.leave()
        assert await asyncio.wait_for(waiting, 1) is False
        assert await asyncio.wait_for(reader.wait(), 1) is False
        assert reader._waiter is None

    asyncio.run(main())


def test_a_reader_gets_only_items_of_its_choice_and_none_after_its_end() -> None:
    reader = Reader(0, StreamChoice("host.1"))
    reader.put(TextDelta("host", 1, 1, 0, "no"))
    assert (reader.take(), reader._bytes) == (None, 0)
    reader.end()
    reader.put(TextDelta("host.1", 1, 1, 0, "late"))
    assert (reader.take(), reader._bytes) == (None, 0)


def test_an_event_of_just_so_many_bytes_waits_in_memory() -> None:
    size = LARGE_BYTES - len(event(1, 0).to_sse())
    for more in (0, 1):
        reader = Reader(0, EVERYTHING)
        reader.put(event(1, size + more))
        assert (reader.take_large() is None) == (more == 0)
