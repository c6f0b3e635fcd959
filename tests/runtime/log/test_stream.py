"""Stream: the waiters of one session, each woken once and for the right reason."""

import asyncio

import pytest

from callboard.actors.protocol.errors import Fenced, SessionFailed
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.session.budget_keys import CallKey, Reservation
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.protocol import EMPTY, Append, Carried, Head
from callboard.runtime.log.stream import EVERYTHING, Stream
from tests.runtime.log.kit import events, run


def test_staged_events_are_taken_once() -> None:
    stream = Stream("s", 3, EMPTY)
    posted = events(5, 8)
    stream.staged.extend(posted)
    assert stream.take() == Append("s", 4, 3, posted)
    assert stream.staged == []


def test_what_is_staged_later_is_no_part_of_an_earlier_append() -> None:
    stream = Stream("s", 3, EMPTY)
    call = Reservation(CallKey("s", 3, "host", 1, 1), Need(5), ())
    charge = Charge("2026-11-28", "m", "host", Usage(5))
    appends = []
    for seq, spending, usage in (
        (5, [], []), (6, [call], []), (7, [], [charge]), (8, [call], [charge]), (9, [], []),
    ):  # fmt: skip
        stream.staged.extend(events(seq, seq))
        stream.spending += spending
        stream.usage += usage
        stream.carried += [Carried(1, seq)] if seq > 7 else []
        appends.append(stream.take())
    assert appends == [
        Append("s", 4, 3, events(5, 5)),
        Append("s", 5, 3, events(6, 6), [call], [], []),
        Append("s", 6, 3, events(7, 7), [], [charge], []),
        Append("s", 7, 3, events(8, 8), [call], [charge], [Carried(1, 8)]),
        Append("s", 8, 3, events(9, 9), [], [], [Carried(1, 9)]),
    ]


def test_waiters_are_woken_up_to_a_seq_and_no_further() -> None:
    async def work() -> None:
        stream = Stream("s", 1, EMPTY)
        assert not stream.is_awaited
        waits = [(seq, asyncio.create_task(stream.wait(seq))) for seq in (9, 3, 5, 1, 5)]
        await asyncio.sleep(0)
        stream.head = Head(5, b"")
        stream.wake(5)
        await asyncio.sleep(0)
        assert [seq for seq, task in waits if task.done()] == [3, 5, 1, 5]
        assert stream.is_awaited
        stream.head = Head(9, b"")
        stream.wake(9)
        assert (await waits[0][1]).seq == 9
        assert not stream.is_awaited
        async with asyncio.timeout(20):
            assert await stream.wait(2) == await stream.wait(9) == stream.head

    run(work)


def test_a_waiter_hears_why_it_waited_in_vain() -> None:
    async def work() -> None:
        for error, kind in ((Fenced("taken over"), Fenced), (None, SessionFailed)):
            stream = Stream("s", 1, EMPTY)
            waiting = asyncio.create_task(stream.wait(2))
            await asyncio.sleep(0)
            stream.error = error
            stream.wake(EVERYTHING)
            with pytest.raises(kind):
                await waiting
            if error is not None:
                with pytest.raises(kind):
                    await asyncio.wait_for(stream.wait(2), 20)  # at once
                assert not stream.is_awaited

    run(work)


def test_the_error_of_an_unfinished_commit_names_the_next_step() -> None:
    assert "callboard show" in str(Stream("s", 1, EMPTY).unwritten())
