"""Cases for the writes of a store: order, heads, epochs, sessions."""

import asyncio
from contextlib import closing

import pytest

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.errors import (
    Fenced,
    SessionExists,
    SessionNotFound,
    StoreError,
    StoreFailed,
    WrongHead,
)
from callboard.replay.testing.stores.events import (
    StorePlace,
    add,
    added,
    event,
    events,
    large,
    on_loops,
    opened,
    same,
)
from callboard.runtime.log.protocol import Append, Head


@on_loops
class WritingCases:
    """Appends, epochs and sessions."""

    # --- order, gaps --------------------------------------------------------------

    async def test_events_that_leave_a_gap_or_repeat_a_seq_are_refused_whole(self, place: StorePlace) -> None:
        async with opened(place, sessions="s") as log:
            await added(log, "s", 1, events(1, 3))
            for wrong in ([event(5)], [event(3)], [event(4), event(6)], [event(4), event(4)]):
                (answer,) = await log.append([Append("s", 3, 1, wrong)])
                assert isinstance(answer, WrongHead)
            assert same(await log.read("s"), events(1, 3))

    async def test_a_wrong_head_is_answered_for_its_own_session_only(self, place: StorePlace) -> None:
        async with opened(place, sessions="abc") as log:
            answers = await log.append(
                [
                    Append("a", 0, 1, events(1, 2)),
                    Append("b", 4, 1, events(5, 6)),
                    Append("nowhere", 0, 1, events(1, 2)),
                    Append("c", 0, 1, events(1, 1)),
                    Append("c", 1, 1, events(2, 3)),
                ]
            )
            found = [type(answer) for answer in answers]
            assert found == [Head, WrongHead, SessionNotFound, Head, Head]
            assert [(await log.head(name)).seq for name in "abc"] == [2, 0, 3]
            assert answers[4] == await log.head("c")

    async def test_a_refused_part_takes_nothing_of_a_later_part_of_its_session_with_it(
        self, place: StorePlace
    ) -> None:
        async with opened(place, sessions="s") as log:
            answers = await log.append([Append("s", 1, 1, events(2, 2)), Append("s", 0, 1, events(1, 1))])
            assert [type(answer) for answer in answers] == [WrongHead, Head]
            assert same(await log.read("s"), events(1, 1))

    async def test_nothing_appended_is_answered_with_the_head(self, place: StorePlace) -> None:
        async with opened(place) as log:
            await log.create("s", 1, "", b"o" * 32)
            assert await log.append([]) == []
            assert await log.append([Append("s", 0, 1, [])]) == [Head(0, b"o" * 32)]

    async def test_an_event_that_cannot_be_written_fails_its_own_session_only(
        self, place: StorePlace
    ) -> None:
        async with opened(place, sessions="ab") as log:
            odd = (event(2, Cancel("\ud800")), event(2, sender="\ud800"), event(2, cause=1 << 70))
            for head, unwritable in enumerate(odd):
                good = events(head + 1, head + 1)
                answers = await log.append(
                    [Append("a", 0, 1, [event(1), unwritable]), Append("b", head, 1, good)]
                )
                assert isinstance(answers[0], StoreFailed)
                assert isinstance(answers[1], Head)
            assert await log.read("a") == []
            await added(log, "a", 1, events(1, 1))

    async def test_many_sessions_in_one_batch_stay_apart(self, place: StorePlace) -> None:
        names = [f"s{number}" for number in range(100)]
        async with opened(place, sessions=names) as log:
            for first in (1, 4):
                batch = [
                    Append(name, first - 1, 1, [event(seq, Cancel(f"{name} {seq}")) for seq in seqs])
                    for name in names
                    for seqs in [range(first, first + 3)]
                ]
                answers = await log.append(batch)
                assert all(isinstance(answer, Head) for answer in answers)
            for name in names:
                posted = [event(seq, Cancel(f"{name} {seq}")) for seq in range(1, 7)]
                assert same(await log.read(name), posted)

    # --- epochs -------------------------------------------------------------------

    async def test_a_writer_of_an_old_epoch_appends_nothing(self, place: StorePlace) -> None:
        async with opened(place) as log:
            old = await log.create("s", 1, "")
            head = await added(log, "s", old, events(1, 2))
            new, found = await log.take_over("s")
            assert (new, found) == (old + 1, head)
            assert isinstance(await add(log, "s", old, events(3, 4)), Fenced)
            assert isinstance(await add(log, "s", new + 1, events(3, 4)), Fenced)
            await added(log, "s", new, events(3, 3))
            assert same(await log.read("s"), events(1, 3))

    async def test_a_take_over_fences_its_own_session_only(self, place: StorePlace) -> None:
        async with opened(place, sessions="ab") as log:
            await log.take_over("a")
            batch = [Append(name, 0, 1, events(1, 2)) for name in "ab"]
            assert [type(answer) for answer in await log.append(batch)] == [Fenced, Head]

    async def test_of_two_owners_only_the_one_who_took_over_appends(self, place: StorePlace) -> None:
        """A store may refuse the second owner, or fence the first; it may not let both write."""
        async with opened(place) as first:
            await first.create("s", 1, "")
            await added(first, "s", 1, events(1, 2))
            second = place.log()
            try:
                await second.open()
            except StoreError:
                await added(first, "s", 1, events(3, 3))
                return
            epoch, head = await second.take_over("s")
            assert head.seq == 2
            assert isinstance(await add(first, "s", 1, events(3, 3)), Fenced)
            await added(second, "s", epoch, events(3, 3))
            await second.close()

    # --- sessions -----------------------------------------------------------------

    async def test_a_session_is_made_once(self, place: StorePlace) -> None:
        async with opened(place) as log:
            assert await log.create("s", 1, "") == 1
            await added(log, "s", 1, events(1, 2))
            with pytest.raises(SessionExists, match="'s'"):
                await log.create("s", 1, "")
            assert (await log.head("s")).seq == 2

    async def test_a_session_that_was_deleted_is_gone_and_the_others_are_whole(
        self, place: StorePlace
    ) -> None:
        async with opened(place, sessions="abc") as log:
            for name in "abc":
                await added(log, name, 1, [*events(1, 10), large(11), large(12, 4_000, name)])
            assert await log.delete("b") == 12
            for ask in (log.read, log.head, log.take_over, log.delete):
                with pytest.raises(SessionNotFound, match="'b'"):
                    await ask("b")
            assert isinstance(await add(log, "b", 1, events(13, 14)), SessionNotFound)
            assert [row.session_id for row in await log.sessions()] == ["c", "a"]
            for name in "ac":
                assert same(await log.read(name), [*events(1, 10), large(11), large(12, 4_000, name)])
            assert await log.create("b", 1, "") == 1
            await added(log, "b", 1, [large(1), *events(2, 3)])
            assert same(await log.read("b"), [large(1), *events(2, 3)])
            left = place.after_crash()
        for kept in (place, left or place):
            with closing(kept.reader()) as reader:
                assert [reader.verify_chain(name).seq for name in "abc"] == [12, 3, 12]

    async def test_a_log_that_is_not_open_says_so(self, place: StorePlace) -> None:
        log = place.log()
        with pytest.raises(StoreFailed, match="open"):
            await log.append([])
        await log.open()
        await log.close()
        await log.close()
        with pytest.raises(StoreFailed, match="open"):
            await log.sessions()

    async def test_a_cancelled_append_is_stored_whole_or_not_at_all(self, place: StorePlace) -> None:
        async with opened(place, sessions="s") as log:
            appending = asyncio.create_task(added(log, "s", 1, events(1, 300)))
            await asyncio.sleep(0)
            appending.cancel()
            await asyncio.gather(appending, return_exceptions=True)
            head = (await log.head("s")).seq
            assert head in (0, 300)
            await added(log, "s", 1, events(head + 1, head + 5))
        with closing(place.reader()) as reader:
            reader.verify_chain("s")
