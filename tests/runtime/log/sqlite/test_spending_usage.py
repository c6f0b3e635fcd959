"""The table of usage in a SQLite log: large batches, copies and damaged rows."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import CorruptLog, SessionNotFound
from callboard.actors.protocol.usage import Usage
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.protocol import Append
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from callboard.runtime.log.sqlite.schema import make_tables
from callboard.runtime.log.sqlite.spending import UsageTable
from tests.runtime.log.kit import large


def written(path: Path) -> None:
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
    written(path)
    with SQLiteReader(path) as reader:
        rows = reader.usage()
        assert {(row.session_id, row.day, row.model) for row in rows} == {("s", "2026-11-28", "m")}
        assert [(row.profile, row.usage.input_tokens, row.usage.calls) for row in rows] == [
            ("p0", 135, 10),
            ("p1", 145, 10),
            ("p2", 155, 10),
        ]
        reader.copy_to(tmp_path / "copy.db", "s")
    with SQLiteReader(tmp_path / "copy.db") as copy:
        assert copy.usage() == rows
        assert copy.sessions()[0].usage.calls == 30


@pytest.mark.parametrize("damage", ["calls = 'x'", "input_tokens = 1.5", "micro_usd = -1", "day = x'ff'"])
def test_a_damaged_row_is_refused_with_the_command_that_fills_it_again(path: Path, damage: str) -> None:
    written(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE usage SET {damage} WHERE profile = 'p1'")
    with SQLiteReader(path) as reader, pytest.raises(CorruptLog, match="usage --fill"):
        reader.usage()
    with SQLiteReader(path) as reader:
        assert reader.sessions()[0].usage.calls == 20  # its session is listed all the same


def test_usage_is_put_added_to_and_dropped_for_one_session() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        make_tables(connection)
        for number, name in enumerate("ab", 1):
            connection.execute(
                "INSERT INTO sessions(id, session_id, epoch, head, created_ms, title, origin) "
                "VALUES (?, ?, 1, 0, 0, '', x'')",
                (number, name),
            )
        table = UsageTable(connection)
        for name in "ab":
            table.put(name, [Charge("d", "m", "p", Usage(1)), Charge("d", "m", "p", Usage(2))])
        table.add({(1, ("d", "m", "p")): Usage(4), (1, ("e", "m", "p")): Usage(8)})
        assert [(row.session_id, row.day, row.usage.input_tokens) for row in table.read()] == [
            ("a", "d", 7),
            ("a", "e", 8),
            ("b", "d", 3),
        ]
        table.put("a", [])
        assert [row.session_id for row in table.read()] == ["b"]
        table.drop(2)
        assert table.read() == []
        with pytest.raises(SessionNotFound, match="c"):
            table.put("c", [])
