"""The rows of a session in pages: whole, in order, and checked where they are to be continued."""

import pytest

from callboard.actors.protocol.errors import CorruptLog, SessionNotFound
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.memory_session import pack, unpack
from callboard.runtime.log.protocol import Head
from callboard.runtime.sessions import session_pages
from callboard.runtime.sessions.session_pages import checked_rows, head_of, pages_from
from tests.runtime.log.kit import added, events, run


@pytest.mark.parametrize("page", [1, 2, 3, 7, 8])
def test_rows_come_whole_in_pages_of_any_size(monkeypatch: pytest.MonkeyPatch, page: int) -> None:
    monkeypatch.setattr(session_pages, "PAGE", page)

    async def work() -> None:
        log = MemoryLog()
        await log.open()
        await log.create("s", 1, "")
        assert await checked_rows(log, "s") == []
        head = await added(log, "s", 1, events(1, 7))
        rows = await checked_rows(log, "s")
        assert rows == await log.read("s") == [row async for one in pages_from(log, "s", 1) for row in one]
        assert head_of(rows) == head
        assert head_of([]) is None
        assert [row.seq async for one in pages_from(log, "s", 6) for row in one] == [6, 7]
        with pytest.raises(SessionNotFound):
            await checked_rows(log, "t")
        session = log._sessions["s"]
        session.rows[3] = pack(unpack(session.rows[4]))
        with pytest.raises(CorruptLog, match="event 4"):
            await checked_rows(log, "s")
        assert head_of(rows[:3]) == Head(3, rows[2].digest)

    run(work)
