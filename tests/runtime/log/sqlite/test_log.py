"""SQLiteLog: the contract, its settings, and what a file of it holds."""

import asyncio
import gc
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.protocol.errors import MisuseError, StoreError, StoreFailed
from callboard.actors.protocol.usage import Need
from callboard.actors.session.budget_keys import CallKey, Reservation
from callboard.replay.testing.stores.contract import StoreContract, StorePlace
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.sqlite import log as sqlite_log
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.owner import read_lock
from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.runtime.log.kit import added, events, large, run, turn, write_some
from tests.runtime.log.transcripts import answer_alike


class InFile:
    """A log in a file of this folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "a log?#%.db"

    def log(self, key: bytes | None = None) -> SQLiteLog:
        return SQLiteLog(self.path, key=key)

    def reader(self) -> SQLiteReader:
        return SQLiteReader(self.path)

    def after_crash(self) -> "InFile":
        """Return a copy of the files as they are now: the system keeps all that the process has written."""
        copy = self.folder / "after the crash"
        copy.mkdir()
        for suffix in ("", "-wal"):
            source = self.path.with_name(self.path.name + suffix)
            if source.exists():
                shutil.copy(source, copy)
        return InFile(copy)

    def set_back(self) -> Callable[[], None]:
        """Remember the sessions and their last events; the file itself is watched."""
        with closing(sqlite3.connect(self.path)) as connection:
            heads = connection.execute("SELECT id, head FROM sessions").fetchall()

        def put_back() -> None:
            with closing(sqlite3.connect(self.path)) as connection, connection:
                for number, head in heads:
                    connection.execute("UPDATE sessions SET head = ? WHERE id = ?", (head, number))
                    base = number << 32
                    connection.execute(
                        "DELETE FROM events WHERE id > ? AND id >> 32 = ?", (base | head, number)
                    )

        return put_back


class TestSQLiteLog(StoreContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> StorePlace:
        return InFile(tmp_path)


# --- settings and the file ----------------------------------------------------------


@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("process", 1)])
def test_durability_chooses_how_much_a_commit_is_synced(path: Path, durability: str, level: int) -> None:
    async def work() -> None:
        log = SQLiteLog(path, durability)  # type: ignore[arg-type]  # one of the two durabilities
        await log.open()
        assert log._held is not None
        store = log._held.store
        assert store is not None

        def settings() -> list[object]:
            names = ("synchronous", "journal_mode", "page_size", "busy_timeout")
            return [store._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

        assert await log._held.thread.run(settings) == [level, "wal", 8_192, 30_000]
        await log.close()

    run(work)


def test_an_unknown_durability_is_a_mistake_of_the_caller(path: Path) -> None:
    with pytest.raises(MisuseError, match="durability"):
        SQLiteLog(path, "sometimes")  # type: ignore[arg-type]  # a wrong value on purpose


def test_opening_twice_is_a_mistake_of_the_caller(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        with pytest.raises(MisuseError, match="open already"):
            await log.open()
        await log.close()

    run(work)


def test_the_log_can_be_read_with_the_sqlite_shell(path: Path) -> None:
    write_some(path)
    connection = sqlite3.connect(path)
    rows = connection.execute(
        "SELECT seq, time, sender, recipient, cause, kind, json_extract(body, '$.reason') "
        "FROM log WHERE session = 's' AND seq > 8 ORDER BY seq"
    ).fetchall()
    assert rows == [
        (9, "2023-11-14T22:13:20.009Z", "supervisor", "host", 8, "Cancel", "reason 9"),
        (10, "2023-11-14T22:13:20.010Z", "supervisor", "host", 9, "Cancel", "reason 10"),
    ]
    plan = connection.execute("EXPLAIN QUERY PLAN SELECT * FROM log WHERE session = 's'").fetchall()
    assert not any("SCAN" in row[3] for row in plan), plan
    connection.close()


def test_a_value_that_many_events_carry_lies_on_disk_once(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        await added(log, "s", 1, [large(seq, 100_000) for seq in range(1, 21)])
        await log.close()
        await log.open()
        await added(log, "s", 1, [large(seq, 100_000) for seq in range(21, 41)])
        await log.close()

    run(work)
    assert path.stat().st_size < 250_000
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*), max(length(data)) FROM blobs").fetchone() == (1, 100_000)
    body, cuts = connection.execute("SELECT body, cuts FROM events").fetchone()
    assert json.loads(body)["output"] is None
    assert json.loads(cuts) == [[body.index("null"), 1]]
    connection.close()


@pytest.mark.slow
def test_eight_hundred_turns_stay_within_their_bytes(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path, "process")
        await log.open()
        await log.create("s", 1, "")
        await log.vacuum(0)  # writes the empty tables back
        empty = log.size_bytes()
        for seq in range(1, 4_801, 6):
            await added(log, "s", 1, turn(seq))
        await log.close()
        assert (log.size_bytes() - empty) / 800 <= 1.52 * 1_024

    run(work)
    assert sorted(each.name for each in path.parent.iterdir()) == ["log.db", "log.db.lock"]


@pytest.mark.slow
def test_the_wal_stays_bounded_and_is_gone_after_close(path: Path) -> None:
    wal = path.with_name("log.db-wal")

    async def work() -> None:
        log = SQLiteLog(path, "process")
        await log.open()
        await log.create("s", 1, "")
        reader = SQLiteReader(path)  # between its calls it must not hold the WAL
        largest = 0
        for first in range(1, 20_001, 500):
            await added(log, "s", 1, events(first, first + 499))
            reader.events("s", first, 10)
            largest = max(largest, wal.stat().st_size)
        assert largest < 8_000_000
        reader.close()
        await log.close()

    run(work)
    assert not wal.exists()


def test_a_forked_child_that_forgets_the_log_leaves_the_connection_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        assert log._held is not None
        with monkeypatch.context() as patched:
            patched.setattr("os.getpid", lambda: 1)
            log._held.abandon()
        await log.create("s", 1, "")  # the parent goes on
        await log.close()

    run(work)


# --- the owner and the files ------------------------------------------------------


def test_a_short_encryption_key_is_a_mistake_of_the_caller(path: Path) -> None:
    with pytest.raises(MisuseError, match="an encryption key has at least"):
        SQLiteLog(path, encryption_key=b"short")


def test_an_open_log_owns_the_resolved_path_and_announces_its_socket(path: Path) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    resolved = path.resolve()

    async def work() -> None:
        log = SQLiteLog(link)
        assert log.owned_path == resolved
        log.announce("before it is open")
        await log.open()
        assert log.owned_path == resolved
        assert read_lock(path) == (str(os.getpid()), "")
        log.announce("a-socket")
        assert read_lock(path) == (str(os.getpid()), "a-socket")
        await log.close()
        assert read_lock(path) == ("", "")

    run(work)


def test_the_wait_of_a_session_is_kept_until_it_is_set_again(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        for name in ("a", "b"):
            await log.create(name, 1, "")
        await log.set_waiting("a", 5)
        assert [await log.waiting_since(name) for name in ("a", "b")] == [5, 0]
        await log.set_waiting("a", 0)
        assert await log.waiting_since("a") == 0
        await log.close()

    run(work)


def test_reservations_that_are_lost_are_handed_over_beside_those_that_are_held(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        held, lost = (
            Reservation(CallKey("s", 2, "host", turn, 1), Need(10, 1), (("*", "2026"),)) for turn in (1, 2)
        )
        assert await log.spending.hand_over("s", 2, [held], [lost], 5) == [lost]
        assert (await log.spending.read()).reserved == (held,)
        await log.close()

    run(work)


def test_a_file_that_is_no_log_is_refused_and_its_owner_leaves(path: Path) -> None:
    path.write_bytes(b"words of another program, and no database" * 400)

    async def work() -> None:
        with pytest.raises(StoreError, match=path.name):
            await SQLiteLog(path).open()

    run(work)
    path.unlink()
    write_some(path)  # the lock was given up


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_log_whose_files_were_moved_away_fails_from_then_on_until_it_is_opened_again(
    path: Path, suffix: str
) -> None:
    file = path.with_name(path.name + suffix)
    kept = path.with_name("kept")

    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        file.rename(kept)
        for _ in range(2):
            with pytest.raises(StoreFailed, match="was removed, replaced or moved while it was open"):
                await log.head("s")
            if not file.exists():
                kept.rename(file)  # putting it back is not enough: batches may be lost
        await log.close()
        await log.open()
        assert (await log.head("s")).seq == 0
        await log.close()

    run(work)


def test_a_log_whose_file_was_replaced_is_not_even_asked_again(path: Path) -> None:
    asked: list[str] = []

    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        shutil.copy(path, path.with_name("copy"))
        path.with_name("copy").replace(path)  # of the same size and on the same disk
        with pytest.raises(StoreFailed, match="was removed, replaced or moved while it was open"):
            await log.head("s")
        held = log._held
        assert held is not None
        run_there = held.thread.run

        async def noted(work: Any) -> Any:
            asked.append("asked")
            return await run_there(work)

        thread: Any = held.thread
        thread.run = noted
        with pytest.raises(StoreFailed, match="was removed, replaced or moved"):
            await log.head("s")
        await log.close()

    run(work)
    assert asked == []


def test_an_owner_that_is_none_any_more_is_not_asked(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        assert log._held is not None

        def check() -> None:
            raise StoreFailed("another process")

        log._held.owner.check = check  # type: ignore[method-assign]  # on purpose
        with pytest.raises(StoreFailed, match="another process"):
            await log.head("s")
        await log.close()

    run(work)


def test_a_log_that_is_not_open_says_so(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        with pytest.raises(StoreFailed, match=r"is not open; await open\(\) first"):
            await log.head("s")
        await log.close()

    run(work)


def test_a_batch_before_the_close_is_acknowledged_though_closing_removes_the_wal(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        appending = asyncio.create_task(added(log, "s", 1, events(1, 3)))
        closing = asyncio.create_task(log.close())
        held = log._held
        assert held is not None
        await asyncio.sleep(0)
        assert held.thread.join(10)  # the loop sees both answers only now
        assert not path.with_name("log.db-wal").exists()
        assert (await appending).seq == 3
        await closing

    run(work)


def test_a_log_whose_thread_cannot_begin_gives_its_lock_up(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(sqlite_log, "SQLiteThread", full)
        with pytest.raises(RuntimeError, match="new thread"):
            run(lambda: SQLiteLog(path).open())
    write_some(path)


def test_a_log_that_is_forgotten_is_closed_once_it_is_collected(path: Path) -> None:
    async def work() -> SQLiteLog:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        await added(log, "s", 1, events(1, 3))
        return log

    log = run(work)
    held = log._held
    assert held is not None
    del log
    gc.collect()
    assert held.thread.join(0)
    assert read_lock(path) == ("", "")
    with SQLiteReader(path) as reader:
        assert reader.verify_chain("s").seq == 3


def test_a_log_in_a_file_says_what_one_in_memory_says(tmp_path: Path) -> None:
    answer_alike(MemoryLog(), tmp_path / "file.db")
