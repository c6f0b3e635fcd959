"""The lineage of sessions."""

import asyncio

import pytest

from callboard.actors.protocol.errors import SessionNotFound
from callboard.replay.lineage import Lineage, Shared, lineage_of
from callboard.replay.testing.stores.forks import forked
from callboard.runtime.log.memory import MemoryLog, MemoryReader


@pytest.fixture
def log() -> MemoryLog:
    """Make a log with session s, its forks f and h, and g, a fork of f."""
    made = MemoryLog(b"a digest key")

    async def work() -> None:
        await made.open()
        await made.create("s", 1, "")
        await forked(made)

    asyncio.run(work())
    return made


def test_a_fork_names_the_sessions_that_it_shares_events_with(log: MemoryLog) -> None:
    reader = MemoryReader(log)
    assert lineage_of(reader, "s") == Lineage((), {"h": 3, "f": 6})
    assert lineage_of(reader, "f") == Lineage((Shared("s", 6, True),), {"g": 8})
    assert lineage_of(reader, "g").shared == (Shared("s", 6, True), Shared("f", 8, True))
    with pytest.raises(SessionNotFound):
        lineage_of(reader, "nobody")


def test_a_deleted_session_is_named_as_one_that_is_not_listed(log: MemoryLog) -> None:
    asyncio.run(log.delete("f", keep_forks=True))
    assert lineage_of(MemoryReader(log), "g").shared == (Shared("s", 6, True), Shared("f", 8, False))
