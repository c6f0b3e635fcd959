"""One owner at a time, through forks, further opens, forgotten logs and exits."""

import asyncio
import gc
import os
import threading
import weakref
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import (
    StoreLocked,
)
from callboard.actors.protocol.events import Event
from callboard.runtime.log.protocol import Head
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.runtime.log.kit import (
    OWNER,
    add,
    added,
    child,
    event,
    events,
    run,
    same,
    write_some,
)
from tests.waiting import block_until


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
def test_a_second_process_is_refused_with_the_owners_process_id(path: Path) -> None:
    script = """
import asyncio, sys
from callboard.actors.protocol.errors import StoreLocked
from callboard.runtime.log.protocol import Head
from callboard.runtime.log.sqlite.log import SQLiteLog
try:
    asyncio.run(SQLiteLog(sys.argv[1]).open())
except StoreLocked as error:
    print(error)
"""

    async def work() -> str:
        log = SQLiteLog(path)
        await log.open()
        said = await asyncio.to_thread(child, script, path)
        await log.create("s", 1, "")  # the owner goes on
        await log.close()
        return said.stdout + said.stderr

    said = run(work)
    assert f"owned by process {os.getpid()}" in said


@pytest.mark.slow
def test_a_forked_child_is_refused_and_does_the_owner_no_harm(path: Path) -> None:
    script = (
        OWNER
        + """
pid = os.fork()
if pid == 0:
    async def refused():
        for ask in (log.sessions, lambda: log.append([])):
            try:
                await ask()
            except StoreLocked as error:
                print("child:", error, flush=True)
        await log.close()
    print("it has a copy of the lock:", log._held.owner._descriptor >= 0, flush=True)
    asyncio.run(refused())
    sys.exit(0)  # runs the exit handlers, as multiprocessing's children do not
print("status", os.waitpid(pid, 0)[1], flush=True)
loop.run_until_complete(added(log, "s", 1, events(4, 9)))
try:
    loop.run_until_complete(SQLiteLog(sys.argv[1]).open())
except StoreLocked:
    print("still locked")
loop.run_until_complete(log.close())
loop.close()
"""
    )
    done = child(script, path)
    assert done.stderr == ""
    assert done.stdout.count("from which this one was forked") == 2
    assert "it has a copy of the lock: False" in done.stdout
    assert "status 0" in done.stdout
    assert "still locked" in done.stdout
    with SQLiteReader(path) as reader:
        assert reader.verify_chain("s").seq == 9


def has_posix_lock(path: Path) -> bool:
    rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return str(path.stat().st_ino) in {row[5].rpartition(":")[2] for row in rows if row[1] == "POSIX"}


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this system does not list its locks")
def test_nothing_drops_sqlites_own_locks_while_the_log_is_open(path: Path) -> None:
    """Check SQLite's lock: opening and closing the file by other means would drop it."""

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


def test_a_system_without_threads_to_give_leaves_the_log_unowned(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="new thread"):
            run(SQLiteLog(path).open)
    write_some(path)


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
        await log.open()  # no other log holds the file
        assert await log.sessions() == []
        await log.close()

    run(work)


async def begun(log: SQLiteLog, count: int) -> tuple[asyncio.Task[Head], asyncio.Task[None]]:
    """Begin to append so many events, then to close the log."""
    appending = asyncio.create_task(added(log, "s", 1, events(1, count)))
    await asyncio.sleep(0)
    closing = asyncio.create_task(log.close())
    await asyncio.sleep(0)
    return appending, closing


def test_closing_may_be_cancelled_and_still_happens(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        appending, closing = await begun(log, 500)
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
from callboard.runtime.log.protocol import Head
from callboard.runtime.log.sqlite.log import SQLiteLog
from tests.runtime.log.kit import write_some, add, added, events

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
    assert run(lambda: head_after(log, events(2, 3))) == 3


async def head_after(log: SQLiteLog, more: list[Event]) -> int:
    """Continue the log on another loop, and return its last seq."""
    assert (await log.head("s")).seq == 1
    head = await added(log, "s", 1, more)
    await log.close()
    return head.seq


def test_a_batch_that_was_stored_just_before_the_close_has_not_failed(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        appending, closing = await begun(log, 5)
        wal = path.with_name(f"{path.name}-wal")
        block_until(lambda: not wal.exists())  # the loop goes on when the close has removed the WAL
        assert (await appending).seq == 5
        await closing

    run(work)
