"""The chain of digests: its inputs, and the damage that a reader finds by it."""

import pytest

from callboard.actors.protocol.errors import CorruptLog, MisuseError
from callboard.replay.testing.stores.events import added, events, large, run
from callboard.replay.testing.stores.store_place import StorePlace, opened
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.protocol import GENESIS, Head


class ChainCases:
    """Digests, keys, heads that were kept."""

    @pytest.mark.parametrize("key", [None, b"a key"])
    def test_digests_are_those_that_anybody_computes(self, place: StorePlace, key: bytes | None) -> None:
        posted = [*events(1, 3), large(4), *events(5, 6)]
        digest, chain = b"o" * 32, HashChain(key)
        for one in posted:
            digest = chain.seal("s", digest, one).digest

        async def work() -> None:
            async with opened(place, key) as log:
                await log.create("s", 1, "", b"o" * 32)
                assert await added(log, "s", 1, posted) == Head(6, digest)
                assert (await log.read("s", 6))[0].digest == digest

        run(work)

    def test_digests_depend_on_session_and_origin(self, place: StorePlace) -> None:
        async def work() -> None:
            async with opened(place) as log:
                heads = set()
                for name, origin in (("a", GENESIS), ("b", GENESIS), ("c", b"c" * 32)):
                    await log.create(name, 1, "", origin)
                    assert await log.head(name) == Head(0, origin)
                    heads.add((await added(log, name, 1, events(1, 3))).digest)
                assert len(heads) == 3
                reader = place.reader()
                for name in "abc":
                    reader.verify_chain(name)
                reader.close()

        run(work)

    def test_a_key_is_needed_to_verify_what_was_written_with_it(self, place: StorePlace) -> None:
        async def work() -> None:
            async with opened(place, b"secret") as log:
                await log.create("s", 1, "")
                await added(log, "s", 1, [*events(1, 3), large(4)])

        run(work)
        reader = place.reader()
        assert reader.verify_chain("s", b"secret").seq == 4
        for key in (None, b"guess"):
            with pytest.raises(MisuseError, match="digest key"):
                reader.verify_chain("s", key)
        reader.close()

    def test_a_head_that_was_acknowledged_must_still_be_there(self, place: StorePlace) -> None:
        async def work() -> list[Head]:
            async with opened(place) as log:
                await log.create("s", 1, "")
                return [await added(log, "s", 1, events(seq, seq)) for seq in range(1, 6)]

        heads = run(work)
        reader = place.reader()
        for head in heads:
            assert reader.verify_chain("s", head=head) == heads[-1]
        with pytest.raises(CorruptLog, match="acknowledged") as caught:
            reader.verify_chain("s", head=Head(2, heads[2].digest))
        assert caught.value.seq == 2
        with pytest.raises(CorruptLog, match="missing") as caught:
            reader.verify_chain("s", head=Head(6, heads[2].digest))
        assert (caught.value.session_id, caught.value.seq) == ("s", 6)
        reader.close()

    def test_the_head_of_an_empty_session_is_checked_too(self, place: StorePlace) -> None:
        async def work() -> None:
            async with opened(place) as log:
                await log.create("s", 1, "", b"o" * 32)
                await added(log, "s", 1, events(1, 3))

        run(work)
        reader = place.reader()
        assert reader.verify_chain("s", head=Head(0, b"o" * 32)).seq == 3
        with pytest.raises(CorruptLog):
            reader.verify_chain("s", head=Head(0, b"p" * 32))
        reader.close()
