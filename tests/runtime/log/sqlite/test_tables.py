"""The tables of a log as they are read: sessions, segments of forks, events, and damaged rows."""

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import CorruptLog, SessionNotFound
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.protocol import GENESIS, Head
from callboard.runtime.log.session_rows import Details, SessionQuery
from callboard.runtime.log.sqlite import tables as tables_module
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.meta import find_cipher
from callboard.runtime.log.sqlite.schema import SEQ_BITS, SEQ_MAX
from callboard.runtime.log.sqlite.tables import SessionEntry, Tables, _is_sound, _text
from tests.runtime.log.kit import added, event, events, large, run, write_some
from tests.runtime.log.transcripts import answer_alike


@pytest.fixture(params=[None, b"e" * 32], ids=["readable", "encrypted"])
def tables(path: Path, request: pytest.FixtureRequest) -> Iterator[Tables]:
    """Return the tables of a log with a session `a` of 6 events, its fork `f` at 4, and `g`, of `f` at 5."""

    async def write() -> None:
        log = SQLiteLog(path, encryption_key=request.param)
        await log.open()
        await log.create("a", 10, "first")
        await added(log, "a", 1, events(1, 6))
        await log.fork("f", 20, "second", "a", 4)
        await added(log, "f", 1, [event(5, sender="host", recipient="clock"), event(6, sender="clock")])
        await log.fork("g", 30, "third", "f", 5)
        await added(log, "g", 1, [event(6)])
        await log.create("empty", 40, "fourth")
        await log.close()

    run(write)
    connection = sqlite3.connect(path, isolation_level=None)
    yield Tables(connection, find_cipher(connection, path, request.param))
    connection.close()


def change(tables: Tables, sql: str, *values: object) -> None:
    tables._connection.execute(sql, values)


def seqs(rows: list[Any]) -> list[int]:
    return [row.seq for row in rows]


# --- sessions ------------------------------------------------------------------------------------------


def test_an_entry_has_the_values_of_its_row(tables: Tables) -> None:
    entry = tables.entry("a")
    assert (entry.session_id, entry.epoch, entry.head, entry.origin) == ("a", 1, 6, GENESIS)
    assert (entry.parent, entry.base, entry.is_hidden) == ("", 0, False)
    fork = tables.entry("f")
    assert (fork.parent, fork.base, fork.head) == ("a", 4, 6)
    assert fork.segment.before == Head(4, fork.origin)
    with pytest.raises(SessionNotFound):
        tables.entry("b")


def test_a_hidden_session_is_found_only_where_it_is_asked_for(tables: Tables) -> None:
    change(tables, "UPDATE sessions SET status = 'hidden' WHERE session_id = 'a'")
    with pytest.raises(SessionNotFound):
        tables.entry("a")
    assert tables.entry("a", hidden=True).is_hidden
    with pytest.raises(SessionNotFound):
        tables.events("a", 1, 9)
    assert seqs(tables.events("a", 2, 3, hidden=True)) == [2, 3, 4]
    assert [row.session_id for row in tables.sessions(SessionQuery())] == ["empty", "g", "f"]
    assert seqs(tables.events("f", 1, 100)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "damage",
    ["epoch = 0", "head = -1", f"head = {SEQ_MAX + 1}", "base = 2", "parent = 'f'", "origin = x'00'"],
)
def test_a_damaged_row_of_a_session_is_named(tables: Tables, damage: str) -> None:
    change(tables, f"UPDATE sessions SET {damage} WHERE session_id = 'a'")
    with pytest.raises(CorruptLog, match=r"session a"):
        tables.entry("a")


def test_the_number_of_a_session_has_31_bits(tables: Tables) -> None:
    for number, is_right in ((2**31 - 1, True), (2**31, False), (0, False)):
        change(tables, "UPDATE sessions SET id = ? WHERE session_id = 'empty'", number)
        with nullcontext() if is_right else pytest.raises(CorruptLog, match="session empty"):
            assert tables.entry("empty").number == number


@pytest.mark.parametrize("base", [7, 0, -1])
def test_the_base_of_a_fork_lies_in_its_own_events(tables: Tables, base: int) -> None:
    change(tables, "UPDATE sessions SET base = ? WHERE session_id = 'f'", base)
    with pytest.raises(CorruptLog, match="session f"):
        tables.entry("f")


def test_row_ids_are_those_of_the_events_that_are_its_own() -> None:
    entry = SessionEntry("f", 3, 1, 9, GENESIS, "a", 4, False, True)
    number = 3 << SEQ_BITS
    assert entry.ids() == (number | 5, number | SEQ_MAX)
    assert entry.ids(7, 8) == (number | 7, number | 8)
    assert entry.ids(2, SEQ_MAX + 9) == (number | 5, number | SEQ_MAX)
    assert entry.ids(SEQ_MAX + 9) == (number | SEQ_MAX, number | SEQ_MAX)


def test_the_lineage_of_a_fork_has_the_shared_part_of_each_session(tables: Tables) -> None:
    found = tables.lineage(tables.entry("g"))
    assert [(one.session_id, one.base, one.head) for one in found] == [("a", 0, 4), ("f", 4, 5), ("g", 5, 6)]
    assert tables.forks("a") == {"f": 4}
    assert tables.forks("g") == {}


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE sessions SET parent = 'gone' WHERE session_id = 'f'",
        "UPDATE sessions SET head = 3 WHERE session_id = 'a'",
        "UPDATE sessions SET base = 5, head = 5 WHERE session_id = 'f'",
    ],
)
def test_a_fork_without_its_shared_events_is_named(tables: Tables, damage: str) -> None:
    change(tables, damage)
    broken = "f" if "base" not in damage else "g"
    with pytest.raises(CorruptLog, match=f"session {broken} is a fork, and its parent"):
        tables.lineage(tables.entry("g"))


def test_the_head_is_the_last_event_or_the_one_that_a_fork_continues(tables: Tables) -> None:
    assert tables.head_of(tables.entry("a")).seq == 6
    assert tables.head_of(tables.entry("empty")) == Head(0, GENESIS)
    fork = tables.entry("f")._replace(head=4)
    assert tables.head_of(fork) == Head(4, fork.origin)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("DELETE FROM events", "is missing, and it was the last"),
        ("UPDATE events SET digest = 'text'", "has no digest"),
    ],
)
def test_a_last_event_that_is_damaged_is_named(tables: Tables, damage: str, said: str) -> None:
    entry = tables.entry("a")
    change(tables, f"{damage} WHERE id = ?", entry.ids(6)[0])
    with pytest.raises(CorruptLog, match=rf"event 6.*{said}"):
        tables.head_of(entry)


def test_sessions_are_listed_newest_first_by_what_is_asked(tables: Tables) -> None:
    def names(**query: Any) -> list[str]:
        return [row.session_id for row in tables.sessions(SessionQuery(**query))]

    assert names() == ["empty", "g", "f", "a"]
    assert names(limit=2) == ["empty", "g"]
    assert names(limit=0) == []
    after = tables.sessions(SessionQuery(limit=2))[-1].cursor
    assert names(after=after) == ["f", "a"]
    tables.write_details(tables.entry("f"), Details(tags=("red",)))
    change(tables, "UPDATE sessions SET last_ms = 10 * id, status = iif(id < 3, 'closed', 'open')")
    assert names(since_ms=20) == ["empty", "g", "f"]
    assert names(since_ms=21) == ["empty", "g"]
    assert names(status="closed") == ["f", "a"]
    assert names(status="closed", since_ms=20, limit=9) == ["f"]
    assert names(tag="red") == ["f"]
    assert names(tag="red", status="open") == []
    assert names(tag="blue") == []
    assert tables.details_of(tables.entry("f")).tags == ("red",)
    assert tables.details_of(tables.entry("a")) == Details()
    rows = tables.sessions(SessionQuery())
    assert [row.title for row in rows] == ["fourth", "third", "second", "first"]
    assert (rows[1].parent, rows[1].base) == ("f", 5)
    tables.write_details(tables.entry("f"), Details(("red",), {"a": 1}))
    (row,) = tables.sessions(SessionQuery(tag="red"))
    assert (row.session_id, row.tags, row.metadata) == ("f", ("red",), {"a": 1})


def test_details_and_titles_that_cannot_be_read_do_not_hide_their_session(tables: Tables) -> None:
    change(tables, "UPDATE sessions SET details = x'ff', title = x'ff' WHERE session_id = 'a'")
    (row,) = [one for one in tables.sessions(SessionQuery()) if one.session_id == "a"]
    assert (row.title, row.tags) == ("(a title that cannot be read)", ())
    assert tables.details("a", None) == Details()


def test_texts_that_are_missing_are_empty() -> None:
    assert _text(None) == ""


# --- events ----------------------------------------------------------------------------------------------


def test_the_events_of_a_fork_are_the_shared_ones_and_its_own(tables: Tables) -> None:
    assert seqs(tables.events("g", 1, 100)) == [1, 2, 3, 4, 5, 6]
    assert seqs(tables.events("g", 4, 2)) == [4, 5]
    assert seqs(tables.events("g", 6, 9)) == [6]
    assert tables.events("g", 7, 9) == []
    assert tables.events("g", 5, 1) == tables.events("f", 5, 1) != tables.events("a", 5, 1)
    assert seqs(tables.events("empty", 1, 9)) == []


def test_the_events_of_an_actor_are_those_that_it_received_or_posted(tables: Tables) -> None:
    own = tables.events_of("f", "host", 5, SEQ_MAX, 9)
    assert [(row.sender == "host", row.recipient == "host") for row in own] == [(True, False), (False, True)]
    assert seqs(own) == [5, 6]
    assert seqs(tables.events_of("f", "host", 1, 5, 9)) == [*seqs(tables.events_of("a", "host", 1, 4, 9)), 5]
    assert len(tables.events_of("f", "host", 1, SEQ_MAX, 1)) == 1


@pytest.mark.parametrize("damage", ["at = 'noon'", "cause = x'00'", "digest = 'text'"])
def test_a_field_of_another_type_is_named_with_its_event(tables: Tables, damage: str) -> None:
    entry = tables.entry("a")
    change(tables, f"UPDATE events SET {damage} WHERE id = ?", entry.ids(3)[0])
    with pytest.raises(CorruptLog, match="event 3"):
        tables.events("a", 1, 9)


def test_a_whole_session_verifies_and_a_changed_or_later_event_does_not(tables: Tables) -> None:
    chain = HashChain()
    for name in ("a", "f", "g"):
        entry = tables.entry(name)
        assert tables.verify(chain, entry) == tables.head_of(entry)
    with pytest.raises(CorruptLog):
        tables.verify(chain, tables.entry("a"), Head(6, b"x" * 32))
    with pytest.raises(CorruptLog):
        tables.verify(chain, tables.entry("a"), Head(7, b"x" * 32))
    cut = tables.entry("a")._replace(head=5)
    change(tables, "UPDATE sessions SET head = 5 WHERE session_id = 'a'")
    with pytest.raises(CorruptLog, match=r"event 6.*comes after the last one"):
        tables.verify(chain, cut)
    change(tables, "UPDATE events SET at = at + 1 WHERE id = ?", tables.entry("a").ids(3)[0])
    with pytest.raises(CorruptLog, match="event 3"):
        tables.verify(chain, tables.entry("f"))


def test_a_page_of_checked_events_begins_behind_a_head_and_has_so_many(tables: Tables) -> None:
    digest = tables.events("f", 2, 1)[0].digest
    for after, limit, wanted in (
        (None, 3, [1, 2, 3]),
        (Head(2, digest), 2, [3, 4]),
        (None, 99, [*range(1, 7)]),
    ):
        assert seqs(tables.checked(HashChain(), "f", after, limit)) == wanted


def test_a_check_of_the_tail_starts_before_the_last_events(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(tables, "UPDATE events SET at = at + 1 WHERE id = ?", tables.entry("a").ids(3)[0])
    for count in (1, 3):
        monkeypatch.setattr(tables_module, "TAIL_EVENTS", count)
        assert tables.verify_tail(HashChain(), tables.entry("a")) == tables.head_of(tables.entry("a"))
    monkeypatch.setattr(tables_module, "TAIL_EVENTS", 4)
    with pytest.raises(CorruptLog, match="event 3"):
        tables.verify_tail(HashChain(), tables.entry("a"))


def test_the_last_time_of_a_session_without_events_or_without_a_row_is_0(tables: Tables) -> None:
    entries = [tables.entry("a"), tables.entry("empty"), tables.entry("a")._replace(number=99)]
    assert [tables.last_ms(entry) for entry in entries] == [event(6).at, 0, 0]


def test_an_owner_that_appends_while_a_session_is_checked_does_no_harm(tables: Tables) -> None:
    """The head of the entry is one behind, and the row has moved on with the events."""
    entry = tables.entry("a")._replace(head=5)
    pages = list(tables.checked_pages(HashChain(), entry, 5))
    assert seqs([row for page in pages for row in page])[-1] == 5


def test_a_check_says_which_pages_it_reads_and_looks_behind_the_last_event_only(tables: Tables) -> None:
    said: list[tuple[str, int]] = []

    def reported(session_id: str, start: int) -> AbstractContextManager[None]:
        said.append((session_id, start))
        return nullcontext()

    watched = Tables(tables._connection, tables._cipher, reported)
    entry = watched.entry("g")
    watched.verify(HashChain(), entry)
    assert said[0] == ("g", 1)
    assert said[-1] == ("g", 6)
    assert {name for name, _ in said} == {"g"}, "the fork, not the session whose events it shares"
    change(tables, "UPDATE sessions SET head = 5 WHERE session_id = 'a'")
    pages = watched.checked_pages(HashChain(), watched.entry("a"), 4)
    assert seqs([row for page in pages for row in page]) == [1, 2, 3, 4]


def test_a_session_without_events_verifies(tables: Tables) -> None:
    assert tables.verify(HashChain(), tables.entry("empty")) == Head(0, GENESIS)
    with pytest.raises(CorruptLog):
        tables.verify(HashChain(), tables.entry("empty"), Head(1, b"x" * 32))


def test_encrypted_details_are_those_of_their_session_only(tables: Tables) -> None:
    sealed = Tables(tables._connection, Cipher(b"e" * 32, b"salt" * 4))
    given = Details(tags=("red",), metadata={"a": 1})
    sealed.write_details(sealed.entry("a"), given)
    (stored,) = tables._connection.execute("SELECT details FROM sessions WHERE session_id = 'a'").fetchone()
    assert b"red" not in stored
    assert sealed.details_of(sealed.entry("a")) == given
    assert sealed.details("f", stored) == Details()


ODD_ID = "UPDATE sessions SET session_id = CAST(x'ff' AS TEXT) WHERE id = 4"


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (ODD_ID, "session number 4 has a damaged id"),
        ("UPDATE sessions SET session_id = '' WHERE id = 4", "session number 4 has a damaged id"),
        ("UPDATE sessions SET epoch = 'one' WHERE id = 4", "session empty"),
        ("UPDATE sessions SET head = 'one' WHERE id = 4", "session empty"),
        ("UPDATE sessions SET head = -1 WHERE id = 4", "session empty"),
        ("UPDATE sessions SET status = 'odd' WHERE id = 4", "session empty"),
    ],
)
def test_a_damaged_row_in_a_list_of_sessions_is_named(tables: Tables, sql: str, said: str) -> None:
    change(tables, sql)
    with pytest.raises(CorruptLog, match=said):
        tables.sessions(SessionQuery())


@pytest.mark.parametrize("column", ["at", "cause", "digest"])
def test_a_number_or_digest_that_is_text_but_not_utf_8_is_named_with_its_event(
    tables: Tables, column: str
) -> None:
    entry = tables.entry("a")
    change(tables, f"UPDATE events SET {column} = CAST(x'ff' AS TEXT) WHERE id = ?", entry.ids(3)[0])
    with pytest.raises(CorruptLog, match="event 3 holds a field of another type"):
        tables.events("a", 1, 9)


def test_an_error_of_sqlite_itself_is_not_taken_for_damage_of_an_event(tables: Tables) -> None:
    entry = tables.entry("a")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        tables._page(entry, "SELECT * FROM gone WHERE id BETWEEN ? AND ?", entry.ids())


def test_the_event_of_a_damaged_field_is_named_also_for_a_field_that_is_missing() -> None:
    row = (1, 2, b"a", b"b", 3, b"body", b"digest", None)
    assert _is_sound(row)
    for place in range(1, 7):
        assert not _is_sound((*row[:place], None, *row[place + 1 :]))  # type: ignore[arg-type]  # a damaged row


def test_a_large_value_stands_in_its_place_and_is_named_if_it_has_none(tables: Tables, path: Path) -> None:
    posted = large(7, 5_000)

    async def write() -> None:
        log = SQLiteLog(path, encryption_key=b"e" * 32 if tables._cipher else None)
        await log.open()
        epoch, _ = await log.take_over("a")
        await added(log, "a", epoch, [posted])
        await log.close()

    run(write)
    (row,) = tables.events("a", 7, 1)
    assert row.body == encode(posted.body)
    entry = tables.entry("a")
    assert tables.verify(HashChain(), entry) == tables.head_of(entry)
    pages = tables.checked_pages(HashChain(), entry, 7)
    assert [sealed.whole().body for page in pages for sealed in page][-1] == row.body
    change(tables, "UPDATE events SET cuts = replace(cuts, '[[', '[[9') WHERE cuts IS NOT NULL")
    with pytest.raises(CorruptLog, match="event 7 has a large value in no known place"):
        tables.events("a", 7, 1)


def test_a_body_that_does_not_decrypt_is_named_with_its_event(path: Path) -> None:
    cipher = Cipher(b"e" * 32, b"salt" * 4)
    write_some(path)
    with closing(sqlite3.connect(path)) as connection, pytest.raises(CorruptLog) as info:
        Tables(connection, cipher).events("s", 4, 9)
    assert "event 4 has a body of another event, or a changed one (it does not decrypt)" in str(info.value)
    assert (info.value.session_id, info.value.seq) == ("s", 4)


def test_the_tables_hold_what_a_log_in_memory_holds(tmp_path: Path) -> None:
    answer_alike(MemoryLog(), tmp_path / "file.db")
