"""What outlives the writer: closing, opening again, a crash."""

import pytest

from callboard.actors.protocol.errors import Fenced
from callboard.replay.testing.stores.events import add, added, events, large, run, same
from callboard.replay.testing.stores.store_place import StorePlace, opened


class DurabilityCases:
    """Ends and new beginnings."""

    def test_epochs_and_heads_outlive_the_owner(self, place: StorePlace) -> None:
        async def work() -> None:
            async with opened(place) as log:
                await log.create("s", 1, "")
                head = await added(log, "s", 1, events(1, 9))
                await log.take_over("s")
            async with opened(place) as log:
                assert await log.head("s") == head
                assert isinstance(await add(log, "s", 1, events(10, 10)), Fenced)
                head = await added(log, "s", 2, events(10, 12))
                assert await log.take_over("s") == (3, head)

        run(work)

    def test_every_owner_goes_on_where_the_last_one_stopped(self, place: StorePlace) -> None:
        async def work() -> None:
            for turn in range(5):
                async with opened(place) as log:
                    if turn == 0:
                        await log.create("s", 1, "")
                    epoch, head = await log.take_over("s")
                    assert (epoch, head.seq) == (turn + 2, turn * 10)
                    await added(log, "s", epoch, events(head.seq + 1, head.seq + 10))

        run(work)
        reader = place.reader()
        assert same(reader.events("s"), events(1, 50))
        assert reader.verify_chain("s").seq == 50
        reader.close()

    @pytest.mark.parametrize("count", [0, 1, 300])
    def test_a_crash_loses_nothing_that_was_acknowledged(self, place: StorePlace, count: int) -> None:
        posted = [*events(1, count), *([large(count + 1)] if count else [])]

        async def work() -> None:
            async with opened(place) as log:
                await log.create("s", 1, "")
                head = await log.head("s")
                for first in range(0, len(posted), 100):
                    head = await added(log, "s", 1, posted[first : first + 100])
                left = place.after_crash()
                if left is None:
                    return
            reader = left.reader()
            assert reader.verify_chain("s", head=head) == head
            assert same(reader.events("s"), posted)
            reader.close()
            async with opened(left) as log:
                assert await log.take_over("s") == (2, head)
                assert isinstance(await add(log, "s", 1, events(head.seq + 1, head.seq + 1)), Fenced)
                await added(log, "s", 2, events(head.seq + 1, head.seq + 3))

        run(work)

    def test_a_crash_right_after_opening_leaves_a_log_that_opens(self, place: StorePlace) -> None:
        async def work() -> None:
            async with opened(place):
                left = place.after_crash()
            if left is None:
                return
            async with opened(left) as log:
                assert await log.sessions() == []
                again = left.after_crash()
            assert again is not None
            async with opened(again) as log:
                await log.create("s", 1, "")
                await added(log, "s", 1, events(1, 3))

        run(work)
