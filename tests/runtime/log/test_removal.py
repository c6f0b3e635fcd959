"""Sessions are removed from a log that does nothing else: deleted, purged, and the file cut."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.protocol.errors import HasForks, SessionNotFound
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.removal import cut, erase
from callboard.runtime.log.sqlite.log import SQLiteLog
from tests.runtime.log.kit import added, events, run


class Told:
    """A log that notes what it is asked, and purges in several pieces. pieces: that are left."""

    def __init__(self, pieces: int = 3) -> None:
        self.pieces, self.asked = pieces, list[Any]()

    async def delete(self, session_id: str, *, keep_forks: bool = False) -> int:
        self.asked.append((session_id, keep_forks))
        return len(session_id)

    async def purge(self) -> bool:
        self.pieces -= 1
        self.asked.append("purge")
        return self.pieces > 0

    async def vacuum(self, pages: int | None) -> int:
        self.asked.append(pages)
        return 0


@pytest.mark.parametrize("keeps", [True, False])
def test_every_session_is_deleted_before_any_is_purged_and_the_file_is_cut_last(keeps: bool) -> None:
    log: Any = Told()
    assert asyncio.run(erase(log, "a", "bcd", keep_forks=keeps)) == 4
    assert log.asked == [("a", keeps), ("bcd", keeps), "purge", "purge", "purge", 1 << 30]


def test_a_cut_purges_until_nothing_is_left() -> None:
    log: Any = Told(1)
    asyncio.run(cut(log))
    assert log.asked == ["purge", 1 << 30]


def test_an_erased_session_leaves_the_file_smaller_and_the_others_whole(path: Path) -> None:
    async def write() -> None:
        log = SQLiteLog(path)
        await log.open()
        for name in "ab":
            await log.create(name, 1, "")
            await added(log, name, 1, events(1, 400))
        await log.close()

    async def remove() -> None:
        log = SQLiteLog(path)
        await log.open()
        assert await erase(log, "a") == 400
        assert [row.session_id for row in await log.sessions()] == ["b"]
        assert len(await log.read("b")) == 400
        await log.close()

    run(write)
    before = path.stat().st_size
    run(remove)
    assert path.stat().st_size < before


def test_a_session_with_forks_stays_unless_its_shared_events_are_kept() -> None:
    async def work() -> None:
        log = MemoryLog()
        await log.open()
        await log.create("a", 1, "")
        await added(log, "a", 1, events(1, 4))
        await log.fork("f", 2, "", "a", 2)
        with pytest.raises(HasForks):
            await erase(log, "a")
        await erase(log, "a", keep_forks=True)
        assert [row.session_id for row in await log.sessions()] == ["f"]
        with pytest.raises(SessionNotFound):
            await erase(log, "a")

    run(work)
