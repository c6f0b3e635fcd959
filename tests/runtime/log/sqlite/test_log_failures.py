"""SQLiteLog when the disk fails or another program interferes."""

import resource
import sqlite3
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import (
    StoreFailed,
)
from callboard.runtime.log.protocol import Append, Head
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.runtime.log.kit import add, added, events, large, run


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


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ("UPDATE sessions SET epoch = 7 WHERE session_id = 'a'", "its epoch is 7"),
        ("DELETE FROM events WHERE id = (1 << 32) | 5", "event 5 is missing"),
    ],
)
def test_a_foreign_change_is_noticed_and_answered_for_its_session_only(
    path: Path, change: str, refusal: str
) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        for name in "ab":
            await log.create(name, 1, "")
            await added(log, name, 1, events(1, 5))
        shell = sqlite3.connect(path, isolation_level=None)
        shell.execute(change)
        shell.close()
        answers = await log.append([Append("a", 5, 1, events(6, 6)), Append("b", 5, 1, events(6, 6))])
        assert refusal in str(answers[0])
        assert isinstance(answers[1], Head)
        await log.close()

    run(work)
