"""Digests are recomputed as events are read: damage is found by its event, wherever a check begins."""

from itertools import product

import pytest

from callboard.actors.protocol.errors import CorruptLog
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.protocol import GENESIS, Head
from tests.postgres_server import execute
from tests.runtime.log.kit import added, events, run
from tests.runtime.log.postgres.places import COUNT, OnServer, fill, filled
from tests.tables import table

DAMAGE = [
    ("UPDATE {s}.events SET at = at + 1 WHERE session = 1 AND seq = {n}", "does not match"),
    ("UPDATE {s}.events SET sender = 'x' WHERE session = 1 AND seq = {n}", "does not match"),
    ("UPDATE {s}.events SET body = body || ' ' WHERE session = 1 AND seq = {n}", "does not match"),
    ("UPDATE {s}.events SET digest = '\\x00' WHERE session = 1 AND seq = {n}", "does not match"),
    ("DELETE FROM {s}.events WHERE session = 1 AND seq = {n}", "is missing"),
    ("DELETE FROM {s}.events WHERE session = 1 AND seq = 20", "event 20 is missing"),  # the tail follows it
    ("UPDATE {s}.events SET cuts = '[]' WHERE session = 1 AND seq = {n} + 1", "does not match"),
    ("UPDATE {s}.events SET cuts = 'x' WHERE session = 1 AND seq = {n} + 1", "damaged place"),
    ("UPDATE {s}.blobs SET data = data || ' '", "does not match"),
    ("DELETE FROM {s}.uses; DELETE FROM {s}.blobs", "lacks a large value"),
]


@table(("statement", "said"), DAMAGE)
def test_each_damage_in_the_tail_is_found_before_a_session_is_taken_over(
    place: OnServer, statement: str, said: str
) -> None:
    async def work() -> None:
        execute(statement.format(s=place.schema, n=COUNT - 1))
        log = place.log()
        await log.open()
        with pytest.raises(CorruptLog, match=said) as caught:
            await log.take_over("s")
        assert caught.value.session_id == "s"
        with pytest.raises(CorruptLog, match=said):
            await log.checked("s")
        epochs = {row.session_id: row.epoch for row in await log.sessions()}
        assert epochs == {"s": 1, "f": 1}
        await log.close()

    with filled(place):
        run(work)


def test_damage_before_the_tail_is_found_by_reading_and_by_a_fork(place: OnServer) -> None:
    async def work() -> None:
        await fill(place)
        execute(f"UPDATE {place.schema}.events SET cause = 0 WHERE session = 1 AND seq = 3")
        log = place.log()
        await log.open()
        assert (await log.take_over("s"))[0] == 2
        for ask in (log.checked("s"), log.checked("f"), log.fork("g", 1, "", "s", 9)):
            with pytest.raises(CorruptLog, match="event 3 does not match") as caught:
                await ask
            assert caught.value.seq == 3
        await log.close()

    run(work)


def test_checked_pages_go_from_a_checked_head_to_a_limit(place: OnServer) -> None:
    async def work() -> None:
        await fill(place)
        log = place.log()
        await log.open()
        await log.create("empty", 3, "a\0b")
        whole = await log.read("s")
        heads = [None, *(Head(one.seq, one.digest) for one in whole)]
        for after, limit in product((0, 1, 5, COUNT), (1, 5, COUNT)):
            assert await log.checked("s", heads[after], limit) == whole[after : after + limit]
        assert await log.checked("empty") == []
        with place.reader() as reader:
            assert reader.verify_chain("empty") == reader.head("empty") == Head(0, GENESIS)
            assert reader.sessions()[0].title == "a\N{REPLACEMENT CHARACTER}b"
        execute(f"UPDATE {place.schema}.sessions SET digest = origin WHERE session_id = 's'")
        assert len(await log.checked("s", limit=COUNT - 1)) == COUNT - 1
        with pytest.raises(CorruptLog, match="is not the one that its session ends with"):
            await log.checked("s", heads[5])
        await log.close()

    run(work)


def test_an_event_behind_the_last_one_is_found_wherever_the_check_begins(place: OnServer) -> None:
    async def begin() -> None:
        await fill(place)
        log = place.log()
        await log.open()
        await log.fork("base", 3, "", "s", 7)
        await log.create("empty", 4, "")
        await log.close()

    run(begin)
    with place.reader() as reader:
        tables, chain = reader._tables, HashChain()
        whole, stale = reader.events("s"), tables.entry("s")
        for name, after in (("s", 0), ("s", COUNT - 5), ("s", COUNT), ("base", 0), ("empty", 0)):
            entry = tables.entry(name)
            head = Head(after, whole[after - 1].digest) if after else None
            seq = entry.head.seq + 1
            list(tables.checked_pages(chain, entry, seq - 1, after=head))
            columns = "session, seq, at, cause, sender, recipient, digest, body"
            row = f"{entry.number}, {seq}, 0, 0, 'x', 'x', '', ''"
            execute(f"INSERT INTO {place.schema}.events({columns}) VALUES ({row})")
            with pytest.raises(CorruptLog, match=f"event {seq} comes after the last one"):
                list(tables.checked_pages(chain, entry, seq - 1, after=head))
            execute(f"DELETE FROM {place.schema}.events WHERE session = {entry.number} AND seq = {seq}")

        run(lambda: append_one(place))
        pages = tables.checked_pages(chain, stale, COUNT)  # its owner has gone on meanwhile
        assert [one.seq for page in pages for one in page][-1] == COUNT


async def append_one(place: OnServer) -> None:
    log = place.log()
    await log.open()
    epoch, _ = await log.take_over("s")
    await added(log, "s", epoch, events(COUNT + 1, COUNT + 1))
    await log.close()
