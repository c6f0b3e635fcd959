"""SQLiteLog: the contract, what a file and a process can go through, and the budget of bytes."""

import asyncio
import gc
import json
import os
import resource
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from callboard.actors.errors import (
    MisuseError,
    StoreFailed,
    StoreLocked,
    StoreReadOnly,
    StoreTooNew,
    StoreUnreadable,
)
from callboard.actors.events import Event
from callboard.runtime.log.protocol import Append, Head
from callboard.runtime.log.sqlite import SQLiteLog
from callboard.runtime.log.sqlite_reader import SQLiteReader
from tests.runtime.log.contract import EventLogContract
from tests.runtime.log.kit import add, added, as_nobody, child, event, events, large, run, same, turn


class FileKit:
    def __init__(self, path: Path) -> None:
        self.path = path

    def log(self, key: bytes | None = None) -> SQLiteLog:
        return SQLiteLog(self.path, key=key)

    def reader(self) -> SQLiteReader:
        return SQLiteReader(self.path)


@pytest.fixture
def kit(tmp_path: Path) -> FileKit:
    return FileKit(tmp_path / "a log?#%.db")


class TestSQLiteLog(EventLogContract):
    pass


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can reach; pytest's own are closed to others."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder
        folder.chmod(0o777)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


def write_some(path: Path, count: int = 10) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        await added(log, "s", 1, events(1, count))
        await log.close()

    run(work)


def refusal(path: Path, **settings: object) -> Exception:
    """What opening raises; nothing may be left behind that keeps the next one from opening."""

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


# --- settings and the file ----------------------------------------------------------


@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("process", 1)])
def test_durability_chooses_how_much_a_commit_is_synced(path: Path, durability: str, level: int) -> None:
    async def work() -> None:
        log = SQLiteLog(path, durability)  # type: ignore[arg-type]
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
        SQLiteLog(path, "sometimes")  # type: ignore[arg-type]


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
        for seq in range(1, 4_801, 6):
            await added(log, "s", 1, turn(seq))
        await log.close()

    run(work)
    assert path.stat().st_size / 800 <= 1.6 * 1_024
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


# --- refusals -------------------------------------------------------------------------


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
        assert "SQLiteReader" in str(error)
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


def test_a_damaged_database_is_told_as_such(path: Path) -> None:
    write_some(path, 2_000)
    content = bytearray(path.read_bytes())
    content[8_192:] = os.urandom(len(content) - 8_192)
    path.write_bytes(content)
    assert isinstance(refusal(path), StoreUnreadable)


# --- ownership --------------------------------------------------------------------------


def test_a_second_owner_in_this_process_is_refused(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        link = path.with_name("link.db")
        link.symlink_to(path)
        for other in (path, link):
            with pytest.raises(StoreLocked, match="this process"):
                await SQLiteLog(other).open()
        await log.create("s", 1, "")
        await added(log, "s", 1, events(1, 3))
        await log.close()
        await SQLiteLog(path).open()

    run(work)


@pytest.mark.slow
def test_a_second_process_is_refused_and_told_who_owns_the_log(path: Path) -> None:
    script = """
import asyncio, sys
from callboard.actors.errors import StoreLocked
from callboard.runtime.log.sqlite import SQLiteLog
try:
    asyncio.run(SQLiteLog(sys.argv[1]).open())
except StoreLocked as error:
    print(error)
"""

    async def work() -> str:
        log = SQLiteLog(path)
        await log.open()
        said = await asyncio.to_thread(child, script, path)
        await log.create("s", 1, "")  # the owner is none the worse
        await log.close()
        return said.stdout + said.stderr

    said = run(work)
    assert f"owned by process {os.getpid()}" in said


@pytest.mark.slow
def test_a_forked_child_is_refused_and_does_the_owner_no_harm(path: Path) -> None:
    script = """
import asyncio, os, sys
from callboard.actors.errors import StoreLocked
from callboard.runtime.log.sqlite import SQLiteLog
from tests.runtime.log.kit import added, events

async def main():
    log = SQLiteLog(sys.argv[1])
    await log.open()
    await log.create("s", 1, "")
    await added(log, "s", 1, events(1, 5))
    return log

loop = asyncio.new_event_loop()
log = loop.run_until_complete(main())
pid = os.fork()
if pid == 0:
    async def refused():
        for ask in (log.sessions, lambda: log.append([])):
            try:
                await ask()
            except StoreLocked as error:
                print("child:", error, flush=True)
        await log.close()
    asyncio.run(refused())
    sys.exit(0)  # runs the exit handlers, as multiprocessing's children do not
print("status", os.waitpid(pid, 0)[1], flush=True)
loop.run_until_complete(added(log, "s", 1, events(6, 9)))
try:
    loop.run_until_complete(SQLiteLog(sys.argv[1]).open())
except StoreLocked:
    print("still locked")
loop.run_until_complete(log.close())
loop.close()
"""
    done = child(script, path)
    assert done.stderr == ""
    assert done.stdout.count("from which this one was forked") == 2
    assert "status 0" in done.stdout
    assert "still locked" in done.stdout
    with SQLiteReader(path) as reader:
        assert reader.verify_chain("s").seq == 9


def has_posix_lock(path: Path) -> bool:
    rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return str(path.stat().st_ino) in {row[5].rpartition(":")[2] for row in rows if row[1] == "POSIX"}


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this system does not list its locks")
def test_nothing_drops_sqlites_own_locks_while_the_log_is_open(path: Path) -> None:
    """Opening and closing the file by other means would; a shell could then write at the same time."""

    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        await added(log, "s", 1, events(1, 3))
        assert has_posix_lock(path)
        with SQLiteReader(path) as reader:
            reader.verify_chain("s")
        with pytest.raises(StoreLocked):
            await SQLiteLog(path).open()
        assert has_posix_lock(path)
        await log.close()

    run(work)


# --- failures ---------------------------------------------------------------------------


def test_a_full_disk_stores_nothing_of_the_batch_and_the_log_goes_on(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        await log.create("t", 1, "")
        await added(log, "s", 1, events(1, 10))
        held = log._held
        assert held is not None
        assert held.store is not None
        connection = held.store._connection
        await held.thread.run(lambda: connection.execute("PRAGMA max_page_count = 12").fetchone())
        batch = [Append("t", 0, 1, events(1, 3)), Append("s", 10, 1, [large(11, 500_000)])]
        with pytest.raises(StoreFailed, match="nothing of this batch was stored"):
            await log.append(batch)
        assert (await log.head("s")).seq == 10
        assert (await log.head("t")).seq == 0
        await held.thread.run(lambda: connection.execute("PRAGMA max_page_count = 100000").fetchone())
        assert all(isinstance(answer, Head) for answer in await log.append(batch))
        await log.close()

    run(work)
    with SQLiteReader(path) as reader:
        assert reader.verify_chain("s").seq == 11
        assert reader.verify_chain("t").seq == 3


def test_after_an_input_output_error_the_log_is_dead_until_reopened(path: Path) -> None:
    async def work() -> Head:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        head = await added(log, "s", 1, events(1, 10))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))  # writes beyond fail with EFBIG
        try:
            with pytest.raises(StoreFailed, match="IOERR"):
                await added(log, "s", 1, [large(11, 900_000)])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        for ask in (lambda: add(log, "s", 1, events(11, 11)), log.sessions, lambda: log.head("s")):
            with pytest.raises(StoreFailed, match="reopen"):
                await ask()
        await log.close()
        await log.open()
        assert await log.head("s") == head
        head = await added(log, "s", 1, events(11, 12))
        await log.close()
        return head

    head = run(work)
    with SQLiteReader(path) as reader:
        assert reader.verify_chain("s") == head


def test_a_foreign_change_is_noticed_and_the_sessions_read_anew(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        for name in "ab":
            await log.create(name, 1, "")
            await added(log, name, 1, events(1, 5))
        shell = sqlite3.connect(path, isolation_level=None)
        shell.execute("UPDATE sessions SET epoch = 7 WHERE session_id = 'a'")
        shell.close()
        answers = await log.append([Append("a", 5, 1, events(6, 6)), Append("b", 5, 1, events(6, 6))])
        assert "its epoch is 7" in str(answers[0])
        assert isinstance(answers[1], Head)
        await log.close()

    run(work)


def test_a_lost_tail_is_answered_for_its_session_only(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        for name in "ab":
            await log.create(name, 1, "")
            await added(log, name, 1, events(1, 5))
        shell = sqlite3.connect(path, isolation_level=None)
        shell.execute("DELETE FROM events WHERE id = (1 << 32) | 5")
        shell.close()
        answers = await log.append([Append("a", 5, 1, events(6, 6)), Append("b", 5, 1, events(6, 6))])
        assert "event 5 is missing" in str(answers[0])
        assert isinstance(answers[1], Head)
        await log.close()

    run(work)


# --- cancelling and leaving -------------------------------------------------------------


def test_opening_can_be_cancelled_at_any_step_and_leaves_nothing_behind(path: Path) -> None:
    async def work() -> None:
        for steps in range(12):
            opening = asyncio.create_task(SQLiteLog(path).open())
            for _ in range(steps):
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        gc.collect()
        log = SQLiteLog(path)
        await log.open()
        await log.close()

    run(work)


def test_closing_may_be_cancelled_and_still_happens(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        appending = asyncio.create_task(added(log, "s", 1, events(1, 500)))
        await asyncio.sleep(0)
        closing = asyncio.create_task(log.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        assert (await appending).seq == 500
        while True:
            try:
                await log.open()
            except StoreLocked:
                await asyncio.sleep(0.001)
            else:
                break
        assert same(await log.read("s"), events(1, 500))
        await log.close()

    run(work)


def test_a_log_that_is_forgotten_gives_its_ownership_up(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        await added(log, "s", 1, events(1, 5))
        alive = weakref.ref(log)
        del log
        gc.collect()
        assert alive() is None
        again = SQLiteLog(path)
        await again.open()
        assert (await again.head("s")).seq == 5
        await again.close()

    run(work)


@pytest.mark.slow
@pytest.mark.parametrize(
    "ending",
    ["pass", "sys.exit(0)", "raise KeyboardInterrupt", "asyncio.create_task(add(log, 's', 1, events(7, 7)))"],
    ids=["by returning", "by exiting", "by an interrupt", "with an append under way"],
)
def test_leaving_without_close_neither_hangs_nor_loses_anything(path: Path, ending: str) -> None:
    script = f"""
import asyncio, sys
from callboard.runtime.log.sqlite import SQLiteLog
from tests.runtime.log.kit import add, added, events

async def main():
    global log
    log = SQLiteLog(sys.argv[1])
    await log.open()
    await log.create("s", 1, "")
    for seq in range(1, 7):
        print(await added(log, "s", 1, events(seq, seq)) and seq, flush=True)
    {ending}

asyncio.run(main())
"""
    done = child(script, path)
    assert done.stdout.split() == list("123456")
    assert "KeyboardInterrupt" in done.stderr if "Keyboard" in ending else done.stderr == ""
    assert not path.with_name("log.db-wal").exists()
    with SQLiteReader(path) as reader:
        assert reader.verify_chain("s").seq in (6, 7)


def test_a_store_that_is_left_after_its_loop_does_not_break_the_thread(path: Path) -> None:
    loop = asyncio.new_event_loop()
    log = SQLiteLog(path)
    loop.run_until_complete(log.open())
    loop.run_until_complete(log.create("s", 1, ""))
    appending = loop.create_task(add(log, "s", 1, [event(1)]))
    loop.run_until_complete(asyncio.sleep(0))
    appending.cancel()
    loop.run_until_complete(asyncio.gather(appending, return_exceptions=True))
    loop.close()
    run(lambda: added_on(log, events(2, 3)))


async def added_on(log: SQLiteLog, more: list[Event]) -> None:
    """Another loop may go on with the same log."""
    assert (await log.head("s")).seq == 1
    await added(log, "s", 1, more)
    await log.close()
