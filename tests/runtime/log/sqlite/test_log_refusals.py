"""SQLiteLog refuses files that are not its own, says why, and leaves them alone."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from callboard.actors.protocol.errors import (
    MisuseError,
    StoreReadOnly,
    StoreTooNew,
    StoreUnreadable,
)
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.runtime.log.kit import (
    as_nobody,
    run,
    write_some,
)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Make a folder that every user can reach; pytest's own are closed to others."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder
        folder.chmod(0o777)


def refusal(path: Path, **settings: object) -> Exception:
    """Return the exception of opening, which must leave no thread behind."""

    async def work() -> Exception:
        before = threading.active_count()
        with pytest.raises(Exception) as caught:  # noqa: PT011  # each test says which
            await SQLiteLog(path).open()
        for _ in range(100):
            if threading.active_count() <= before:
                break
            await asyncio.sleep(0.001)
        assert threading.active_count() <= before
        return caught.value

    return run(work)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert isinstance(error := refusal(tmp_path), StoreUnreadable)
    assert "is a folder" in str(error)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    assert isinstance(error := refusal(tmp_path / "nowhere" / "log.db"), StoreUnreadable)
    assert "make it first" in str(error)


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_text("these are notes, not a log\n" * 100)
    before = path.read_bytes()
    assert isinstance(error := refusal(path), StoreUnreadable)
    assert "not a callboard log" in str(error)
    assert path.read_bytes() == before


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE recipes(name)")
    connection.close()
    before = path.read_bytes()
    assert isinstance(error := refusal(path), StoreUnreadable)
    assert "not a callboard log" in str(error)
    assert path.read_bytes() == before


def test_a_newer_format_is_refused(path: Path) -> None:
    write_some(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert isinstance(error := refusal(path), StoreTooNew)
    assert "format 99" in str(error)
    with pytest.raises(StoreTooNew, match="format 99"):
        SQLiteReader(path)


def test_an_empty_file_and_an_empty_database_become_a_log(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    connection = sqlite3.connect(tmp_path / "made")
    connection.execute("PRAGMA journal_mode = WAL")  # a crash between two steps of our own making
    connection.close()
    write_some(tmp_path / "empty")
    write_some(tmp_path / "made")


def test_a_wrong_key_is_refused_before_it_breaks_the_chain(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path, key=b"one")
        await log.open()
        await log.close()
        for wrong in (SQLiteLog(path), SQLiteLog(path, key=b"two")):
            with pytest.raises(MisuseError, match="digest key"):
                await wrong.open()
        await log.open()
        await log.close()

    run(work)


def test_a_read_only_file_is_refused_but_can_be_read(open_folder: Path) -> None:
    path = open_folder / "log.db"
    write_some(path)
    path.chmod(0o444)
    path.with_name("log.db.lock").chmod(0o666)
    with as_nobody():
        assert isinstance(error := refusal(path), StoreReadOnly)
        assert "open_reader" in str(error)
        with SQLiteReader(path) as reader:
            assert reader.verify_chain("s").seq == 10


def test_a_read_only_folder_is_refused(open_folder: Path) -> None:
    open_folder.chmod(0o555)
    with as_nobody():
        assert isinstance(refusal(open_folder / "log.db"), StoreReadOnly)


def test_a_folder_that_may_not_be_entered_is_refused(open_folder: Path) -> None:
    open_folder.chmod(0o700)
    with as_nobody():
        assert isinstance(refusal(open_folder / "log.db"), StoreUnreadable)


def test_a_damaged_database_is_refused(path: Path) -> None:
    write_some(path, 2_000)
    content = bytearray(path.read_bytes())
    content[8_192:] = os.urandom(len(content) - 8_192)
    path.write_bytes(content)
    assert isinstance(refusal(path), StoreUnreadable)
