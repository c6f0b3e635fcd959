"""The mark of an open log: a file without its WAL is refused, and a crash at any point is not."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest

from callboard.actors.protocol.errors import StoreIncomplete
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.protocol import GENESIS, Append, Head
from callboard.runtime.log.sqlite import meta
from callboard.runtime.log.sqlite import store as sqlite_store
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.meta import (
    NEEDED,
    check_complete,
    clear_marker,
    finish_marking,
    meta_value,
    prepare,
    write_back,
)
from callboard.runtime.log.sqlite.reader import SQLiteReader
from callboard.runtime.log.sqlite.store import SQLiteStore
from tests.runtime.log.kit import added, events, run, write_some

T = TypeVar("T")


def connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, timeout=0)


def copied(path: Path, *suffixes: str) -> Path:
    """Return a copy of the file, and of those beside it."""
    folder = path.parent / "copies" / str(len(list(path.parent.glob("copies/*"))))
    folder.mkdir(parents=True)
    for suffix in ("", *suffixes):
        shutil.copy(f"{path}{suffix}", folder)
    return folder / path.name


def mark_of(path: Path) -> str:
    """Return the marker of the file with its WAL, read in a copy."""
    suffixes = [suffix for suffix in ("-wal",) if Path(f"{path}{suffix}").exists()]
    with closing(connected(copied(path, *suffixes))) as connection:
        return str(connection.execute("SELECT value FROM meta WHERE key = 'wal'").fetchone()[0])


def while_open(path: Path, look: Callable[[], T], *, is_new: bool = True) -> T:
    """Look at the files while a log is open, which has events in its WAL only."""

    async def work() -> T:
        log = SQLiteLog(path)
        await log.open()
        if is_new:
            await log.create("s", 1, "")
        _, head = await log.take_over("s")
        await added(log, "s", (await log.sessions())[0].epoch, events(head.seq + 1, head.seq + 5))
        found = look()
        await log.close()
        return found

    return run(work)


def assert_refused(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(StoreIncomplete, match=f"{path.name}-wal, where its newest events are"):
        SQLiteReader(path)
    with pytest.raises(StoreIncomplete, match="export --format db"):
        run(SQLiteLog(path).open)
    assert path.read_bytes() == before


def assert_accepted(path: Path, head: int) -> None:
    with SQLiteReader(path) as reader:
        assert reader.verify_chain("s").seq == head
    while_open(path, lambda: None, is_new=False)
    with SQLiteReader(path) as reader:
        assert reader.verify_chain("s").seq == head + 5


# --- copies -------------------------------------------------------------------------


@pytest.mark.parametrize("sessions", [1, 2], ids=["a new log", "a log that was closed before"])
def test_a_copy_without_the_wal_is_refused_and_one_with_it_is_not(path: Path, sessions: int) -> None:
    alone = both = path
    for number in range(sessions):
        alone, both = while_open(path, lambda: (copied(path), copied(path, "-wal")), is_new=number == 0)
    assert_refused(alone)
    assert_accepted(both, 5 * sessions)
    assert_accepted(path, 5 * sessions)


def test_a_log_that_was_moved_without_its_wal_is_refused(path: Path, tmp_path: Path) -> None:
    left = while_open(path, lambda: copied(path, "-wal"))
    moved = left.rename(tmp_path / "moved.db")
    assert_refused(moved)
    (left.parent / "log.db-wal").rename(tmp_path / "moved.db-wal")
    assert_accepted(moved, 5)


def test_an_empty_wal_is_as_bad_as_none(path: Path) -> None:
    alone = while_open(path, lambda: copied(path))
    Path(f"{alone}-wal").touch()
    assert_refused(alone)


def test_a_copy_in_a_folder_that_cannot_be_written_is_refused_too(path: Path) -> None:
    alone = while_open(path, lambda: copied(path))
    uri = f"file:{alone}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True)) as connection, pytest.raises(StoreIncomplete):
        check_complete(connection, alone)


def test_a_copy_made_while_long_work_is_written_back_again_and_again_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check the marker after every checkpoint, also those in the middle of the work."""
    monkeypatch.setattr(sqlite_store, "CHECKPOINT_PAGES", 10)
    with closing(connected(path)) as connection:
        store = SQLiteStore(connection, path, HashChain(), prepare(connection, path, "process", HashChain()))
        store.create("s", 1, "", GENESIS)
        sizes = set()
        for first in range(1, 400, 20):
            store.append([Append("s", first - 1, 1, events(first, first + 19))])
            sizes.add(path.stat().st_size)
            assert_refused(copied(path))
            with SQLiteReader(path) as reader:
                assert reader.verify_chain("s").seq == first + 19
        assert len(sizes) > 3
        store.leave()
    assert_accepted(path, 400)


def test_the_message_tells_how_to_go_on_without_the_wal(path: Path) -> None:
    alone = while_open(path, lambda: copied(path))
    with pytest.raises(StoreIncomplete) as caught:
        SQLiteReader(alone)
    statement = str(caught.value).rpartition("sqlite3 ")[2].split('"')[1]
    with closing(connected(alone)) as connection:
        connection.execute(statement)
    with SQLiteReader(alone) as reader:
        assert reader.sessions() == []  # the events of the WAL are lost


# --- crashes ------------------------------------------------------------------------


def test_a_crash_between_any_two_steps_leaves_a_log_that_opens(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copy the files after every single statement of opening, writing and closing."""
    monkeypatch.setattr(sqlite_store, "CHECKPOINT_PAGES", 3)
    write_some(path)
    left: list[Path] = []

    class Watched:
        def __init__(self, connection: sqlite3.Connection) -> None:
            self._connection = connection

        def execute(self, statement: str, parameters: object = ()) -> object:
            done = self._connection.execute(statement, parameters)  # type: ignore[arg-type]  # passed on as they came
            suffixes = ["-wal"] if Path(f"{path}-wal").exists() else []
            left.append(copied(path, *suffixes))
            return done

        def __getattr__(self, name: str) -> object:
            return getattr(self._connection, name)

    with closing(connected(path)) as connection:
        watched: sqlite3.Connection = Watched(connection)  # type: ignore[assignment]  # it has the methods that the store calls
        store = SQLiteStore(watched, path, HashChain(), prepare(watched, path, "process", HashChain()))
        for first in (11, 21, 31):
            (answer,) = store.append([Append("s", first - 1, 1, events(first, first + 9))])
            assert isinstance(answer, Head)
        store.leave()
    assert len(left) > 40
    for one in left:
        with SQLiteReader(one) as reader:
            assert reader.verify_chain("s").seq in (10, 20, 30, 40)
        with closing(connected(one)) as connection:
            prepare(connection, one, "process", HashChain())


def test_a_shell_that_opens_the_files_after_a_crash_does_no_harm(path: Path) -> None:
    """Close the file last from a shell, which then writes the WAL back and removes it."""

    left = while_open(path, lambda: copied(path, "-wal"))
    with closing(connected(left)) as shell:
        assert shell.execute("SELECT count(*) FROM events").fetchone() == (5,)
    assert not Path(f"{left}-wal").exists()
    assert_accepted(left, 5)


def test_a_reader_that_keeps_an_old_snapshot_does_not_keep_anybody_from_opening(path: Path) -> None:
    write_some(path)
    with closing(connected(path)) as shell:
        shell.execute("BEGIN")
        shell.execute("SELECT count(*) FROM events").fetchone()
        while_open(path, lambda: None, is_new=False)
    with SQLiteReader(path) as reader:
        assert reader.verify_chain("s").seq == 15


def test_an_owner_that_leaves_beside_a_reader_leaves_a_log_that_opens(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        _, head = await log.take_over("s")
        shell.execute("BEGIN")
        shell.execute(
            "SELECT count(*) FROM events"
        ).fetchone()  # what comes after that cannot be written back
        await added(log, "s", 2, events(head.seq + 1, head.seq + 5))
        await log.close()

    write_some(path)
    with closing(connected(path)) as shell:
        run(work)
        assert Path(f"{path}-wal").stat().st_size > 0
        assert_accepted(copied(path, "-wal"), 15)
    assert_accepted(path, 15)


# --- the steps ----------------------------------------------------------------------


def test_the_file_alone_says_needed_and_with_its_wal_it_does_not(path: Path) -> None:
    def look() -> None:
        assert mark_of(copied(path)) == NEEDED
        assert mark_of(copied(path, "-wal")) == ""

    while_open(path, look)
    assert mark_of(path) == ""


def test_a_former_owner_does_not_change_the_marker(path: Path) -> None:
    with closing(connected(path)) as connection:
        owner = prepare(connection, path, "process", HashChain())
        assert meta_value(connection, "owner") == owner
        connection.execute("UPDATE meta SET value = 'somebody' WHERE key = 'owner'")
        write_back(connection, owner)
        assert mark_of(path) == ""
        connection.execute("UPDATE meta SET value = ? WHERE key = 'wal'", (NEEDED,))
        finish_marking(connection, owner)
        clear_marker(connection, owner)
        assert mark_of(path) == NEEDED
        clear_marker(connection, "somebody")
        assert mark_of(path) == ""


def test_a_log_that_is_closed_while_a_reader_looks_is_not_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Close the log between the read of the marker and the look for the WAL."""
    write_some(path)
    answers = [NEEDED, ""]
    monkeypatch.setattr(meta, "meta_value", lambda connection, key: answers.pop(0))
    with closing(connected(path)) as connection:
        check_complete(connection, path)
    assert not answers
