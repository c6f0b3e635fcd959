"""Copies of a log: whole ones, of all of it or of one session."""

import sqlite3
from pathlib import Path

import pytest

from callboard.actors.protocol.client_messages import SessionOpened
from callboard.actors.protocol.errors import SessionNotFound, StoreError
from callboard.actors.protocol.profiles import ModelSpec
from callboard.runtime.log.session_rows import SessionQuery
from callboard.runtime.log.sqlite import reader as reader_module
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from callboard.runtime.log.sqlite.schema import PAGE_BYTES
from tests.runtime.log.kit import added, event, events, large, run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a closed log of two sessions that share a large value and have one more each."""
    path = tmp_path / "log.db"

    async def work() -> None:
        log = SQLiteLog(path, "process")
        await log.open()
        for name, letter in (("a", "y"), ("b", "z")):
            await log.create(name, 1, "")
            await added(log, name, 1, [large(1), large(2, 5_000, letter), *events(3, 50)])
        await log.close()

    run(work)
    return path


@pytest.mark.parametrize("session", ["", "a", "b"])
def test_a_copy_has_the_chosen_session_and_no_other(path: Path, tmp_path: Path, session: str) -> None:
    target = tmp_path / "a copy?#%.db"
    told: list[tuple[int, int]] = []
    with SQLiteReader(path) as reader:
        reader.copy_to(target, session, lambda done, total: told.append((done, total)))
        with SQLiteReader(target) as copy:
            assert [row.session_id for row in copy.sessions()] == ([session] if session else ["b", "a"])
            for row in copy.sessions():
                assert copy.events(row.session_id) == reader.events(row.session_id)
                assert copy.verify_chain(row.session_id) == reader.head(row.session_id)
    assert told[-1][0] == told[-1][1]
    connection = sqlite3.connect(target)
    blobs = {row[0][1:2] for row in connection.execute("SELECT data FROM blobs")}
    assert blobs == {"": {"x", "y", "z"}, "a": {"x", "y"}, "b": {"x", "z"}}[session]
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    if session:
        counts = [
            connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("uses", "blobs")
        ]
        assert counts == [2, 2]
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert connection.execute("PRAGMA page_size").fetchone() == (PAGE_BYTES,)
    connection.close()


def test_a_snapshot_is_copied_while_events_are_written(path: Path, tmp_path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path, "process")
        await log.open()
        epoch, head = await log.take_over("a")
        with SQLiteReader(path) as reader:
            reader._connection.execute("BEGIN")
            assert reader.head("a") == head
            reader._connection.execute("ROLLBACK")
            await added(log, "a", epoch, events(51, 60))
            reader.copy_to(tmp_path / "copy.db")
            await added(log, "a", epoch, events(61, 70))
        await log.close()

    run(work)
    with SQLiteReader(tmp_path / "copy.db") as copy:
        assert copy.verify_chain("a").seq == 60


def test_a_session_that_is_not_there_is_not_found(path: Path, tmp_path: Path) -> None:
    with SQLiteReader(path) as reader, pytest.raises(SessionNotFound, match="'x'"):
        reader.copy_to(tmp_path / "copy.db", "x")


@pytest.mark.parametrize("session", ["", "a"])
def test_a_place_that_cannot_be_written_is_an_error(path: Path, tmp_path: Path, session: str) -> None:
    with SQLiteReader(path) as reader:
        with pytest.raises(StoreError, match="copying to"):
            reader.copy_to(tmp_path / "nowhere" / "copy.db", session)
        reader.copy_to(tmp_path / "copy.db", session)  # it can be used after that


@pytest.mark.parametrize(("session", "parts"), [("", None), ("a", [20, 40, 50])])
def test_a_copy_is_made_in_parts_that_are_told(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: str, parts: list[int] | None
) -> None:
    monkeypatch.setattr(reader_module, "_PAGES", 4)
    monkeypatch.setattr(reader_module, "_EVENTS", 20)
    told: list[tuple[int, int]] = []
    with SQLiteReader(path) as reader:
        reader.copy_to(tmp_path / "copy.db", session, lambda done, total: told.append((done, total)))
    done = [now for now, _ in told]
    assert done == (parts or sorted(set(done)))
    assert len(done) > 2
    assert {total for _, total in told} == {done[-1]}
    with SQLiteReader(tmp_path / "copy.db") as copy:
        assert copy.verify_chain("a").seq == 50


def test_a_session_that_is_deleted_before_its_copy_begins_is_not_found(path: Path, tmp_path: Path) -> None:
    with pytest.raises(SessionNotFound, match="'x'"):
        reader_module._copy_sessions(path.as_uri(), tmp_path / "copy.db", ["x"], lambda *now: None)


def test_a_copy_of_a_session_has_its_tags(tmp_path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(tmp_path / "log.db")
        await log.open()
        await log.create("a", 1, "")
        opened = SessionOpened(1, "host", (), ModelSpec("m"), tags=("red",))
        await added(log, "a", 1, [event(1, opened)])
        await log.close()

    run(work)
    with SQLiteReader(tmp_path / "log.db") as reader:
        reader.copy_to(tmp_path / "copy.db", "a")
    with SQLiteReader(tmp_path / "copy.db") as copy:
        assert [row.session_id for row in copy.sessions(SessionQuery(tag="red"))] == ["a"]
