"""A damaged field of any column makes a reading command exit with code 4 or name the problem."""

import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from callboard.actors.protocol.errors import CorruptLog
from callboard.cli.main import cli
from callboard.runtime.log.protocol import Append
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.cli.recorded import record
from tests.effort import effort
from tests.runtime.log.kit import large, run

KEY = bytes(range(32))
COLUMNS = {
    "meta": ("key", "value"),
    "sessions": ("id", "session_id", "epoch", "head", "created_ms", "title", "origin"),
    "events": ("id", "at", "sender", "recipient", "cause", "body", "cuts", "digest"),
    "blobs": ("id", "digest", "data"),
}
CHAINED = {"at", "sender", "recipient", "cause", "body", "digest", "data", "origin", "session_id", "head"}
"""The columns that the hash chain covers: `verify` sees any other value there."""

VALUES = {
    "a flipped bit": "CAST(:flipped AS {kind})",
    "bytes that are not UTF-8": "CAST(x'ff80c000' AS {kind})",
    "text that is not UTF-8": "CAST(x'7bff' AS TEXT)",
    "bytes": "x'00ff'",
    "nothing": "NULL",
    "no bytes": "zeroblob(0)",
    "a word": "'noon'",
    "a list of lists": "'[[99999999999999999999,99999999999999999999]]'",
    "a fraction": "1.5",
    "infinity": "9e999",
    "a negative number": "-7",
    "a large number": "9223372036854775807",
    "an even larger one": "4611686018427387904",
}
COMMANDS = (
    ("sessions",), ("sessions", "--json"), ("show",), ("show", "--json"), ("tree",), ("events",),
    ("events", "--json"), ("verify",), ("verify", "--all"), ("export",),
    ("export", "--all", "--format", "json"), ("events", "--step", "--from", "5", "--to", "5"),
    ("show", "--state", "--at", "5"),
)  # fmt: skip


ALL = ("verify", "--all")
SHARE = effort(3, 1)
"""The suite runs `ALL` and a third of the commands on a value, another third on the next; the campaign runs
all."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record sessions of a real runtime, and one with large values."""
    path = tmp_path_factory.mktemp("recorded") / "log.db"
    record(path)
    add_large(SQLiteLog(path, "process"))
    return path


def add_large(log: SQLiteLog) -> None:
    async def work() -> None:
        await log.open()
        await log.create("large", 1, "a title")
        await log.append([Append("large", 0, 1, [large(1, 3_000), large(2, 4_000, "y")])])
        await log.close()

    run(work)


@contextmanager
def without_constraints(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a file with its NOT NULL constraints off, to change it as a damaged disk would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as first:
        first.execute("PRAGMA writable_schema = ON")
        kept = first.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        first.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE type = 'table'")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection
        connection.execute("PRAGMA writable_schema = ON")
        for name, sql in kept:
            connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (sql, name))


def damage(path: Path, table: str, column: str, value: str) -> bool:
    """Give one field another value. Return False if SQLite refuses the value or the value is the same."""
    number = {"meta": 1, "sessions": 2, "events": 7, "blobs": 1}[table]
    row = "key" if table == "meta" else "id"
    with without_constraints(path) as connection:
        where = f"{row} = (SELECT {row} FROM {table} ORDER BY {row} LIMIT 1 OFFSET {number - 1})"
        if column == "cuts":
            where = "cuts IS NOT NULL"
        before, kind = connection.execute(
            f"SELECT CAST({column} AS BLOB), typeof({column}) FROM {table} WHERE {where}"
        ).fetchone()
        flipped = bytearray(before or b"\0")
        flipped[len(flipped) // 2] ^= 0x81
        try:
            changed = connection.execute(
                f"UPDATE {table} SET {column} = {VALUES[value].format(kind=kind)} "
                f"WHERE {where} AND {column} IS NOT {VALUES[value].format(kind=kind)}",
                {"flipped": bytes(flipped)} if ":flipped" in VALUES[value] else {},
            )
        except sqlite3.IntegrityError:
            return False
        return changed.rowcount > 0


def outcomes(path: Path, commands: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], tuple[int, str]]:
    """Run reading commands. Return the exit code and output of each."""
    found: dict[tuple[str, ...], tuple[int, str]] = {}
    for command in commands:
        has_session = command[0] != "sessions" and "--all" not in command
        arguments = [*command, *(["20250102-report"] if has_session else []), "--log", str(path)]
        done = CliRunner().invoke(cli, arguments)
        assert done.exception is None or isinstance(done.exception, SystemExit), (arguments, done.exception)
        assert "unexpected" not in done.stderr, (arguments, done.stderr)
        found[command] = (done.exit_code, done.output)
    return found


CASES = [(table, column) for table, columns in COLUMNS.items() for column in columns]


@pytest.mark.slow
@pytest.mark.parametrize(("table", "column"), CASES)
def test_every_reading_command_reports_a_damaged_field(
    recorded: Path, tmp_path: Path, table: str, column: str
) -> None:
    tried = 0
    for number, value in enumerate(VALUES):
        # A file of its own for each value: a WAL that a reader left behind would bring back the value before.
        path = Path(shutil.copy(recorded, tmp_path / f"{number}.db"))
        if not damage(path, table, column, value):
            continue
        tried += 1
        found = outcomes(path, {*COMMANDS[tried % SHARE :: SHARE], ALL})
        assert {code for code, _ in found.values()} <= {0, 2, 3, 4, 5}, (value, found)
        if column in CHAINED and (table, column) != ("blobs", "digest"):
            assert found[ALL][0] == 4, (value, found)
    assert tried > 2


def test_an_event_behind_the_head_is_found_by_reader_and_owner(recorded: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(recorded, tmp_path / "log.db"))
    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        shell.execute("UPDATE sessions SET head = head - 1 WHERE session_id = 'large'")

    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        with pytest.raises(CorruptLog, match="event 2 comes after the last one"):
            await log.take_over("large")
        await log.close()

    run(work)
    with SQLiteReader(path) as reader, pytest.raises(CorruptLog, match="event 2 comes after the last one"):
        reader.verify_chain("large")


def test_an_encrypted_log_with_a_damaged_salt_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    add_large(SQLiteLog(path, encryption_key=KEY))
    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        shell.execute("UPDATE meta SET value = replace(value, '/1 ', '/1 x') WHERE key = 'encryption'")
    with pytest.raises(CorruptLog, match="no valid salt"):
        SQLiteReader(path, encryption_key=KEY)


def test_a_title_that_does_not_decrypt_hides_no_session(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    add_large(SQLiteLog(path, encryption_key=KEY))
    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        shell.execute("UPDATE sessions SET title = 'plain'")
    with SQLiteReader(path, encryption_key=KEY) as reader:
        assert [row.title for row in reader.sessions()] == ["(a title that cannot be read)"]
        assert reader.verify_chain("large").seq == 2
