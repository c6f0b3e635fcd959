"""Cases for the writes of a store, and for what remains of them.

Cases for the writes of a store: order, heads, epochs, sessions.

Cases for durability: closing, opening again, a crash, and the hash chain that proves it.
"""

import asyncio
from collections.abc import Sequence
from contextlib import closing

import pytest

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.errors import (
    CorruptLog,
    Fenced,
    MisuseError,
    SessionExists,
    SessionNotFound,
    StoreError,
    StoreFailed,
    WrongHead,
)
from callboard.actors.protocol.events import Event
from callboard.replay.testing.stores.events import (
    StorePlace,
    add,
    added,
    also_open,
    event,
    events,
    large,
    on_loops,
    opened,
    same,
)
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.protocol import GENESIS, Append, EventLog, Head


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

    async def test_of_a_batch_only_the_session_in_the_middle_is_fenced(self, place: StorePlace) -> None:
        """Let another log object take it over, where the store lets two be open."""
        async with opened(place, sessions="abc") as log, also_open(place, log) as other:
            await log.append([Append(name, 0, 1, events(1, 2)) for name in "abc"])
            epoch, head = await other.take_over("b")
            batch = [Append(name, 2, 1, events(3, 4)) for name in "abc"]
            answers = await log.append(batch)
            assert [type(answer) for answer in answers] == [Head, Fenced, Head]
            assert answers[0] == await log.head("a")
            await added(other, "b", epoch, events(head.seq + 1, head.seq + 3))
            assert isinstance(await add(log, "b", 1, events(3, 4)), Fenced)
            with closing(place.reader()) as reader:
                assert [reader.verify_chain(name).seq for name in "abc"] == [4, 5, 4]

    async def test_a_store_that_was_set_back_behind_its_owner_takes_nothing_more(
        self, place: StorePlace
    ) -> None:
        """Put a backup back below an owner, and let another one go on from there under the same epoch."""
        if (set_back := getattr(place, "set_back", None)) is None:
            return
        async with opened(place, sessions="s") as log:
            await added(log, "s", 1, events(1, 2))
            put_back = set_back()
            await added(log, "s", 1, events(3, 3))
            put_back()
            assert isinstance(await _outcome(log, events(4, 4)), WrongHead | Fenced | StoreFailed)
            async with also_open(place, log) as other:
                if other is not log:
                    await added(other, "s", 1, [event(3, Cancel("of the other one"))])
                    assert isinstance(await _outcome(log, events(4, 4)), Fenced)
            with closing(place.reader()) as reader:
                assert reader.verify_chain("s").seq == (2 if other is log else 3)

    # --- sessions -----------------------------------------------------------------

    async def test_of_two_owners_that_make_one_session_at_once_one_has_made_it(
        self, place: StorePlace
    ) -> None:
        async with opened(place) as log, also_open(place, log) as other:
            for turn in range(5):
                made = await asyncio.gather(
                    *(one.create(f"s{turn}", 1, "") for one in (log, other)), return_exceptions=True
                )
                assert sorted(map(type, made), key=str) == [SessionExists, int]
            assert [row.session_id for row in await log.sessions()] == ["s4", "s3", "s2", "s1", "s0"]

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


async def _outcome(log: EventLog, more: Sequence[Event]) -> object:
    """Append to session s under epoch 1. Return the answer, or the error."""
    try:
        return await add(log, "s", 1, more)
    except StoreFailed as error:
        return error


@on_loops
class DurabilityCases:
    """Ends and new beginnings."""

    async def test_epochs_and_heads_outlive_the_owner(self, place: StorePlace) -> None:
        async with opened(place, sessions="s") as log:
            head = await added(log, "s", 1, events(1, 9))
            await log.take_over("s")
        async with opened(place) as log:
            assert await log.head("s") == head
            assert isinstance(await add(log, "s", 1, events(10, 10)), Fenced)
            head = await added(log, "s", 2, events(10, 12))
            assert await log.take_over("s") == (3, head)

    async def test_every_owner_goes_on_where_the_last_one_stopped(self, place: StorePlace) -> None:
        for turn in range(5):
            async with opened(place, sessions="" if turn else "s") as log:
                epoch, head = await log.take_over("s")
                assert (epoch, head.seq) == (turn + 2, turn * 10)
                await added(log, "s", epoch, events(head.seq + 1, head.seq + 10))
        with closing(place.reader()) as reader:
            assert same(reader.events("s"), events(1, 50))
            assert reader.verify_chain("s").seq == 50

    @pytest.mark.parametrize("count", [0, 1, 300])
    async def test_a_crash_loses_nothing_that_was_acknowledged(self, place: StorePlace, count: int) -> None:
        posted = [*events(1, count), *([large(count + 1)] if count else [])]
        async with opened(place, sessions="s") as log:
            head = await log.head("s")
            for first in range(0, len(posted), 100):
                head = await added(log, "s", 1, posted[first : first + 100])
            left = place.after_crash()
            if left is None:
                return
        with closing(left.reader()) as reader:
            assert reader.verify_chain("s", head=head) == head
            assert same(reader.events("s"), posted)
        async with opened(left) as log:
            assert await log.take_over("s") == (2, head)
            assert isinstance(await add(log, "s", 1, events(head.seq + 1, head.seq + 1)), Fenced)
            await added(log, "s", 2, events(head.seq + 1, head.seq + 3))

    async def test_a_crash_right_after_opening_leaves_a_log_that_opens(self, place: StorePlace) -> None:
        async with opened(place):
            left = place.after_crash()
        if left is None:
            return
        async with opened(left) as log:
            assert await log.sessions() == []
            again = left.after_crash()
        assert again is not None
        async with opened(again, sessions="s") as log:
            await added(log, "s", 1, events(1, 3))

    async def test_checked_events_are_those_that_were_written_behind_any_head(
        self, place: StorePlace
    ) -> None:
        posted = [*events(1, 30), large(31), *events(32, 40)]
        async with opened(place, b"a key", sessions="s") as log:
            await added(log, "s", 1, posted)
            rows = await log.read("s")
            assert await log.checked("s") == rows
            for seq in (1, 16, 31, 39):
                after = Head(seq, rows[seq - 1].digest)
                assert await log.checked("s", after, 5) == rows[seq : seq + 5]
                with pytest.raises(CorruptLog):
                    await log.checked("s", after._replace(digest=b"x" * 32), 5)
            assert await log.checked("s", Head(40, rows[39].digest)) == []
            with pytest.raises(SessionNotFound):
                await log.checked("nobody")

    # --- digests, keys, heads that were kept -----------------------------------------

    @pytest.mark.parametrize("key", [None, b"a key"])
    async def test_digests_are_those_that_anybody_computes(
        self, place: StorePlace, key: bytes | None
    ) -> None:
        posted = [*events(1, 3), large(4), *events(5, 6)]
        digest = HashChain(key).seal_all("s", b"o" * 32, posted).digests[-1]
        async with opened(place, key) as log:
            await log.create("s", 1, "", b"o" * 32)
            assert await added(log, "s", 1, posted) == Head(6, digest)
            assert (await log.read("s", 6))[0].digest == digest

    async def test_digests_depend_on_session_and_origin(self, place: StorePlace) -> None:
        async with opened(place) as log:
            heads = set()
            for name, origin in (("a", GENESIS), ("b", GENESIS), ("c", b"c" * 32)):
                await log.create(name, 1, "", origin)
                assert await log.head(name) == Head(0, origin)
                heads.add((await added(log, name, 1, events(1, 3))).digest)
            assert len(heads) == 3
            with closing(place.reader()) as reader:
                for name in "abc":
                    reader.verify_chain(name)

    async def test_a_key_is_needed_to_verify_what_was_written_with_it(self, place: StorePlace) -> None:
        async with opened(place, b"secret", sessions="s") as log:
            await added(log, "s", 1, [*events(1, 3), large(4)])
        with closing(place.reader()) as reader:
            assert reader.verify_chain("s", b"secret").seq == 4
            for key in (None, b"guess"):
                with pytest.raises(MisuseError, match="digest key"):
                    reader.verify_chain("s", key)

    async def test_a_head_that_was_acknowledged_must_still_be_there(self, place: StorePlace) -> None:
        async with opened(place, sessions="s") as log:
            heads = [await added(log, "s", 1, events(seq, seq)) for seq in range(1, 6)]
        with closing(place.reader()) as reader:
            for head in heads:
                assert reader.verify_chain("s", head=head) == heads[-1]
            with pytest.raises(CorruptLog, match="acknowledged") as caught:
                reader.verify_chain("s", head=Head(2, heads[2].digest))
            assert caught.value.seq == 2
            with pytest.raises(CorruptLog, match="missing") as caught:
                reader.verify_chain("s", head=Head(6, heads[2].digest))
            assert (caught.value.session_id, caught.value.seq) == ("s", 6)

    async def test_the_head_of_an_empty_session_is_checked_too(self, place: StorePlace) -> None:
        async with opened(place) as log:
            await log.create("s", 1, "", b"o" * 32)
            await added(log, "s", 1, events(1, 3))
        with closing(place.reader()) as reader:
            assert reader.verify_chain("s", head=Head(0, b"o" * 32)).seq == 3
            with pytest.raises(CorruptLog):
                reader.verify_chain("s", head=Head(0, b"p" * 32))
