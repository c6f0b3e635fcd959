"""MemoryLog: the contract, and the same bytes as SQLite's."""

from collections.abc import Awaitable, Callable
from copy import deepcopy
from pathlib import Path

import pytest

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.errors import CorruptLog, Fenced, SessionNotFound, StoreFailed
from callboard.replay.testing.stores.contract import StoreContract, StorePlace
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import TAIL_EVENTS, Append, EventLog, Head, LogReader
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.runtime.log.kit import added, event, events, large, run
from tests.runtime.log.transcripts import answer_alike
from tests.tables import table


class InMemory:
    """A log that lasts as long as this object."""

    def __init__(self) -> None:
        self.logs: list[MemoryLog] = []

    def log(self, key: bytes | None = None) -> MemoryLog:
        if not self.logs:
            self.logs.append(MemoryLog(key))
        return self.logs[0]

    def reader(self) -> MemoryReader:
        return MemoryReader(self.logs[0])

    def after_crash(self) -> None:
        return None

    def set_back(self) -> Callable[[], None]:
        (log,) = self.logs
        kept = deepcopy(log._sessions)
        return lambda: setattr(log, "_sessions", kept)


class TestMemoryLog(StoreContract):
    @pytest.fixture
    def place(self) -> StorePlace:
        return InMemory()


def filled(log: EventLog) -> Head:
    async def work() -> Head:
        await log.open()
        await log.create("s", 5, "title", b"o" * 32)
        head = await added(log, "s", 1, [*events(1, 50), large(51), large(52), *events(53, 60)])
        await log.close()
        return head

    return run(work)


@pytest.mark.parametrize("key", [None, b"a key"])
def test_both_stores_give_the_same_bytes_and_the_same_head(tmp_path: Path, key: bytes | None) -> None:
    memory, file = MemoryLog(key), SQLiteLog(tmp_path / "log.db", key=key)
    assert filled(memory) == filled(file)
    readers: list[LogReader] = [MemoryReader(memory), SQLiteReader(tmp_path / "log.db")]
    one, other = readers
    assert one.events("s") == other.events("s")
    assert one.sessions() == other.sessions()
    assert one.verify_chain("s", key) == other.verify_chain("s", key)
    other.close()


def test_a_changed_row_and_a_changed_value_are_found() -> None:
    log = MemoryLog()
    filled(log)
    session = log._sessions["s"]
    before = session.rows[20]
    session.rows[20] = before.replace(b"reason 21", b"reason 99")
    with MemoryReader(log) as reader, pytest.raises(CorruptLog, match="event 21"):
        reader.verify_chain("s")
    session.rows[20] = before
    (digest,) = log._blobs
    log._blobs[digest] = log._blobs[digest].replace(b"x", b"y", 1)
    with MemoryReader(log) as reader, pytest.raises(CorruptLog, match="event 51"):
        reader.verify_chain("s")


def test_a_session_is_taken_over_once_its_last_events_were_checked() -> None:
    async def work() -> None:
        log, last = MemoryLog(), TAIL_EVENTS + 5
        await log.open()
        await log.create("s", 1, "")
        await added(log, "s", 1, events(1, last))
        rows = log._sessions["s"].rows
        rows[1] = rows[1].replace(b"reason 2", b"reason 9")
        assert (await log.take_over("s"))[0] == 2  # a session that goes on is checked whole as it is read
        rows[-1] = rows[-1].replace(b"reason", b"raison")
        with pytest.raises(CorruptLog, match=f"event {last}"):
            await log.take_over("s")
        assert log._sessions["s"].epoch == 2

    run(work)


def test_a_page_from_before_the_first_event_begins_with_it(tmp_path: Path) -> None:
    log, file = MemoryLog(), SQLiteLog(tmp_path / "log.db")
    for one in (log, file):
        filled(one)
    with SQLiteReader(file.path) as reader:
        for each in (MemoryReader(log), reader):
            assert [row.seq for row in each.events("s", 0, 3)] == [1, 2, 3]
            assert [row.seq for row in each.events_of("s", HOST, -3, 2)] == [1, 2]
            assert each.events_of("s", HOST, 3, 1) == []


def test_a_fork_of_a_damaged_session_is_refused() -> None:
    log = MemoryLog()
    filled(log)
    rows = log._sessions["s"].rows
    rows[0] = rows[0].replace(b"reason 1", b"reason 9")

    async def work() -> None:
        await log.open()
        with pytest.raises(CorruptLog):
            await log.fork("f", 1, "", "s", 2)

    run(work)


def test_a_value_that_many_events_carry_is_kept_once() -> None:
    log = MemoryLog()
    filled(log)
    assert len(log._blobs) == 1
    assert all(len(row) < 600 for row in log._sessions["s"].rows)


@pytest.mark.parametrize("kind", ["memory", "file", "encrypted"])
def test_a_log_keeps_since_when_a_session_waits_for_its_code_beside_its_events(
    tmp_path: Path, kind: str
) -> None:
    key = b"k" * 32 if kind == "encrypted" else None
    log = MemoryLog() if kind == "memory" else SQLiteLog(tmp_path / "log.db", encryption_key=key)
    head = filled(log)

    async def work() -> None:
        await log.open()
        assert await log.waiting_since("s") == 0
        await log.set_waiting("s", 1_700_000_000_000)
        assert await log.waiting_since("s") == 1_700_000_000_000
        (row,) = await log.sessions()
        assert (row.waits_ms, row.head, row.epoch) == (1_700_000_000_000, head.seq, 1)
        await log.set_waiting("s", 0)
        assert await log.waiting_since("s") == 0
        with pytest.raises(SessionNotFound):
            await log.set_waiting("other", 1)
        await log.close()

    run(work)


def test_the_size_of_a_log_is_that_of_the_events_and_values_that_it_still_has() -> None:
    log = MemoryLog()

    def held() -> int:
        rows = sum(len(row) for session in log._sessions.values() for row in session.rows)
        return rows + sum(map(len, log._blobs.values()))

    async def work() -> None:
        await log.open()
        for name in "ab":
            await log.create(name, 1, "")
            await added(log, name, 1, [*events(1, 5), large(6), large(7, 5_000, name)])
            assert log.size_bytes() == held() > 0
        values = {value[1:2] for value in log._blobs.values()}
        assert values == {b"x", b"a", b"b"}
        await log.fork("f", 1, "", "a", 6)
        for name, count, left in (("a", 1, {b"x", b"b"}), ("f", 6, {b"x", b"b"}), ("b", 7, set())):
            assert await log.delete(name, keep_forks=True) == count
            assert {value[1:2] for value in log._blobs.values()} == left
            assert log.size_bytes() == held()
        assert log.size_bytes() == 0

    run(work)


@table(
    "ask",
    [
        lambda log: log.create("t", 1, ""),
        lambda log: log.fork("f", 1, "", "s", 3),
        lambda log: log.take_over("s"),
        lambda log: log.append([]),
        lambda log: log.read("s"),
        lambda log: log.create("s", 1, ""),
        lambda log: log.fork("f", 1, "", "nowhere", 1),
        lambda log: log.head("s"),
        lambda log: log.waiting_since("s"),
        lambda log: log.set_waiting("s", 1),
        lambda log: log.sessions(),
        lambda log: log.delete("s"),
        lambda log: log.purge(),
        lambda log: log.vacuum(None),
    ],
)
def test_a_log_that_is_closed_takes_and_says_nothing(ask: Callable[[MemoryLog], Awaitable[object]]) -> None:
    log = MemoryLog()
    head = filled(log)

    async def work() -> None:
        with pytest.raises(StoreFailed, match="not open"):
            await ask(log)
        await log.open()
        assert (await log.purge(), await log.vacuum(None), await log.vacuum(9)) == (False, 0, 0)
        assert (await log.head("s"), await log.waiting_since("s"), len(await log.sessions())) == (head, 0, 1)

    run(work)


def test_events_that_are_stale_are_refused_as_stale_even_if_they_cannot_be_written() -> None:
    async def work() -> None:
        log = MemoryLog()
        await log.open()
        await log.create("s", 1, "")
        unwritable = [event(1, sender="\ud800")]
        answers = await log.append([Append("s", 0, 2, unwritable), Append("s", 0, 1, unwritable)])
        assert [type(one) for one in answers] == [Fenced, StoreFailed]

    run(work)


def test_both_stores_answer_alike(tmp_path: Path) -> None:
    answer_alike(MemoryLog(), tmp_path / "log.db")


def test_readers_of_both_stores_find_the_events_of_an_actor_alike(tmp_path: Path) -> None:
    memory, file = MemoryLog(), SQLiteLog(tmp_path / "log.db")

    async def fill(log: EventLog) -> None:
        await log.open()
        await log.create("s", 1, "")
        own = [
            event(seq, Cancel("x"), sender=sender, recipient=recipient)
            for seq, (sender, recipient) in enumerate(
                [(HOST, "host.1"), ("host.1", HOST), (HOST, "x")] * 3, 1
            )
        ]
        await log.append([Append("s", 0, 1, own)])
        await log.close()

    run(lambda: fill(memory))
    run(lambda: fill(file))
    with SQLiteReader(tmp_path / "log.db") as reader:
        kept = MemoryReader(memory)
        for first, last, limit in (
            (1, 9, 99),
            (2, 5, 99),
            (2, 5, 1),
            (5, 5, 9),
            (5, 4, 9),
            (7, 3, 9),
            (1, 99, 99),
        ):
            found = kept.events_of("s", "host.1", first, last, limit)
            assert found == reader.events_of("s", "host.1", first, last, limit)
            assert {seq.seq for seq in found} <= set(range(first, last + 1))


def test_a_large_value_that_another_session_has_outlives_both_parts_of_a_deleted_one() -> None:
    async def work() -> None:
        log = MemoryLog()
        await log.open()
        for name in "st":
            await log.create(name, 1, "")
            await added(log, name, 1, [*events(1, 2), large(3)])
        await log.fork("f", 2, "", "s", 2)
        await log.delete("s", keep_forks=True)
        await log.delete("f")
        assert len((await log.read("t"))[-1].body) > len((await log.read("t"))[0].body)
        await log.delete("t")
        assert log.size_bytes() == 0
        await log.close()

    run(work)
