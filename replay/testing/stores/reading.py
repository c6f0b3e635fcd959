"""What a store gives back: pages, heads, lists, beside a writer and after it."""

import asyncio

import pytest

from callboard.actors.protocol.errors import SessionNotFound
from callboard.replay.testing.stores.events import added, events, large, run, same
from callboard.replay.testing.stores.store_place import StorePlace, opened


class ReadingCases:
    """Reading, by the owner and by readers."""

    def test_events_come_back_in_order_and_byte_for_byte(self, place: StorePlace) -> None:
        posted = [*events(1, 700), large(701), *events(702, 900)]

        async def work() -> None:
            async with opened(place) as log:
                epoch = await log.create("s", 5, "a title")
                head = await added(log, "s", epoch, posted[:300])
                assert head.seq == 300
                head = await added(log, "s", epoch, posted[300:])
                assert same(await log.read("s"), posted)
                assert await log.head("s") == head

        run(work)
        reader = place.reader()
        assert same(reader.events("s"), posted)
        assert reader.verify_chain("s") == reader.head("s")
        reader.close()

    @pytest.mark.parametrize(
        ("start", "limit", "first", "last"),
        [
            (1, 10, 1, 10),
            (25, 10, 25, 30),
            (-3, 2, 1, 2),
            (0, 3, 1, 3),
            (30, 1, 30, 30),
            (7, 1, 7, 7),
            (1, 30, 1, 30),
            (1, 1_000, 1, 30),
        ],
    )
    def test_a_page_begins_and_ends_where_it_is_asked_to(
        self, place: StorePlace, start: int, limit: int, first: int, last: int
    ) -> None:
        async def work() -> None:
            async with opened(place) as log:
                for name in "abc":
                    await log.create(name, 1, "")
                    await added(log, name, 1, events(1, 30))
                reader = place.reader()
                page = await log.read("b", start, limit)
                assert [row.seq for row in page] == list(range(first, last + 1))
                assert reader.events("b", start, limit) == page
                reader.close()

        run(work)

    def test_beyond_the_end_and_with_no_room_a_page_is_empty(self, place: StorePlace) -> None:
        async def work() -> None:
            async with opened(place) as log:
                for name in "abc":
                    await log.create(name, 1, "")
                    await added(log, name, 1, events(1, 30))
                reader = place.reader()
                for start, limit in ((31, 10), (1, 0), (30, 0), (2**40, 10)):
                    assert await log.read("b", start, limit) == []
                    assert reader.events("b", start, limit) == []
                reader.close()

        run(work)

    def test_a_session_without_events_is_there_and_empty(self, place: StorePlace) -> None:
        async def work() -> None:
            async with opened(place) as log:
                await log.create("s", 1, "", b"o" * 32)
                reader = place.reader()
                assert await log.read("s") == reader.events("s") == []
                assert await log.head("s") == reader.head("s") == reader.verify_chain("s")
                assert await log.head("s") == (0, b"o" * 32)
                reader.close()

        run(work)

    def test_an_unknown_session_is_not_found(self, place: StorePlace) -> None:
        async def work() -> None:
            async with opened(place) as log:
                reader = place.reader()
                for ask in (log.read, log.head, log.take_over):
                    with pytest.raises(SessionNotFound, match="'x'"):
                        await ask("x")
                for look in (reader.events, reader.head, reader.verify_chain):
                    with pytest.raises(SessionNotFound, match="'x'"):
                        look("x")
                reader.close()

        run(work)

    def test_sessions_are_listed_newest_first(self, place: StorePlace) -> None:
        async def work() -> None:
            async with opened(place) as log:
                assert await log.sessions() == []
                for name, created in (("old", 10), ("new", 30), ("middle", 20), ("middle, later", 20)):
                    await log.create(name, created, f"title of {name}")
                await added(log, "new", 1, events(1, 4))
                rows = await log.sessions()
                assert [row.session_id for row in rows] == ["new", "middle, later", "middle", "old"]
                assert (rows[0].head, rows[0].epoch, rows[0].created_ms) == (4, 1, 30)
                assert rows[0].title == "title of new"
                reader = place.reader()
                assert reader.sessions() == rows
                reader.close()

        run(work)

    # --- readers and writers at once ----------------------------------------------

    @pytest.mark.slow
    def test_a_reader_sees_whole_batches_while_they_are_written(self, place: StorePlace) -> None:
        async def work() -> None:
            async with opened(place) as log:
                await log.create("s", 1, "")
                reader = place.reader()

                async def write() -> None:
                    for first in range(1, 801, 20):
                        await added(log, "s", 1, events(first, first + 19))

                writing = asyncio.create_task(write())
                while not writing.done():
                    head = reader.head("s")
                    rows = reader.events("s")
                    assert head.seq % 20 == 0
                    assert len(rows) % 20 == 0
                    assert len(rows) >= head.seq
                    assert reader.verify_chain("s").seq >= len(rows)
                    await asyncio.sleep(0)
                await writing
                assert reader.verify_chain("s").seq == 800
                reader.close()

        run(work)

    def test_what_was_acknowledged_is_seen_at_once_by_everybody(self, place: StorePlace) -> None:
        async def work() -> None:
            async with opened(place) as log:
                await log.create("s", 1, "")
                reader = place.reader()
                for seq in range(1, 20):
                    head = await added(log, "s", 1, events(seq, seq))
                    assert reader.head("s") == head == await log.head("s")
                    assert [row.seq for row in reader.events("s", seq)] == [seq]
                reader.close()

        run(work)

    def test_the_owner_may_be_asked_many_things_at_once(self, place: StorePlace) -> None:
        async def work() -> None:
            async with opened(place) as log:
                await log.create("s", 1, "")

                async def write() -> None:
                    for first in range(1, 201, 10):
                        await added(log, "s", 1, events(first, first + 9))

                async def look() -> None:
                    for _ in range(20):
                        seq = (await log.head("s")).seq
                        rows = await log.read("s")
                        assert seq % 10 == 0
                        assert len(rows) >= seq
                        assert same(rows, events(1, len(rows)))

                async def make(name: str) -> None:
                    for number in range(10):
                        await log.create(f"{name}{number}", 1, "")
                        await log.take_over(f"{name}{number}")

                await asyncio.gather(write(), look(), look(), make("a"), make("b"))
                assert (await log.head("s")).seq == 200
                assert len(await log.sessions()) == 21

        run(work)
