"""The tables of spending in a SQLite log: damaged rows, encrypted names, and batches of one statement."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Stopped
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.session.budget_keys import CallKey, Reservation, Settlement, SpendingChange
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.protocol import Append
from callboard.runtime.log.spending import Spending, Unlogged
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.runtime.log.kit import large

SPANS = (("tenant:*=tenant:acme", "2026-11-28"),)


def call(turn: int, epoch: int = 1) -> Reservation:
    return Reservation(CallKey("s", epoch, "host.1", turn, 1), Need(100, 50), SPANS)


def written(path: Path, *changes: SpendingChange, key: bytes | None = None) -> None:
    """Write a log with one event and these changes."""

    async def write() -> None:
        log = SQLiteLog(path, encryption_key=key)
        await log.open()
        await log.create("s", 0, "")
        await log.append([Append("s", 0, 1, [Event(1, 5, "host", "supervisor", 0, Stopped())], changes)])
        await log.close()

    asyncio.run(write())


def read(path: Path) -> tuple[Spending, Sequence[Unlogged]]:
    async def look() -> tuple[Spending, Sequence[Unlogged]]:
        log = SQLiteLog(path)
        await log.open()
        try:
            return await log.spending.read(), await log.spending.unlogged()
        finally:
            await log.close()

    return asyncio.run(look())


def test_lost_reservations_are_listed_as_they_were(path: Path) -> None:
    written(path, call(1), call(2))

    async def lose() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.spending.hand_over("s", 2, [call(1, epoch=2)], [], 77)
        await log.close()

    asyncio.run(lose())
    spending, unlogged = read(path)
    assert list(unlogged) == [Unlogged(call(2), 77)]
    assert spending.reserved == (call(1, epoch=2),)


CHANGES = (call(1), call(2), Settlement(call(1), Need(30, 3)))
DAMAGES = {
    "a text for tokens": "UPDATE budgets SET tokens = 'many'",
    "tokens below zero": "UPDATE budgets SET tokens = -5",
    "a real number": "UPDATE budgets SET micro_usd = 1.5",
    "a period in other bytes": "UPDATE budgets SET period = x'ff'",
    "half of a list": "UPDATE reservations SET held = '[['",
    "a key of another kind": 'UPDATE reservations SET call = \'["s", "x"]\'',
    "a need below zero": "UPDATE reservations SET held = '[5, -1, []]'",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_row_is_refused_and_named(path: Path, damage: str) -> None:
    written(path, *CHANGES)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    with pytest.raises(CorruptLog, match="damaged"):
        read(path)


def test_an_encrypted_log_shows_no_tag_of_a_scope(path: Path) -> None:
    written(path, *CHANGES, key=b"k" * 32)
    with closing(sqlite3.connect(path)) as connection:
        rows = [
            *connection.execute("SELECT * FROM budgets"),
            *connection.execute("SELECT * FROM reservations"),
        ]
    assert len(rows) == 2
    assert "acme" not in repr(rows)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE budgets SET name = '00'")

    async def look() -> None:
        log = SQLiteLog(path, encryption_key=b"k" * 32)
        await log.open()
        try:
            with pytest.raises(CorruptLog, match="row of a budget"):
                await log.spending.read()
            assert (await log.spending.unlogged()) == []
        finally:
            await log.close()

    asyncio.run(look())


def test_the_amounts_of_the_sum_of_many_batches_are_exact(path: Path) -> None:
    written(path, *[change for n in range(200) for change in (call(n), Settlement(call(n), Need(n, 1)))])
    spending, unlogged = read(path)
    assert [one.amount for one in spending.spent] == [Need(sum(range(200)), 200)]
    assert (spending.reserved, unlogged) == ((), [])


def written_of_usage(path: Path) -> None:
    """Write a batch that takes several statements, with usage."""

    async def write() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 0, "")
        charges = [Charge("2026-11-28", "m", f"p{n % 3}", Usage(n, calls=1)) for n in range(30)]
        events = [large(seq, 1_500_000) for seq in range(1, 5)]
        await log.append([Append("s", 0, 1, events, (), charges)])
        await log.close()

    asyncio.run(write())


def test_a_batch_of_several_statements_has_its_usage_and_so_has_a_copy(path: Path, tmp_path: Path) -> None:
    written_of_usage(path)
    with SQLiteReader(path) as reader:
        rows = reader.usage()
        assert [(row.profile, row.usage.input_tokens, row.usage.calls) for row in rows] == [
            ("p0", 135, 10),
            ("p1", 145, 10),
            ("p2", 155, 10),
        ]
        reader.copy_to(tmp_path / "copy.db", "s")
    with SQLiteReader(tmp_path / "copy.db") as copy:
        assert copy.usage() == rows
        assert copy.sessions()[0].usage.calls == 30


@pytest.mark.parametrize("damage", ["calls = 'x'", "micro_usd = -1", "day = x'ff'"])
def test_a_damaged_row_is_refused_with_the_command_that_fills_it_again(path: Path, damage: str) -> None:
    written_of_usage(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE usage SET {damage} WHERE profile = 'p1'")
    with SQLiteReader(path) as reader, pytest.raises(CorruptLog, match="usage --fill"):
        reader.usage()
    with SQLiteReader(path) as reader:
        assert reader.sessions()[0].usage.calls == 20  # its session is listed all the same
