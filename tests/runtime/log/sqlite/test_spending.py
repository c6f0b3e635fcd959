"""The tables of spending in a SQLite log: damaged rows, encrypted names, and batches of one statement."""

import asyncio
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Stopped
from callboard.actors.protocol.usage import NOTHING, Need, Usage
from callboard.actors.session.budget_keys import CallKey, Reservation, Settlement, SpendingChange
from callboard.actors.session.budget_scope import Spent
from callboard.runtime.log.cipher import new_cipher
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.protocol import Append
from callboard.runtime.log.spending import NetChanges, Spending, Unlogged
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.schema import make_tables
from callboard.runtime.log.sqlite.spending import SpendingTables
from tests.runtime.log.transcripts import answer_alike

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
    "tokens below zero": "UPDATE budgets SET tokens = -1",
    "half a token": "UPDATE budgets SET tokens = 1.5",
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


# --- the statements alone ---------------------------------------------------------------


@pytest.fixture(params=["plain", "encrypted"])
def tables(request: pytest.FixtureRequest) -> Iterator[SpendingTables]:
    with closing(sqlite3.connect(":memory:")) as connection:
        make_tables(connection)
        cipher = new_cipher(b"k" * 32) if request.param == "encrypted" else None
        yield SpendingTables(connection, cipher)


def held(session: str, epoch: int, turn: int = 1, scope: str = "b", need: Need = Need(5, 7)) -> Reservation:  # noqa: B008  # it never changes
    return Reservation(CallKey(session, epoch, "host", turn, 1), need, ((scope, "2"),))


def test_amounts_and_reservations_are_read_in_order_for_all_scopes_or_some(tables: SpendingTables) -> None:
    spans = (("b", "2"), ("b", "1"), ("a", "9"))
    settled = Reservation(CallKey("s", 1, "host", 9, 1), Need(5, 7), spans)
    only_money, only_tokens = held("t", 1, need=Need(0, 5)), held("r", 1, scope="a", need=Need(5, 0))
    tables.apply([settled, only_money, only_tokens], {})
    tables.apply([Settlement(settled, Need(0, 3))], {(4, ("2026-11-28", "m", "p")): Usage(1, calls=1)})
    amount = Need(0, 3)
    spent = (Spent("a", "9", amount), Spent("b", "1", amount), Spent("b", "2", amount))
    assert tables.read() == Spending(spent, (only_tokens, only_money))
    assert tables.read(["b", "c"]) == Spending(spent[1:], (only_money,))
    assert tables.read([]) == Spending()
    rows = tables.usage._connection.execute("SELECT session, day, input_tokens FROM usage").fetchall()
    assert rows == [(4, "2026-11-28", 1)]


def test_a_settlement_that_charges_nothing_closes_its_reservation(tables: SpendingTables) -> None:
    tables.apply([held("s", 1)], {})
    tables.apply([Settlement(held("s", 1), NOTHING)], {})
    assert tables.read() == Spending()
    assert [*tables.parameters(NetChanges(), {})] == ["usage"]  # as for most batches


def test_only_earlier_epochs_of_the_session_are_handed_over(tables: SpendingTables) -> None:
    others = [held("r", 1), held("s", 2, 3), held("s", 3)]
    tables.apply([held("s", 1), held("s", 1, 2), *others], {})
    assert tables.hand_over("s", 2, [held("s", 2)], [], 77) == [held("s", 1, 2)]
    assert tables.read() == Spending((Spent("b", "2", Need(5, 7)),), tuple(sorted([held("s", 2), *others])))
    assert tables.unlogged() == [Unlogged(held("s", 1, 2), 77)]


def test_all_reservations_of_a_session_that_is_deleted_are_charged(tables: SpendingTables) -> None:
    tables.apply([held("s", 1), held("s", 99), held("r", 1)], {})
    tables.charge_all("s", 88)
    assert tables.read() == Spending((Spent("b", "2", Need(10, 14)),), (held("r", 1),))
    assert tables.unlogged() == [Unlogged(held("s", 1), 88), Unlogged(held("s", 99), 88)]
    tables._connection.execute("UPDATE reservations SET held = '00'")
    with pytest.raises(CorruptLog, match="row of a reservation"):
        tables.read()


def test_spending_and_usage_in_a_file_are_those_in_memory(tmp_path: Path) -> None:
    answer_alike(MemoryLog(), tmp_path / "file.db")
