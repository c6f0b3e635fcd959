"""What events may hold: large values, odd text, extreme numbers. They come back to the byte."""

import msgspec
import pytest

from callboard.actors.protocol.codec import decode
from callboard.actors.protocol.messages import Ask, Cancel, Finished, SessionOpened, ToolReturned
from callboard.actors.protocol.profiles import ModelSpec
from callboard.replay.testing.stores.events import added, event, events, json_text, large, run, same
from callboard.replay.testing.stores.store_place import StorePlace, opened

_ODD = {
    "1 MiB": json_text(1_048_576),
    "odd characters": msgspec.Raw('{"\\u0000": "\\u0001\u2028\u2029\N{SNOWMAN}\N{PILE OF POO}"}'.encode()),
    "NUL escapes": msgspec.Raw(b'"' + b"\\u0000" * 500 + b'"'),
    "odd spacing": msgspec.Raw(b' { "b" : 1.0e2, "a" : [ 1e400 , null ] , "b" : 2 } ' + b" " * 2_000),
    "deep": msgspec.Raw(b"[" * 400 + b"]" * 400 + b" " * 300),
    "a long null": msgspec.Raw(b"null" + b" " * 2_000),
    "a long number": msgspec.Raw(b"9" * 3_000),
}  # fmt: skip


class BodyCases:
    """Bodies and envelopes, large and odd."""

    @pytest.mark.parametrize("what", _ODD)
    def test_foreign_json_comes_back_as_its_own_bytes(self, place: StorePlace, what: str) -> None:
        raw = _ODD[what]
        posted = [
            event(1, ToolReturned(turn=1, call=0, status="ok", output=raw)),
            event(2, Ask("r", raw, schema=raw)),
            event(3, SessionOpened(1, "h", (raw, msgspec.Raw(b"{}"), raw), ModelSpec(name="m"))),
            event(4, Finished("answered", bytes(raw).decode())),
        ]

        async def work() -> None:
            async with opened(place) as log:
                await log.create("s", 1, "")
                await added(log, "s", 1, posted)
                stored = await log.read("s")
                assert same(stored, posted)
                assert [type(decode(row.body)) for row in stored] == [type(one.body) for one in posted]
                reader = place.reader()
                assert reader.events("s") == stored
                reader.verify_chain("s")
                reader.close()

        run(work)

    def test_names_and_titles_may_be_any_text(self, place: StorePlace) -> None:
        odd = "s'\"; DROP TABLE events; --\u2028\N{SNOWMAN} %"

        async def work() -> None:
            async with opened(place) as log:
                await log.create(odd, 1, odd)
                await added(log, odd, 1, [event(1, sender="host.1'", recipient="h\N{SNOWMAN}st")])
                reader = place.reader()
                assert reader.sessions()[0].title == odd
                assert reader.events(odd)[0].recipient == "h\N{SNOWMAN}st"
                reader.verify_chain(odd)
                reader.close()

        run(work)

    def test_numbers_of_an_envelope_may_be_as_large_as_sixty_three_bits(self, place: StorePlace) -> None:
        most = (1 << 63) - 1
        posted = [event(1, at=0, cause=0), event(2, at=most, cause=most), event(3, at=-1)]

        async def work() -> None:
            async with opened(place) as log:
                await log.create("s", most, "")
                await added(log, "s", 1, posted)
                assert same(await log.read("s"), posted)
                assert (await log.sessions())[0].created_ms == most

        run(work)
        reader = place.reader()
        assert reader.verify_chain("s").seq == 3
        reader.close()

    def test_a_batch_may_be_large_in_events_and_in_bytes(self, place: StorePlace) -> None:
        posted = [*events(1, 2_000), large(2_001, 3_000_000), event(2_002, Cancel("r" * 1_000_000))]

        async def work() -> None:
            async with opened(place) as log:
                await log.create("s", 1, "")
                await added(log, "s", 1, posted)
                assert same(await log.read("s"), posted)

        run(work)

    def test_equal_large_values_of_many_events_and_sessions_all_come_back(self, place: StorePlace) -> None:
        async def work() -> None:
            async with opened(place) as log:
                for name in "ab":
                    await log.create(name, 1, "")
                    for first in (1, 4):
                        more = [large(seq, 2_000 + seq % 2) for seq in range(first, first + 3)]
                        await added(log, name, 1, more)
                for name in "ab":
                    assert same(await log.read(name), [large(seq, 2_000 + seq % 2) for seq in range(1, 7)])

        run(work)
