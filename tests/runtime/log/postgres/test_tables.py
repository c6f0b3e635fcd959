"""Damage in the tables is found by its event, and forks are read through all their segments."""

import pytest

from callboard.actors.protocol.errors import CorruptLog
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.protocol import TAIL_EVENTS
from tests.postgres_server import execute
from tests.runtime.log.kit import added, events, large, run
from tests.runtime.log.postgres.places import OnServer, on_server
from tests.runtime.log.transcripts import compare

COUNT = TAIL_EVENTS + 20


async def fill(place: OnServer) -> None:
    log = place.log()
    await log.open()
    await log.create("s", 1, "title")
    await added(log, "s", 1, [*events(1, 4), large(5), *events(6, COUNT - 1), large(COUNT, 4_000, "y")])
    await log.fork("f", 2, "", "s", 7)
    await added(log, "f", 1, events(8, 9))
    await log.close()


DAMAGE = [
    ("UPDATE {s}.events SET at = at + 1 WHERE session = 1 AND seq = {n}", "does not match"),
    ("UPDATE {s}.events SET sender = 'x' WHERE session = 1 AND seq = {n}", "does not match"),
    ("UPDATE {s}.events SET body = body || ' ' WHERE session = 1 AND seq = {n}", "does not match"),
    ("UPDATE {s}.events SET digest = '\\x00' WHERE session = 1 AND seq = {n}", "does not match"),
    ("DELETE FROM {s}.events WHERE session = 1 AND seq = {n}", "is missing"),
    ("UPDATE {s}.events SET cuts = '[]' WHERE session = 1 AND seq = {n} + 1", "does not match"),
    ("UPDATE {s}.events SET cuts = 'x' WHERE session = 1 AND seq = {n} + 1", "damaged place"),
    ("UPDATE {s}.blobs SET data = data || ' '", "does not match"),
    ("DELETE FROM {s}.uses; DELETE FROM {s}.blobs", "lacks a large value"),
]


@pytest.mark.parametrize(("statement", "said"), DAMAGE)
def test_each_damage_in_the_tail_is_found_before_a_session_is_taken_over(
    place: OnServer, statement: str, said: str
) -> None:
    async def work() -> None:
        await fill(place)
        execute(statement.format(s=place.schema, n=COUNT - 1))
        log = place.log()
        await log.open()
        with pytest.raises(CorruptLog, match=said):
            await log.take_over("s")
        with pytest.raises(CorruptLog, match=said):
            await log.checked("s")
        epochs = {row.session_id: row.epoch for row in await log.sessions()}
        assert epochs == {"s": 1, "f": 1}
        await log.close()

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


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE {s}.sessions SET head = 10 WHERE id = 1", "comes after the last|is not the one"),
        ("UPDATE {s}.sessions SET digest = origin WHERE id = 1", "is not the one that its session ends with"),
        ("UPDATE {s}.sessions SET epoch = 0 WHERE id = 1", "its row in the table sessions is damaged"),
        ("UPDATE {s}.sessions SET origin = '\\x00' WHERE id = 1", "continues no digest"),
        ("UPDATE {s}.sessions SET base = 3 WHERE id = 1", "its row in the table sessions is damaged"),
    ],
)
def test_a_damaged_row_of_a_session_is_found(place: OnServer, statement: str, said: str) -> None:
    run(lambda: fill(place))
    execute(statement.format(s=place.schema))
    with place.reader() as reader, pytest.raises(CorruptLog, match=said):
        reader.verify_chain("s")


@pytest.mark.parametrize("change", ["parent = 'nobody'", "base = 2000", "parent = 'f'"])
def test_a_fork_without_its_parent_is_damage(place: OnServer, change: str) -> None:
    run(lambda: fill(place))
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
