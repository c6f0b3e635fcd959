"""Cases for durability: closing, opening again, a crash, and the hash chain that proves it."""

from contextlib import closing

import pytest

from callboard.actors.protocol.errors import CorruptLog, Fenced, MisuseError
from callboard.replay.testing.stores.events import (
    StorePlace,
    add,
    added,
    events,
    large,
    on_loops,
    opened,
    same,
)
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.protocol import GENESIS, Head


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
