"""MemoryLog: the contract, and the same bytes as SQLite's."""

from collections.abc import Awaitable, Callable
from itertools import product
from pathlib import Path

import pytest

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.errors import CorruptLog, SessionNotFound, StoreFailed, WrongHead
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.session.budget_keys import CallKey, Reservation, Settlement
from callboard.actors.session.usage_books import Charge
from callboard.replay.testing.stores.contract import StoreContract, StorePlace
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Append, EventLog, Head, LogReader
from callboard.runtime.log.session_rows import SessionQuery
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.runtime.log.kit import added, event, events, large, run


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


@pytest.mark.parametrize(
    "ask",
    [
        lambda log: log.create("t", 1, ""),
        lambda log: log.fork("f", 1, "", "s", 3),
        lambda log: log.take_over("s"),
        lambda log: log.append([]),
        lambda log: log.read("s"),
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


def charge(day: str, model: str, tokens: int) -> Charge:
    return Charge(day, model, "host", Usage(tokens, calls=1))


async def answers(log: EventLog) -> list[object]:
    """Let a log do everything that a log can do. Return all that it says."""
    said: list[object] = []
    await log.open()
    for name, made_ms in (("a", 5), ("b", 9), ("c", 9)):
        said.append(await log.create(name, made_ms, f"title of {name}", name.encode() * 32))
    spent = [charge("2026-11-29", "m", 4), charge("2026-11-28", "n", 5), charge("2026-11-29", "m", 6)]
    body = Begin(Json(b"{}"), Json(b'"x"'), ModelSpec("m"), Limits())
    mixed = [
        *events(1, 5),
        event(6, Cancel("x"), sender=HOST, recipient="host.1"),
        event(7, body, sender="host.1", recipient=HOST),
        *events(8, 12),
    ]
    said += await log.append([Append("a", 0, 1, mixed, (), spent), Append("b", 0, 1, events(1, 3))])
    said += await log.append([Append("a", 12, 1, [], (), [charge("2026-11-30", "m", 1)])])
    said.append(await log.fork("f", 20, "fork", "a", 9, events(10, 11)))
    said.append(await log.fork("g", 21, "fork of a fork", "f", 10))
    said.append(await log.fork("h", 22, "fork at a seam", "f", 9))
    said.append(await log.fork("i", 23, "fork at the end", "f", 11))
    for base in (0, 12):
        with pytest.raises(WrongHead) as caught:
            await log.fork("j", 24, "", "f", base)
        said.append(str(caught.value))
    for name, (start, limit) in product(
        "afghi", ((1, 99), (0, 3), (-5, 2), (8, 2), (9, 3), (10, 1), (12, 5), (3, 0))
    ):
        said.append(await log.read(name, start, limit))
    said.append([await log.read("a"), await log.read("g", 9)])
    for query in (
        SessionQuery(),
        SessionQuery(limit=2),
        SessionQuery(limit=0),
        SessionQuery(since_ms=1_000_000_000_000),
        SessionQuery(after=(await log.sessions())[1].cursor, limit=2),
    ):
        said.append(await log.sessions(query))
    said += [await log.take_over("b"), await log.take_over("b"), await log.head("g")]
    said += [await log.usage(), await log.usage("2026-11-29"), await log.usage("2027")]
    await log.set_usage("a", [charge("2026-11-29", "z", 3), charge("2026-11-29", "y", 3)])
    await log.set_usage("f", [charge("2026-11-29", "z", 2)])
    said += [await log.usage(), [row.usage for row in await log.sessions()]]
    said.append(await log.delete("a", keep_forks=True))
    said.append([await log.sessions(), await log.usage(), await log.read("f"), await log.head("f")])
    said += [await log.delete(name, keep_forks=True) for name in "fghic"]
    said.append(await log.sessions())
    said += await spending(log)
    await log.close()
    return said


def reserved(session: str, turn: int) -> Reservation:
    spans = (("*", "2026-11"), ("tenant:*=tenant:a", "2026-11-28"))
    return Reservation(CallKey(session, 1, "host.1", turn, 1), Need(100, 50), spans)


async def spending(log: EventLog) -> list[object]:
    """Let a log keep the spending of two sessions, and delete them. Return all that it says."""
    said: list[object] = []
    books = log.spending
    assert books is not None
    await log.create("early", 0, "")  # with no event that has a time
    for name, own in (("b", events(4, 5)), ("early", [])):
        changes = [reserved(name, 1), reserved(name, 2), Settlement(reserved(name, 1), Need(30, 3))]
        head = await log.head(name)
        (row,) = [one for one in await log.sessions() if one.session_id == name]
        said += await log.append([Append(name, head.seq, row.epoch, own, changes)])
        said += [await books.read(), sorted(await books.unlogged(), key=str)]
        await log.delete(name)
        said += [await books.read(), sorted(await books.unlogged(), key=str)]
    return said


def test_both_stores_answer_alike(tmp_path: Path) -> None:
    memory, file = MemoryLog(), SQLiteLog(tmp_path / "log.db")
    for one, other in zip(run(lambda: answers(memory)), run(lambda: answers(file)), strict=True):
        assert one == other
    with SQLiteReader(tmp_path / "log.db") as reader:
        kept: LogReader = MemoryReader(memory)
        assert (kept.sessions(), kept.usage()) == (reader.sessions(), reader.usage())
        (spent, lost), (same, also) = kept.spending(), reader.spending()
        assert (spent, sorted(lost, key=str)) == (same, sorted(also, key=str))
        assert spent.spent


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

    for log in (memory, file):
        run(lambda log=log: fill(log))
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
