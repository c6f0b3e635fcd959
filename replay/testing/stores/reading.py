"""Cases for the reads of a store: bodies, pages, heads and lists, beside a writer and after it."""

import asyncio
from contextlib import closing

import msgspec
import pytest

from callboard.actors.protocol.client_messages import Ask, Cancel, SessionOpened
from callboard.actors.protocol.codec import decode
from callboard.actors.protocol.errors import SessionNotFound
from callboard.actors.protocol.messages import Finished
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.profiles import ModelSpec
from callboard.replay.testing.stores.events import (
    StorePlace,
    added,
    event,
    events,
    json_text,
    large,
    on_loops,
    opened,
    same,
)

_ODD = {
    "1 MiB": json_text(1_048_576),
    "odd characters": msgspec.Raw('{"\\u0000": "\\u0001\u2028\u2029\N{SNOWMAN}\N{PILE OF POO}"}'.encode()),
    "NUL escapes": msgspec.Raw(b'"' + b"\\u0000" * 500 + b'"'),
    "odd spacing": msgspec.Raw(b' { "b" : 1.0e2, "a" : [ 1e400 , null ] , "b" : 2 } ' + b" " * 2_000),
    "deep": msgspec.Raw(b"[" * 400 + b"]" * 400 + b" " * 300),
    "a long null": msgspec.Raw(b"null" + b" " * 2_000),
    "a long number": msgspec.Raw(b"9" * 3_000),
}  # fmt: skip


@on_loops
class ReadingCases:
    """Reading, by the owner and by readers."""

    async def test_events_come_back_in_order_and_byte_for_byte(self, place: StorePlace) -> None:
        posted = [*events(1, 700), large(701), *events(702, 900)]
        async with opened(place) as log:
            epoch = await log.create("s", 5, "a title")
            head = await added(log, "s", epoch, posted[:300])
            assert head.seq == 300
            head = await added(log, "s", epoch, posted[300:])
            assert same(await log.read("s"), posted)
            assert await log.head("s") == head
        with closing(place.reader()) as reader:
            assert same(reader.events("s"), posted)
            assert reader.verify_chain("s") == reader.head("s")

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
            (31, 10, 31, 30),  # empty
            (1, 0, 1, 0),
            (30, 0, 30, 29),
            (2**40, 10, 31, 30),
        ],
    )
    async def test_a_page_begins_and_ends_where_it_is_asked_to(
        self, place: StorePlace, start: int, limit: int, first: int, last: int
    ) -> None:
        async with opened(place, sessions="abc") as log:
            for name in "abc":
                await added(log, name, 1, events(1, 30))
            with closing(place.reader()) as reader:
                page = await log.read("b", start, limit)
                assert [row.seq for row in page] == list(range(first, last + 1))
                assert reader.events("b", start, limit) == page

    async def test_a_session_without_events_is_there_and_empty(self, place: StorePlace) -> None:
        async with opened(place) as log:
            await log.create("s", 1, "", b"o" * 32)
            with closing(place.reader()) as reader:
                assert await log.read("s") == reader.events("s") == []
                assert await log.head("s") == reader.head("s") == reader.verify_chain("s")
                assert await log.head("s") == (0, b"o" * 32)

    async def test_an_unknown_session_is_not_found(self, place: StorePlace) -> None:
        async with opened(place) as log:
            with closing(place.reader()) as reader:
                for ask in (log.read, log.head, log.take_over):
                    with pytest.raises(SessionNotFound, match="'x'"):
                        await ask("x")
                for look in (reader.events, reader.head, reader.verify_chain):
                    with pytest.raises(SessionNotFound, match="'x'"):
                        look("x")

    async def test_sessions_are_listed_newest_first(self, place: StorePlace) -> None:
        async with opened(place) as log:
            assert await log.sessions() == []
            for name, created in (("old", 10), ("new", 30), ("middle", 20), ("middle, later", 20)):
                await log.create(name, created, f"title of {name}")
            await added(log, "new", 1, events(1, 4))
            rows = await log.sessions()
            assert [row.session_id for row in rows] == ["new", "middle, later", "middle", "old"]
            assert (rows[0].head, rows[0].epoch, rows[0].created_ms) == (4, 1, 30)
            assert rows[0].title == "title of new"
            with closing(place.reader()) as reader:
                assert reader.sessions() == rows

    # --- bodies and envelopes, large and odd -----------------------------------------

    @pytest.mark.parametrize("what", _ODD)
    async def test_foreign_json_comes_back_as_its_own_bytes(self, place: StorePlace, what: str) -> None:
        raw = _ODD[what]
        posted = [
            event(1, ToolReturned(turn=1, call=0, status="ok", output=raw)),
            event(2, Ask("r", raw, schema=raw)),
            event(3, SessionOpened(1, "h", (raw, msgspec.Raw(b"{}"), raw), ModelSpec(name="m"))),
            event(4, Finished("answered", bytes(raw).decode())),
        ]
        async with opened(place, sessions="s") as log:
            await added(log, "s", 1, posted)
            stored = await log.read("s")
            assert same(stored, posted)
            assert [type(decode(row.body)) for row in stored] == [type(one.body) for one in posted]
            with closing(place.reader()) as reader:
                assert reader.events("s") == stored
                reader.verify_chain("s")

    async def test_names_and_titles_may_be_any_text(self, place: StorePlace) -> None:
        odd = "s'\"; DROP TABLE events; --\u2028\N{SNOWMAN} %"
        async with opened(place) as log:
            await log.create(odd, 1, odd)
            await added(log, odd, 1, [event(1, sender="host.1'", recipient="h\N{SNOWMAN}st")])
            with closing(place.reader()) as reader:
                assert reader.sessions()[0].title == odd
                assert reader.events(odd)[0].recipient == "h\N{SNOWMAN}st"
                reader.verify_chain(odd)

    async def test_numbers_of_an_envelope_may_be_as_large_as_sixty_three_bits(
        self, place: StorePlace
    ) -> None:
        most = (1 << 63) - 1
        posted = [event(1, at=0, cause=0), event(2, at=most, cause=most), event(3, at=-1)]
        async with opened(place) as log:
            await log.create("s", most, "")
            await added(log, "s", 1, posted)
            assert same(await log.read("s"), posted)
            assert (await log.sessions())[0].created_ms == most
        with closing(place.reader()) as reader:
            assert reader.verify_chain("s").seq == 3

    async def test_a_batch_may_be_large_in_events_and_in_bytes(self, place: StorePlace) -> None:
        posted = [*events(1, 2_000), large(2_001, 3_000_000), event(2_002, Cancel("r" * 1_000_000))]
        async with opened(place, sessions="s") as log:
            await added(log, "s", 1, posted)
            assert same(await log.read("s"), posted)

    async def test_equal_large_values_of_many_events_and_sessions_all_come_back(
        self, place: StorePlace
    ) -> None:
        posted = [large(seq, 2_000 + seq % 2) for seq in range(1, 7)]
        async with opened(place, sessions="ab") as log:
            for name in "ab":
                await added(log, name, 1, posted[:3])
                await added(log, name, 1, posted[3:])
            for name in "ab":
                assert same(await log.read(name), posted)

    # --- readers and writers at once ----------------------------------------------

    @pytest.mark.slow
    async def test_a_reader_sees_whole_batches_while_they_are_written(self, place: StorePlace) -> None:
        async with opened(place, sessions="s") as log:
            with closing(place.reader()) as reader:

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

    async def test_what_was_acknowledged_is_seen_at_once_by_everybody(self, place: StorePlace) -> None:
        async with opened(place, sessions="s") as log:
            with closing(place.reader()) as reader:
                for seq in range(1, 20):
                    head = await added(log, "s", 1, events(seq, seq))
                    assert reader.head("s") == head == await log.head("s")
                    assert [row.seq for row in reader.events("s", seq)] == [seq]

    async def test_the_owner_may_be_asked_many_things_at_once(self, place: StorePlace) -> None:
        async with opened(place, sessions="s") as log:

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
