"""The tables, and the version of their format."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from callboard import Agent, Runtime, ScriptedModel, say
from callboard.actors.protocol.errors import CorruptLog, StoreTooNew, StoreUnreadable
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.large_values import Cut, blob_digest
from callboard.runtime.log.sqlite.meta import prepare
from callboard.runtime.log.sqlite.reader import SQLiteReader
from callboard.runtime.log.sqlite.schema import (
    APPLICATION_ID,
    FORMAT,
    NUMBER_MAX,
    SEQ_BITS,
    SEQ_MAX,
    Blobs,
    is_fresh,
    places_of,
    pragma,
)


def test_a_new_log_is_marked_as_one(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    assert is_fresh(connection, path)
    prepare(connection, path, "full", HashChain())
    assert not is_fresh(connection, path)
    assert pragma(connection, "application_id") == APPLICATION_ID
    assert pragma(connection, "user_version") == FORMAT
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    assert {name for name in names if not name.startswith("sqlite_")} == {
        "meta",
        "sessions",
        "budgets",
        "reservations",
        "unlogged",
        "usage",
        "events",
        "sessions_by_age",
        "sessions_by_parent",
        "blobs",
        "uses",
        "tags",
        "log",
    }
    prepare(connection, path, "process", HashChain())
    connection.close()


def test_a_later_format_and_a_foreign_database_are_refused(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    prepare(connection, path, "full", HashChain())
    connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    with pytest.raises(StoreTooNew, match=f"format {FORMAT + 1}"):
        is_fresh(connection, path)
    connection.execute("PRAGMA application_id = 1")
    with pytest.raises(StoreUnreadable, match="not a callboard log"):
        is_fresh(connection, path)
    connection.close()


def test_an_old_sqlite_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 32, 9))
    with pytest.raises(StoreUnreadable, match=r"needs 3\.33"):
        is_fresh(connection, path)
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 33, 0))
    assert is_fresh(connection, path)
    connection.close()


def test_a_new_log_has_large_pages_that_are_given_back_and_a_mark_for_other_tools(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    prepare(connection, path, "full", HashChain())
    assert (pragma(connection, "page_size"), pragma(connection, "auto_vacuum")) == (8_192, 2)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    header = path.read_bytes()[:100]
    assert header[68:72] == b"cbrd"  # as docs/log.md and every SQLite tool say
    assert header[60:64] == b"\0\0\0\2"


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("DROP INDEX sessions_by_age", "lacks the index 'sessions_by_age'"),
        ("DROP TABLE tags", "lacks the table 'tags'"),
        ("ALTER TABLE tags ADD COLUMN odd", "has the table 'tags' in another form"),
        ("CREATE TABLE more(one)", "holds the table 'more', which callboard did not make"),
        ("CREATE TABLE more(one UNIQUE)", "holds the table 'more', which callboard did not make"),
        ("CREATE VIEW more AS SELECT 1", "holds the view 'more', which callboard did not make"),
    ],
)
def test_other_tables_than_ours_are_refused_by_name(path: Path, sql: str, said: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    prepare(connection, path, "full", HashChain())
    connection.execute(sql)
    with pytest.raises(StoreUnreadable, match=said):
        is_fresh(connection, path)
    connection.close()


def test_a_log_that_another_process_makes_meanwhile_is_no_fresh_file(path: Path) -> None:
    class Late(sqlite3.Connection):
        """A connection before whose look at the tables another process makes the log."""

        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if "count(*)" in sql:
                other = sqlite3.connect(path, isolation_level=None)
                prepare(other, path, "process", HashChain())
                other.close()
            return super().execute(sql, *values)

    connection = sqlite3.connect(path, isolation_level=None, factory=Late)
    assert not is_fresh(connection, path)
    connection.close()


def test_a_log_of_the_first_format_is_read_copied_and_continued(path: Path, tmp_path: Path) -> None:
    ask(path, "first")
    older(path)
    before = path.read_bytes()
    with SQLiteReader(path) as reader:
        (row,) = reader.sessions()
        assert reader.verify_chain(row.session_id).seq == row.head
        assert (reader.usage(), reader.spending()[1]) == ([], [])
        reader.copy_to(tmp_path / "copy.db", session_id=row.session_id)
    assert path.read_bytes() == before
    with SQLiteReader(tmp_path / "copy.db") as copied:
        assert [one.session_id for one in copied.sessions()] == [row.session_id]
    ask(path, "second")
    with SQLiteReader(path) as reader:
        assert len(reader.sessions()) == 2
        assert {one.session_id for one in reader.usage()} == {"second"}


def test_a_log_of_the_first_format_with_a_table_too_many_or_too_few_is_refused(path: Path) -> None:
    ask(path, "first")
    older(path, "CREATE TABLE budgets(a)")
    with pytest.raises(StoreUnreadable, match="budgets"):
        SQLiteReader(path)
    older(path, "DROP TABLE tags")
    with pytest.raises(StoreUnreadable, match="lacks the table 'tags'"):
        SQLiteReader(path)


def ask(path: Path, session_id: str) -> None:
    async def work() -> None:
        async with Runtime(path, model=ScriptedModel([say("Yes.")])) as runtime:
            await runtime.run(Agent("host"), "Is it?", session_id=session_id)

    asyncio.run(work())


def older(path: Path, *more: str) -> None:
    """Make a log one of the first format."""
    with closing(sqlite3.connect(path)) as connection:
        for name in ("usage", "budgets", "reservations", "unlogged"):
            connection.execute(f"DROP TABLE IF EXISTS {name}")
        for statement in more:
            connection.execute(statement)
        connection.execute("PRAGMA user_version = 1")
        connection.commit()


ONE, TWO = b'"one"', b'"two"'


@pytest.fixture
def file() -> Iterator[sqlite3.Connection]:
    made = sqlite3.connect(":memory:")
    made.execute("CREATE TABLE blobs(id INTEGER PRIMARY KEY, digest BLOB, data)")
    yield made
    made.close()


def keep(file: sqlite3.Connection, number: int, data: bytes, cipher: Cipher | None = None) -> None:
    digest = blob_digest(data)
    stored = data.decode() if cipher is None else cipher.seal(("blob", digest), data)
    file.execute("INSERT INTO blobs VALUES (?, ?, ?)", (number, digest, stored))


def blobs_of(file: sqlite3.Connection, cipher: Cipher | None = None) -> Blobs:
    return Blobs(file, cipher, lambda data: (blob_digest(data), data))


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_the_cuts_of_an_event_have_their_places_and_their_data(
    file: sqlite3.Connection, is_encrypted: bool
) -> None:
    cipher = Cipher(b"e" * 32, b"salt" * 4) if is_encrypted else None
    keep(file, 1, ONE, cipher)
    keep(file, 2, TWO, cipher)
    found = blobs_of(file, cipher).cuts("s", 4, b"[[10,2],[20,1],[30,2]]")
    assert found == (
        Cut(10, blob_digest(TWO), TWO),
        Cut(20, blob_digest(ONE), ONE),
        Cut(30, blob_digest(TWO), TWO),
    )
    assert blobs_of(file, cipher).cuts("s", 4, b"[]") == ()


def test_each_value_is_fetched_once(file: sqlite3.Connection) -> None:
    keep(file, 1, ONE)
    asked: list[bytes] = []

    def kept(data: bytes) -> tuple[bytes, bytes]:
        asked.append(data)
        return b"", data

    blobs = Blobs(file, None, kept)
    assert blobs.cuts("s", 1, b"[[0,1],[9,1]]") == (Cut(0, b"", ONE), Cut(9, b"", ONE))
    file.execute("DELETE FROM blobs")
    assert blobs.cuts("s", 2, b"[[5,1]]") == (Cut(5, b"", ONE),)
    assert asked == [ONE]


@pytest.mark.parametrize(
    ("cuts", "why"),
    [
        (b"[[0,7]]", "no blob 7"),
        (b"[[0,2]]", "no blob 2"),
        (b"[[0]]", ""),
        (b"{", ""),
        (b"\xff", ""),
        (b'[["a",1]]', ""),
        (b"[[0,1e30]]", ""),
    ],
)
def test_a_value_that_is_not_there_names_its_event(file: sqlite3.Connection, cuts: bytes, why: str) -> None:
    keep(file, 1, ONE)
    file.execute("INSERT INTO blobs VALUES (2, ?, NULL)", (blob_digest(TWO),))
    blobs = Blobs(file, None, lambda data: (b"", data))
    with pytest.raises(CorruptLog, match=rf"session s, event 4 lacks a large value \(.*{why}"):
        blobs.cuts("s", 4, cuts)


def test_a_value_of_another_place_does_not_open(file: sqlite3.Connection) -> None:
    cipher = Cipher(b"e" * 32, b"salt" * 4)
    file.execute(
        "INSERT INTO blobs VALUES (1, ?, ?)", (blob_digest(TWO), cipher.seal(("blob", blob_digest(ONE)), ONE))
    )
    with pytest.raises(CorruptLog, match="lacks a large value"):
        blobs_of(file, cipher).cuts("s", 4, b"[[0,1]]")


def test_places_are_pairs_of_an_offset_and_a_number() -> None:
    assert places_of(b"[[1,2],[3,4]]") == [(1, 2), (3, 4)]


def test_the_last_event_of_the_last_session_has_the_largest_id_of_sqlite() -> None:
    assert (NUMBER_MAX << SEQ_BITS) + SEQ_MAX == 2**63 - 1
