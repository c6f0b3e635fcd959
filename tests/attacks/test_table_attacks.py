"""A log file with triggers, views, indexes or changed tables is refused before it is read or written."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from callboard.actors.protocol.errors import StoreFailed, StoreUnreadable
from callboard.cli.main import cli
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.runtime.log.kit import added, events, run, write_some

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
CHANGES = {
    "a trigger that deletes what is appended": (
        "CREATE TRIGGER evil AFTER INSERT ON events BEGIN DELETE FROM events WHERE id = NEW.id; END",
        "trigger 'evil'",
    ),
    "a trigger that moves heads back": (
        "CREATE TRIGGER evil AFTER UPDATE ON sessions BEGIN UPDATE sessions SET head = 0; END",
        "trigger 'evil'",
    ),
    "a view": ("CREATE VIEW mine AS SELECT 1", "view 'mine'"),
    "a table": ("CREATE TABLE mine(a)", "table 'mine'"),
    "an index": ("CREATE UNIQUE INDEX mine ON events(at)", "index 'mine'"),
    "statistics": ("ANALYZE", "table 'sqlite_stat1'"),
    "a column": ("ALTER TABLE events ADD COLUMN note", "table 'events'"),
    "a view that is gone": ("DROP VIEW log", "view 'log'"),
    "another view of the same name": ("DROP VIEW log; CREATE VIEW log AS SELECT 1", "view 'log'"),
    "an endless view in place of a table": (
        f"DROP TABLE sessions; CREATE VIEW sessions AS SELECT i AS id, i AS session_id, i AS epoch, "
        f"i AS head, i AS created_ms, i AS title, i AS origin FROM ({ENDLESS})",
        "'sessions'",
    ),
    "an endless view in place of meta": (
        f"DROP TABLE meta; CREATE VIEW meta AS SELECT i AS key, i AS value FROM ({ENDLESS})",
        "'meta'",
    ),
    "a name that is not UTF-8": (
        "CREATE TABLE mine(a); PRAGMA writable_schema = ON; "
        "UPDATE sqlite_master SET name = CAST(x'ff6d' AS TEXT) WHERE name = 'mine'",
        "not UTF-8",
    ),
}  # fmt: skip


def change(path: Path, statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        for statement in statements.split("; ") if "BEGIN" not in statements else [statements]:
            shell.execute(statement)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("written") / "log.db"
    write_some(path)
    return path


@pytest.fixture
def path(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(written, tmp_path / "log.db"))


@pytest.mark.parametrize("name", CHANGES)
def test_owner_and_reader_refuse_a_changed_schema_and_leave_the_file_alone(path: Path, name: str) -> None:
    statements, said = CHANGES[name]
    change(path, statements)
    before = path.read_bytes()
    with pytest.raises(StoreUnreadable, match=said):
        SQLiteReader(path)
    with pytest.raises(StoreUnreadable, match=said):
        run(SQLiteLog(path).open)
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", ["sessions", "show", "events", "tree", "verify", "export"])
@pytest.mark.parametrize("name", [name for name in CHANGES if "endless" in name])
def test_no_reading_command_hangs_on_an_endless_view(path: Path, name: str, command: str) -> None:
    change(path, CHANGES[name][0])
    done = CliRunner().invoke(cli, [command, "--log", str(path)])
    assert done.exit_code == 4, done.output
    assert "which callboard did not make" in done.stderr


def test_a_trigger_that_is_added_under_an_open_log_stops_it_before_the_next_event(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        epoch, head = await log.take_over("s")
        await added(log, "s", epoch, events(head.seq + 1, head.seq + 2))
        change(path, next(iter(CHANGES.values()))[0])
        with pytest.raises(StoreFailed, match="trigger 'evil'"):
            await added(log, "s", epoch, events(head.seq + 3, head.seq + 4))
        await log.close()

    run(work)
    change(path, "DROP TRIGGER evil")
    with SQLiteReader(path) as reader:
        assert reader.verify_chain("s").seq == 12


def test_a_log_without_its_tables_is_refused(path: Path) -> None:
    change(path, "DROP VIEW log; DROP TABLE blobs")
    with pytest.raises(StoreUnreadable, match="lacks the table 'blobs'"):
        SQLiteReader(path)
