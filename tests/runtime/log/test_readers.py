"""The two readers give the same rows for checking, and the same events of an actor."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.errors import CorruptLog, SessionNotFound, WrongKey
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.runtime.log import hash_chain
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Append, EventLog, Head, LogReader, Segment
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader

LARGE = msgspec.Raw(b'"' + b"x" * 2_000 + b'"')
KEY = b"a secret"
ORIGIN = bytes(range(32))


def events() -> list[Event]:
    routes = [("host", "supervisor"), ("supervisor", "host.1"), ("tools", "host"), ("host.1", "tools")]
    bodies = [Cancel("a"), ToolReturned(1, 1, "ok", LARGE), Cancel("b")]
    return [
        Event(seq, seq, *routes[seq % 4], seq - 1, bodies[seq % 3])  # type: ignore[arg-type]  # a route names a sender and a recipient
        for seq in range(1, 31)
    ]


async def fill(log: EventLog) -> None:
    await log.open()
    for name, count in (("other", 7), ("s", 30)):
        await log.create(name, 1, "", ORIGIN)
        (answer,) = await log.append([Append(name, 0, 1, events()[:count])])
        assert isinstance(answer, Head), answer


@pytest.fixture(params=["memory", "sqlite", "encrypted"])
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogReader]:
    if request.param == "memory":
        log = MemoryLog(KEY)
        asyncio.run(fill(log))
        yield MemoryReader(log)
        return
    encryption_key = b"k" * 32 if request.param == "encrypted" else None

    async def write() -> None:
        log = SQLiteLog(tmp_path / "log.db", "process", KEY, encryption_key=encryption_key)
        try:
            await fill(log)
        finally:
            await log.close()

    asyncio.run(write())
    with SQLiteReader(tmp_path / "log.db", encryption_key=encryption_key) as found:
        yield found


def test_checked_pages_hold_every_row_with_its_large_values(
    reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_chain, "PAGE_EVENTS", 8)
    pages = list(reader.checked_pages("s", 30, key=KEY))
    assert [len(page) for page in pages] == [8, 8, 8, 6]
    rows = [row for page in pages for row in page]
    assert [row.seq for row in rows] == list(range(1, 31))
    assert rows[-1].digest == reader.head("s").digest
    assert {cut.data for row in rows for cut in row.cuts} == {bytes(LARGE)}
    assert [bool(row.cuts) for row in rows[:3]] == [True, False, False]


def test_a_part_from_the_start_is_checked_alone(reader: LogReader) -> None:
    (page,) = reader.checked_pages("s", 5, key=KEY, known=reader.head("s"))
    assert len(page) == 5
    assert list(reader.checked_pages("s", 0, key=KEY)) == []


def test_rows_behind_a_checked_head_are_checked_alone(reader: LogReader) -> None:
    rows = [row for page in reader.checked_pages("s", 30, key=KEY) for row in page]
    for seq in (1, 17, 29, 30):
        after = Head(seq, rows[seq - 1].digest)
        found = [row for page in reader.checked_pages("s", 30, key=KEY, after=after) for row in page]
        assert found == rows[seq:]
    with pytest.raises(CorruptLog, match="event 18 does not match"):
        list(reader.checked_pages("s", 30, key=KEY, after=Head(17, bytes(32))))


def test_a_head_that_was_acknowledged_is_looked_for(reader: LogReader) -> None:
    with pytest.raises(CorruptLog, match="event 4 is not the one"):
        list(reader.checked_pages("s", 30, key=KEY, known=Head(4, bytes(32))))


def test_the_origin_and_the_key_belong_to_the_check(reader: LogReader) -> None:
    assert reader.segments("s") == (Segment("s", Head(0, ORIGIN), reader.head("s").seq),)
    with pytest.raises(WrongKey):
        list(reader.checked_pages("s", 30))
    with pytest.raises(SessionNotFound):
        list(reader.checked_pages("nobody", 30, key=KEY))


def test_more_events_than_there_are_is_a_cut_log(reader: LogReader) -> None:
    with pytest.raises(CorruptLog, match="event 31 is missing"):
        list(reader.checked_pages("s", 31, key=KEY))


@pytest.mark.parametrize(
    ("first", "last", "limit"), [(1, 30, 99), (3, 17, 99), (1, 30, 4), (9, 8, 9), (40, 50, 9)]
)
def test_the_events_of_an_actor_are_those_it_received_or_posted(
    reader: LogReader, first: int, last: int, limit: int
) -> None:
    for address in ("host", "host.1", "supervisor", "nobody"):
        rows = [row for row in reader.events("s") if address in (row.sender, row.recipient)]
        expected = [row for row in rows if first <= row.seq <= last][:limit]
        assert reader.events_of("s", address, first, last, limit) == expected
    with pytest.raises(SessionNotFound):
        reader.events_of("none", "host", 1, 9)
