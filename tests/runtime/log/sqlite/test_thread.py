"""SQLiteThread: one function after the other, even for cancelled callers, and an end in every case."""

import asyncio
import importlib.util
import sqlite3
import sys
import threading
from pathlib import Path

import aiosqlite
import pytest

from callboard.runtime.log.sqlite import thread as sqlite_thread
from callboard.runtime.log.sqlite.meta import BUSY_TIMEOUT_MS
from callboard.runtime.log.sqlite.thread import SQLiteThread
from tests.runtime.log.kit import run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


def ended(thread: SQLiteThread) -> bool:
    thread.stop(lambda: None, lambda: None)
    return thread.join(5)


def test_functions_run_in_order_and_their_results_and_errors_come_back(path: Path) -> None:
    async def work() -> None:
        thread = SQLiteThread(path)
        await thread.connect()
        seen: list[int] = []
        await asyncio.gather(*(thread.run(lambda at=at: seen.append(at)) for at in range(50)))  # type: ignore[misc]  # mypy infers no type of a lambda with a default
        assert seen == list(range(50))
        with pytest.raises(ZeroDivisionError):
            await thread.run(lambda: 1 / 0)
        assert await thread.run(lambda: 7) == 7
        assert ended(thread)

    run(work)


def test_the_file_has_the_name_that_was_given_whatever_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "a log?mode=ro#%41.db"

    async def work() -> None:
        thread = SQLiteThread(path)
        connection = await thread.connect()
        await thread.run(lambda: connection.execute("PRAGMA user_version = 3"))
        waits = await thread.run(lambda: connection.execute("PRAGMA busy_timeout").fetchone())
        assert waits == (BUSY_TIMEOUT_MS,)
        assert connection.isolation_level is None
        assert thread in sqlite_thread._live
        assert ended(thread)

    run(work)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_cancelled_caller_does_not_stop_the_function_nor_the_thread(path: Path) -> None:
    async def work() -> None:
        thread = SQLiteThread(path)
        await thread.connect()
        done: list[str] = []
        for function in (lambda: done.append("done"), lambda: 1 / 0):
            waiting = asyncio.ensure_future(thread.run(function))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await thread.run(lambda: None)
        assert done == ["done"]
        assert ended(thread)

    run(work)


def test_a_loop_that_is_gone_does_not_end_the_thread(path: Path) -> None:
    loop = asyncio.new_event_loop()
    thread = SQLiteThread(path)
    loop.run_until_complete(thread.connect())
    is_running, is_loop_closed, done = threading.Event(), threading.Event(), list[str]()

    def answer_late() -> None:
        is_running.set()
        assert is_loop_closed.wait(5)
        done.append("late")

    waiting = loop.create_task(thread.run(answer_late))
    loop.run_until_complete(asyncio.sleep(0))
    assert is_running.wait(5)
    waiting.cancel()
    loop.run_until_complete(asyncio.gather(waiting, return_exceptions=True))
    loop.close()
    assert not done, "the answer comes when no loop is there to take it"
    is_loop_closed.set()
    assert run(lambda: thread.run(lambda: 5)) == 5
    assert done == ["late"]
    assert ended(thread)


def test_stopping_works_off_the_queue_and_then_closes_the_file(path: Path) -> None:
    async def work() -> None:
        thread = SQLiteThread(path)
        connection = await thread.connect()
        steps: list[str] = []
        last = asyncio.ensure_future(thread.run(lambda: steps.append("queued")))
        await asyncio.sleep(0)
        thread.stop(lambda: steps.append("last"), lambda: steps.append("then"))
        thread.stop(lambda: steps.append("twice"), lambda: steps.append("twice"))
        await last
        assert thread.join(5)
        assert steps == ["queued", "last", "then"]
        assert thread._connection._tx.empty()
        with pytest.raises(sqlite3.ProgrammingError):
            connection.execute("SELECT 1")

    run(work)


def test_stopping_ends_the_thread_even_if_the_last_step_fails(path: Path) -> None:
    async def work() -> None:
        thread = SQLiteThread(path)
        await thread.connect()
        steps: list[str] = []

        def fail() -> None:
            raise sqlite3.OperationalError("disk I/O error")

        thread.stop(fail, lambda: steps.append("then"))
        assert thread.join(5)
        assert steps == ["then"]

    run(work)


def test_a_file_that_cannot_be_opened_is_an_error_and_the_thread_can_be_ended(tmp_path: Path) -> None:
    async def work() -> None:
        thread = SQLiteThread(tmp_path / "nowhere" / "a.db")
        with pytest.raises(sqlite3.OperationalError):
            await thread.connect()
        assert ended(thread)

    run(work)


def test_the_thread_does_not_wait_for_itself(path: Path) -> None:
    async def work() -> None:
        thread = SQLiteThread(path)
        assert await thread.run(thread.join) is False
        assert ended(thread)

    run(work)


def test_the_thread_never_keeps_a_program_alive(path: Path) -> None:
    thread = SQLiteThread(path)
    assert thread._connection._thread.daemon
    assert ended(thread)


def test_a_forked_child_never_touches_the_connection_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Give the connection up without closing it; this test does so in the parent."""

    async def work() -> None:
        thread = SQLiteThread(path)
        connection = await thread.connect()
        alive = sys.getrefcount(connection)
        monkeypatch.setattr(sqlite_thread, "_live", [thread])
        sqlite_thread._leak_all()
        assert thread._connection._connection is None
        assert sys.getrefcount(connection) == alive  # one less here, one more that is never given back
        thread.leak()
        assert ended(thread)

    run(work)


def test_an_aiosqlite_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiosqlite, "__version__", "1.0.0")
    with pytest.raises(ImportError, match=r"needs 0\.22"):
        importlib.reload(sqlite_thread)


def test_a_forked_child_is_told_by_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, object]] = []
    monkeypatch.setattr("os.register_at_fork", lambda **how: told.append(how))
    spec = importlib.util.find_spec(sqlite_thread.__name__)
    assert spec is not None
    assert spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    assert told == [{"after_in_child": again._leak_all}]
