"""Rows of a session, read in pages: all of them, each once, at the edges of a page too."""

import asyncio

import pytest

from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.sessions import stored_rows
from callboard.runtime.sessions.stored_rows import checked_rows, head_of, pages_from
from tests.runtime.log.kit import added, events


@pytest.mark.parametrize("count", [0, 4, 5, 6, 10, 11])
def test_all_rows_are_read_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        log = MemoryLog()
        await log.open()
        await log.create("s", 1, "")
        if count:
            await added(log, "s", 1, events(1, count))
        rows = await checked_rows(log, "s")
        assert [row.seq for row in rows] == list(range(1, count + 1))
        assert rows == [row async for page in pages_from(log, "s", 1) for row in page]
        assert head_of(rows) == (await log.head("s") if count else None)

    monkeypatch.setattr(stored_rows, "PAGE", 5)
    asyncio.run(work())
