"""Damage in the tables is found by its event, and forks are read through all their segments."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

import pytest

from callboard.actors.protocol.errors import CorruptLog, SessionNotFound
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.protocol import GENESIS, TAIL_EVENTS, Head
from callboard.runtime.log.session_rows import Details
from tests.postgres_server import execute
from tests.runtime.log.kit import added, events, large, run
from tests.runtime.log.postgres.places import OnServer, on_server
from tests.runtime.log.transcripts import compare
from tests.tables import table

COUNT = TAIL_EVENTS + 20


async def fill(place: OnServer) -> None:
    log = place.log()
    await log.open()
    await log.create("s", 1, "title")
    await added(log, "s", 1, [*events(1, 4), large(5), *events(6, COUNT - 1), large(COUNT, 4_000, "y")])
    await log.fork("f", 2, "", "s", 7)
    await added(log, "f", 1, events(8, 9))
    await log.close()


@contextmanager
def filled(place: OnServer) -> Iterator[None]:
    """Fill a place, unless it is, and take a row's damage back: to fill it takes ten times as long."""
    names = ("sessions", "events", "blobs", "uses")
    if execute(f"SELECT to_regclass('{place.schema}.meta')::text") == [(None,)] or not execute(
        f"SELECT 1 FROM {place.schema}.sessions LIMIT 1"
    ):
        run(lambda: fill(place))
    execute("; ".join(f"CREATE TEMP TABLE was_{one} AS SELECT * FROM {place.schema}.{one}" for one in names))
    try:
        yield
    finally:
        execute("; ".join(f"DELETE FROM {place.schema}.{one}" for one in names[::-1]))
        for one in names:
            execute(f"INSERT INTO {place.schema}.{one} OVERRIDING SYSTEM VALUE SELECT * FROM was_{one}")
            execute(f"DROP TABLE was_{one}")


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


def test_the_tables_of_an_encrypted_log_hold_what_one_in_memory_holds() -> None:
    with on_server(b"k" * 32) as place:
        compare(MemoryLog(), place.log(), place.reader)


def test_sessions_stand_where_they_end_and_those_that_cannot_be_there_nowhere(place: OnServer) -> None:
    async def work() -> None:
        await fill(place)
        log = place.log()
        await log.open()
        asked = [("s", 3), ("f", 9), ("none", 1), ("\0", 1)]
        found = await log.standings(asked)
        assert {name: one and (one.head, one.is_closed) for name, one in found.items()} == {
            "s": (COUNT, False), "none": None, "\0": None,
        }  # fmt: skip
        assert await log.standings([("f", 1 << 70)]) != {}, "a seq that no session reaches"
        await log.close()

    run(work)


@table(
    ("statement", "said"),
    [
        ("UPDATE {s}.sessions SET head = 10 WHERE id = 1", "comes after the last|is not the one"),
        ("UPDATE {s}.sessions SET digest = origin WHERE id = 1", "is not the one that its session ends with"),
        ("UPDATE {s}.sessions SET digest = '\\x00' WHERE id = 1", "its row in the table sessions is damaged"),
        ("UPDATE {s}.sessions SET epoch = 0 WHERE id = 1", "its row in the table sessions is damaged"),
        ("UPDATE {s}.sessions SET origin = '\\x00' WHERE id = 1", "continues no digest"),
        ("UPDATE {s}.sessions SET base = 3 WHERE id = 1", "its row in the table sessions is damaged"),
    ],
)
def test_a_damaged_row_of_a_session_is_found(place: OnServer, statement: str, said: str) -> None:
    with filled(place):
        execute(statement.format(s=place.schema))
        with place.reader() as reader, pytest.raises(CorruptLog, match=said):
            reader.verify_chain("s")


def test_pages_of_a_fork_begin_and_end_at_any_event(place: OnServer) -> None:
    run(lambda: fill(place))
    execute(  # no session has an event of its own among those that it shares
        f"INSERT INTO {place.schema}.events(session, seq, at, cause, sender, recipient, digest, body) "
        f"SELECT 2, 3, at, cause, sender, recipient, digest, body FROM {place.schema}.events "
        "WHERE session = 1 AND seq = 9"
    )
    with place.reader() as reader:
        assert reader.verify_chain("f") == reader.head("f")
        whole = reader.events("f")
        assert [one.seq for one in whole] == list(range(1, 10))
        for start, limit in product((1, 2, 6, 7, 8, 9, 10), (1, 2, 3, 9)):
            assert reader.events("f", start, limit) == whole[start - 1 :][:limit]
        for address in {one.recipient for one in whole}:
            own = [one for one in whole if address in (one.recipient, one.sender)]
            for first, last, limit in product((1, 2, 7, 8), (7, 8, 9), (1, 2, 9)):
                wanted = [one for one in own if first <= one.seq <= last][:limit]
                assert reader.events_of("f", address, first, last, limit) == wanted


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


def test_a_deleted_session_is_there_for_its_forks_only(place: OnServer) -> None:
    async def work() -> None:
        await fill(place)
        log = place.log()
        await log.open()
        await log.delete("s", keep_forks=True)
        assert [one.seq for one in await log.checked("f")] == list(range(1, 10))
        await log.close()

    run(work)
    with place.reader() as reader:
        tables = reader._tables
        for name in ("s", "none", "\0"):
            for ask in (tables.details_of, tables.entry):
                with pytest.raises(SessionNotFound):
                    ask(name)
        assert tables.details_of("f") == Details()
        entry = tables.entry("s", hidden=True)
        (page,) = tables.checked_pages(HashChain(), entry, 7)  # its other events are not purged yet
        assert [one.seq for one in page] == list(range(1, 8))
        with pytest.raises(SessionNotFound):
            reader.events("s")
        assert len(tables.events("s", 1, 7, hidden=True)) == 7


@table("change", ["parent = 'nobody'", "base = 2000", "parent = 'f'"])
def test_a_fork_without_its_parent_is_damage(place: OnServer, change: str) -> None:
    with filled(place):
        execute(f"UPDATE {place.schema}.sessions SET head = 3000, {change} WHERE id = 2")
        with place.reader() as reader, pytest.raises(CorruptLog, match="has no event"):
            reader.events("f")


def test_damaged_titles_and_details_hide_no_session(place: OnServer) -> None:
    run(lambda: fill(place))
    execute(f"UPDATE {place.schema}.sessions SET details = 'x' WHERE id = 1")
    execute(f"UPDATE {place.schema}.sessions SET status = 'odd' WHERE id = 2")
    with place.reader() as reader:
        with pytest.raises(CorruptLog, match="damaged"):
            reader.sessions()
        execute(f"DELETE FROM {place.schema}.sessions WHERE id = 2")
        (row,) = reader.sessions()
    assert (row.title, row.tags) == ("title", ())


def test_ids_that_no_text_of_the_server_can_be_are_not_found(place: OnServer) -> None:
    run(lambda: fill(place))
    with place.reader() as reader:
        for name in ("a\0b", "\ud800"):
            with pytest.raises(LookupError):
                reader.head(name)
            assert reader.events_of("s", name, 1, 9) == []
