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
from callboard.actors.protocol.usage import Need
from callboard.actors.session.budget_keys import CallKey, Reservation, Settlement, SpendingChange
from callboard.runtime.log.protocol import Append
from callboard.runtime.log.spending import Spending, Unlogged
from callboard.runtime.log.sqlite.log import SQLiteLog

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
