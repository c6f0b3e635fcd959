"""Damage in the tables is found by its event, and forks are read through all their segments."""

from itertools import product

import pytest

from callboard.actors.protocol.errors import CorruptLog, SessionNotFound
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.session_rows import Details
from tests.postgres_server import execute
from tests.runtime.log.kit import run
from tests.runtime.log.postgres.places import COUNT, OnServer, fill, filled, on_server
from tests.runtime.log.transcripts import compare
from tests.tables import table


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


ROW = "its row in the table sessions is damaged"


@table(
    "session, change, said",
    [
        ("s", "head = 10", "comes after the last|is not the one"),
        ("s", "digest = origin", "is not the one that its session ends with"),
        ("s", "digest = '\\x00'", ROW),
        ("s", "epoch = 0", ROW),
        ("s", "origin = '\\x00'", "continues no digest"),
        ("s", "base = 3", ROW),
        ("f", "base = -1", ROW),
        ("f", "base = 10", ROW),
        ("f", "parent = ''", ROW),
    ],
)
def test_a_damaged_row_of_a_session_is_found(place: OnServer, session: str, change: str, said: str) -> None:
    with filled(place):
        execute(f"UPDATE {place.schema}.sessions SET {change} WHERE session_id = '{session}'")
        with place.reader() as reader, pytest.raises(CorruptLog, match=said):
            reader.verify_chain(session)


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
